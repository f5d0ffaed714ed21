"""``raybench baseline``: what a healthy configuration reaches over many runs, and whether a later run still does."""

import sys
from pathlib import Path
from typing import Any

import click

from raybench.cli.comparing.showing import FORMAT, FULL, JSON, OUTPUT, RESULT, show_document
from raybench.cli.output import deliver, say
from raybench.cli.usage.command import TopicGroup
from raybench.reports.formats import FORMATS

EXAMPLES = """\b
Examples:
  raybench baseline create runs/week-1/ -o healthy.json     a folder of runs, or RUN RUN RUN ...
  raybench baseline check healthy.json runs/today           exits with 1 on a regression of 5 % or more
  raybench baseline check healthy.json runs/today --gate 2%
"""


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Keep what a healthy configuration reaches over many runs, and check later runs against it.

    The spread between the runs decides what is a difference, which one run alone cannot show.
    """


@command.command(epilog=EXAMPLES)
@click.argument("runs", nargs=-1, required=True, type=RESULT)
@click.option(
    "--output", "-o", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file of the baseline."
)
def create(runs: tuple[Path, ...], output: Path) -> None:
    """Make a baseline of RUNS: three or more of the same configuration, or a folder of them."""
    from raybench.services.comparing.baseline import create_baseline

    made = create_baseline(runs)
    deliver(FORMATS["json"].render(made), output)
    say(f"raybench: {output}: {len(made.figures)} figures of {len(made.run_ids)} runs")
    for one in made.omitted:
        say(f"raybench: left out: {one}")


@command.command(epilog=EXAMPLES)
@click.argument("baseline", type=RESULT)
@click.argument("result", type=RESULT)
@click.option("--gate", default="5%", show_default=True, metavar="SHARE", help="The least regression that counts.")
@click.option("--unlike", is_flag=True, help="Compare other GPUs, nodes, ranks or backends all the same.")
@JSON
@FORMAT
@FULL
@OUTPUT
def check(baseline: Path, result: Path, gate: str, *, unlike: bool, **shown: Any) -> None:
    """Compare RESULT, a run or a folder of several, with BASELINE.

    The exit code is 1 where it failed or is worse by the gate or more, 3 where something is missing or that cannot
    be told.
    """
    from raybench.services.comparing.baseline import check_baseline

    found = check_baseline(baseline, result, gate=gate, allow_unlike=unlike)
    show_document(found, **shown)
    sys.exit(found.exit_code)
