"""``raybench init``: a first inventory."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing
from raybench.cli.usage.command import TopicCommand

if TYPE_CHECKING:
    from raybench.services.init import WrittenInventory

EXAMPLES = """\b
Examples:
  raybench init gpu-01 gpu-02 gpu-03                  the first is the head of the Ray cluster
  raybench init --hosts 'gpu-[01-10]' --head gpu-10
  raybench init ubuntu@node1=10.0.0.1 ubuntu@node2=10.0.0.2
  raybench init --hostfile hosts.mpi                  'node1 slots=8', a host a line
  raybench init                                       in a job of Slurm, PBS, LSF or SGE: its nodes
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("names", nargs=-1, metavar="[HOST]...")
@click.option("--hosts", "lists", multiple=True, metavar="LIST", help="Names with ranges, as Slurm and pdsh write "
              "them: 'gpu-[01-10,12]'. May be repeated.")  # fmt: skip
@click.option("--hostfile", type=click.Path(path_type=Path), metavar="FILE", help="Host file of MPI.")
@click.option("--head", metavar="HOST", help="Where Ray's head runs.  [default: the first]")
@click.option("-o", "--output", default="hosts.yml", show_default=True, type=click.Path(path_type=Path), metavar="FILE",
              help="The inventory to write.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the file where it is there already.")
def command(
    names: tuple[str, ...], lists: tuple[str, ...], hostfile: Path | None, head: str | None, output: Path, force: bool
) -> None:
    """Write an inventory of your hosts, with comments on what may be set, and check that it can be read.

    No host is contacted. A file that is there is never overwritten without --force.
    """
    announce("checking the inventory")
    from raybench.services.init import write_inventory  # not needed for --help

    written = write_inventory((*names, *lists), output, hostfile=hostfile, head=head, force=force)
    with printing("stdout"):
        for line in _lines(written):
            click.echo(line)
    sys.exit(0)


def _lines(written: "WrittenInventory") -> list[str]:
    from raybench.host_ranges import folded

    path, number = written.path, len(written.hosts)
    count = f"{number} host{'s' if number > 1 else ''}{f' of {written.source}' if written.source else ''}"
    steps = (
        (f"raybench preflight -i {path}", "are they right?"),
        (f"raybench configure -i {path} --check", "what would be changed; nothing is"),
        (f"raybench cluster up -i {path}", "Ray over all of them"),
        (f"raybench run --nodes {number}", "measured, verified communication"),
    )
    width = max(len(step) for step, _ in steps)
    return [
        f"{path}: {count}, head {written.head}{f', workers {folded(written.workers, 8)}' if written.workers else ''}",
        "Next:",
        *(f"  {step:<{width}}   {what}" for step, what in steps),
    ]
