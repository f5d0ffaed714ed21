"""``raybench launch torchrun``, ``mpirun`` and ``rank``."""

import sys
from typing import Any

import click

from raybench.cli.launching.words import LaunchCommand, launched_words

_PLACE: list[Any] = [
    click.option("--nodes", type=int, metavar="N", help="Nodes of the run.  [default: 1, or as --hosts has]"),
    click.option("--gpus-per-node", "ranks_per_node", type=int, default=1, show_default=True, metavar="G",
                 help="Ranks on each node, one per GPU."),
    click.option("--master-address", metavar="HOST", help="Address of the first node, which the others reach."),
    click.option("--master-port", type=int, default=29500, show_default=True, metavar="PORT",
                 help="Port there; the ports above it are tried where it is taken."),
    click.option("--launcher-option", "options", multiple=True, metavar="WORD",
                 help="Any other option of the launcher, as one word. May be repeated."),
    click.option("--python", default=sys.executable, metavar="PATH",
                 help="Python that has raybench, on the nodes.  [default: the one that runs this]"),
    click.option("--dry-run", is_flag=True, help="Print the command, and start nothing."),
]  # fmt: skip

TORCHRUN_EXAMPLES = """\b
Examples:
  raybench launch torchrun --gpus-per-node 8 -- run --suite all_reduce       eight ranks on this node
  raybench launch torchrun --nodes 2 --gpus-per-node 8 --master-address node1 -- train --model gpt2
                                                        typed on both nodes
  torchrun --standalone --nproc-per-node 8 -m raybench launch rank -- run    the same, by hand

Results are written on the node of rank 0; all ranks end with the exit code of the run.
"""
MPIRUN_EXAMPLES = """\b
Examples:
  raybench launch mpirun --gpus-per-node 8 -- run --suite all_reduce         eight ranks on this node
  raybench launch mpirun --hosts node1,node2 --gpus-per-node 8 -- train --model gpt2 --strategy fsdp
  mpirun -np 16 --map-by ppr:8:node -x MASTER_ADDR=node1 python -m raybench launch rank -- run

The results are written on the node of rank 0, the first of --hosts.
"""
RANK_EXAMPLES = """\b
Examples:
  torchrun --standalone --nproc-per-node 8 -m raybench launch rank -- run --suite all_reduce
  srun --nodes 2 --ntasks-per-node 8 python -m raybench launch rank -- train --model gpt2
  mpirun -np 16 --map-by ppr:8:node -x MASTER_ADDR=node1 python -m raybench launch rank -- run

Rank, number of ranks and address of rank 0 come from the variables of torchrun, srun, Open MPI or MPICH (PMI);
MASTER_ADDR and MASTER_PORT win over what they say. RAYBENCH_LAUNCH_SECRET, the same for all ranks, keeps others out.
"""


def _with_place(command: Any) -> Any:
    for option in reversed(_PLACE):
        command = option(command)
    return command


@click.command("torchrun", cls=LaunchCommand, epilog=TORCHRUN_EXAMPLES, options_metavar="[OPTIONS] -- COMMAND")
@_with_place
@click.pass_context
def torchrun(context: click.Context, /, dry_run: bool, **given: Any) -> None:
    """Run a command of raybench under torchrun, without Ray: the same measurement and the same report."""
    _launch(context, "torchrun", dry_run=dry_run, given=given)


@click.command("mpirun", cls=LaunchCommand, epilog=MPIRUN_EXAMPLES, options_metavar="[OPTIONS] -- COMMAND")
@_with_place
@click.option("--hosts", metavar="HOST,...", help="The nodes, the first is rank 0's.  [default: this machine]")
@click.pass_context
def mpirun(context: click.Context, /, dry_run: bool, hosts: str | None, **given: Any) -> None:
    """Run a command of raybench under Open MPI's mpirun, without Ray: the same measurement and the same report."""
    names = tuple(name.strip() for name in (hosts or "").split(",") if name.strip())
    _launch(context, "mpirun", dry_run=dry_run, given={**given, "hosts": names})


@click.command("rank", cls=LaunchCommand, epilog=RANK_EXAMPLES, options_metavar="-- COMMAND")
@click.pass_context
def rank(context: click.Context, /) -> None:
    """Be one rank of a run, in a process that torchrun, srun or mpirun started."""
    from raybench.services.launching.ranks import be_rank

    sys.exit(be_rank(launched_words(context, own_folder=True)))


def _launch(context: click.Context, launcher: Any, *, dry_run: bool, given: dict[str, Any]) -> None:
    from raybench.services.launching.ranks import RanksRequest, check_rank_words, planned, run_under

    words = launched_words(context, own_folder=True)
    check_rank_words(words)
    request = RanksRequest(**given)
    if dry_run:
        click.echo(planned(launcher, request, words), nl=False)
        return
    sys.exit(run_under(launcher, request, words))
