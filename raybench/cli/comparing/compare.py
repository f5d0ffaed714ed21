"""``raybench compare``: results that exist beside each other."""

import sys
from pathlib import Path
from typing import Any

import click

from raybench.cli.comparing.showing import FORMAT, FULL, JSON, OUTPUT, RESULT, show_document
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench compare runs/monday runs/tuesday           two runs, or two folders of several runs each
  raybench compare before/ after/ --gate 5%           for CI: exits with 1 on a regression of 5 % or more
  raybench compare old.log new.log                    what two runs of nccl-tests printed
  raybench compare A B C --format markdown            B and C, each beside A, for an issue
  raybench compare A B C --plot curves.svg            loss, step time and bandwidth of all in one picture
  raybench compare H100/run H200/run --unlike         other GPUs: compared all the same
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("results", nargs=-1, required=True, metavar="A B [...]", type=RESULT)
@click.option(
    "--gate",
    metavar="SHARE",
    help="The least regression that counts, such as 5%: exit code 1 where there is one, 3 where it cannot be told.",
)
@click.option("--unlike", is_flag=True, help="Compare other GPUs, nodes, ranks or backends all the same.")
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw losses, step times and bandwidths of all over each other: FILE.svg, .png or .pdf.",
)
@JSON
@FORMAT
@FULL
@OUTPUT
def command(results: tuple[Path, ...], gate: str | None, plot: Path | None, *, unlike: bool, **shown: Any) -> None:
    """Compare results that exist: A is the reference, each of the others is shown beside it.

    Each is a run, a training, a memory or checkpoint test, a study, a preflight, a fabric test, ranks under
    torchrun, what nccl-tests printed (or its -J file), or files of NCCL Inspector; by its folder or file. Or
    a folder of several of the same, whose spread then decides.

    What differs in configuration and environment comes first, then each figure with its ratio and a 95 %
    interval. "no difference" leaves out one of 5 %; where the runs cannot, it is "cannot tell", with the
    smallest difference that they could show. The exit code is 1 where a side failed and A did not, 3 where
    something is missing or cannot be told, also without --gate.
    """
    from raybench.services.comparing.compare import compare_results

    found = compare_results(results, gate=gate, allow_unlike=unlike, plot=plot)
    show_document(found, **shown)
    sys.exit(found.exit_code)
