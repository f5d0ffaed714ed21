"""``raybench init``: a first inventory."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.hosts.inventory_draft import DraftHost

EXAMPLES = """\b
Examples:
  raybench init gpu-01 gpu-02 gpu-03                  the first is the head of the Ray cluster
  raybench init --hosts 'gpu-[01-10]' --head gpu-10
  raybench init ubuntu@node1=10.0.0.1 ubuntu@node2=10.0.0.2
  raybench init --hostfile hosts.mpi                  'node1 slots=8', a host a line
  raybench init                                       in a job of Slurm, PBS, LSF or SGE: its nodes
"""


@click.command(epilog=EXAMPLES)
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
    from raybench.hosts.inventory_draft import draft_text  # not needed for --help

    if output.exists() and not force:
        raise UsageError(f"{output} is there already; --force replaces it, --output names another file")
    hosts, source = _hosts((*names, *lists), hostfile)
    chosen = head or hosts[0].name
    if chosen not in {host.name for host in hosts}:
        raise UsageError(f"--head {chosen} is none of the {len(hosts)} hosts; name it among them, too")
    announce("checking the inventory")
    _write(output, draft_text(hosts, chosen), hosts, chosen)
    with printing("stdout"):
        for line in _lines(output, hosts, chosen, source):
            click.echo(line)
    sys.exit(0)


def _hosts(words: tuple[str, ...], hostfile: Path | None) -> tuple[tuple["DraftHost", ...], str]:
    """The hosts, and what named them where it was not the command line. Raises UsageError where there are none."""
    from raybench.hosts.inventory_draft import hosts_of, names_of_job, read_hostfile

    source = ""
    if hostfile is not None:
        words = (*words, *read_hostfile(hostfile))
    if not words:
        words, source = names_of_job(os.environ)
    hosts = hosts_of(words)
    if not hosts:
        raise UsageError(
            "name the hosts: raybench init gpu-01 gpu-02, --hosts 'gpu-[01-10]' or --hostfile FILE (a job of Slurm, "
            "PBS, LSF or SGE, which would tell them, was not found)"
        )
    return hosts, source


def _write(output: Path, text: str, hosts: tuple["DraftHost", ...], head: str) -> None:
    """Write the file once Ansible has read it as it is meant. Raises UsageError where it cannot be written."""
    from raybench.hosts.inventory import read_inventory
    from raybench.whole_file import write_whole

    draft = output.with_name(f".{output.stem}-{os.getpid()}.yml")
    try:
        write_whole(draft, text)
        read = read_inventory([draft])
        if set(read.names) != {host.name for host in hosts} or read.groups.get("ray_head") != (head,):
            raise UsageError(f"Ansible reads other hosts than were named: {', '.join(read.names)}; please report this")
        write_whole(output, text)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}; choose another --output") from error
    finally:
        draft.unlink(missing_ok=True)


def _lines(output: Path, hosts: tuple["DraftHost", ...], head: str, source: str) -> list[str]:
    from raybench.host_ranges import folded

    workers = [host.name for host in hosts if host.name != head]
    count = f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}{f' of {source}' if source else ''}"
    steps = (
        (f"raybench preflight -i {output}", "are they right?"),
        (f"raybench configure -i {output} --check", "what would be set right; nothing is changed"),
        (f"raybench cluster up -i {output}", "Ray over all of them"),
        (f"raybench run --nodes {len(hosts)}", "measured, verified communication"),
    )
    width = max(len(step) for step, _ in steps)
    return [
        f"{output}: {count}, head {head}{f', workers {folded(workers, 8)}' if workers else ''}",
        "Next:",
        *(f"  {step:<{width}}   {what}" for step, what in steps),
    ]
