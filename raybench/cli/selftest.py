"""``raybench selftest``: does this installation work, from the driver to a training?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.output import printing, say
from raybench.cli.usage.command import TopicCommand

if TYPE_CHECKING:
    from raybench.documents.selftest import SelftestCheck
    from raybench.services.selftest.check import Check
    from raybench.services.selftest.conduct import SelftestProgress

EXAMPLES = """\b
Examples:
  raybench selftest                             all that this machine can prove; half a minute without GPUs
  raybench selftest --need-gpu                    GPUs are to be proved: exit code 3 where there is none to use
  raybench selftest --quick                     one message size and one training
  raybench selftest --only torch-cuda,nccl-library
  raybench selftest --json > selftest.json
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.option(
    "--need-gpu",
    "--gpu",
    "gpu",
    is_flag=True,
    help="GPUs are to be proved: where torch can use none, nothing else is tried.",
)
@click.option("--quick", is_flag=True, help="One message size, ddp alone, no memory.")
@click.option("--only", multiple=True, metavar="ID,...", help="Only these checks (--list-checks). May be repeated.")
@click.option(
    "--list-checks", "--list", "list_checks", is_flag=True, help="List the checks with what they need, and stop."
)
@click.option(
    "--output-dir",
    default="runs",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where its folder is made.",
)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Keep the JSON here, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (raybench.selftest/1) instead of a table.")
@click.option("--full", is_flag=True, help="Every check with a row of its own, not one screen.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(only: tuple[str, ...], list_checks: bool, as_json: bool, full: bool, quiet: bool, **options: Any) -> None:
    """Prove that this installation works: driver, CUDA, NCCL, torch and Ray fit, and small runs give what they should.

    One rank per GPU; without GPUs it proves what CPUs can, two ranks over gloo, and says what it did not. Exit code
    0: all checks that can be run here passed; 1: one failed; 3: unknown, stopped, or --need-gpu without a GPU to use.
    """
    from raybench.services.selftest.table import list_of_checks

    if list_checks:
        with printing("stdout"):
            click.echo("\n".join(list_of_checks()))
        return
    from raybench.processes.interrupt import Interrupt
    from raybench.services.selftest.service import SelftestOptions, selftest

    chosen = SelftestOptions(only=_names(only), **options)
    progress: SelftestProgress = _Lines() if sys.stderr.isatty() and not quiet else _Silent()
    with Interrupt().installed() as interrupt:
        finished = selftest(chosen, interrupt=interrupt, progress=progress)
    for remark in finished.remarks:
        say(f"raybench: {remark}")
    with printing("stdout", is_kept=finished.kept):
        if as_json or not finished.kept:
            from raybench.reports.json import render_json

            click.echo(render_json(finished.report), nl=False)
        else:
            from raybench.reports.terminal.report import print_document

            print_document(finished.report, sys.stdout, files=finished.files[-1:], full=full)
    sys.exit(finished.exit_code)


def _names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Names of comma lists."""
    return tuple(filter(None, (name.strip() for name in ",".join(texts).split(","))))


class _Silent:
    """No progress."""

    def begin(self, check: "Check") -> None:
        """Say nothing."""

    def step(self, text: str) -> None:
        """Say nothing."""

    def end(self, check: "SelftestCheck") -> None:
        """Say nothing."""


class _Lines(_Silent):
    """A line a check, and below one that takes time what its run does now."""

    def begin(self, check: "Check") -> None:
        """Say which."""
        self._shown(f"{check.id}: {check.title} ...")

    def step(self, text: str) -> None:
        """In place of the line before."""
        self._shown(text)

    def end(self, check: "SelftestCheck") -> None:
        """What it gave, which stays."""
        self._shown("")
        if check.result != "not-run":
            say(f"{check.result:<8}{check.id}: {check.seen}")

    def _shown(self, text: str) -> None:
        """A line that the next one replaces."""
        with printing("stderr"):
            click.echo(f"\r\x1b[K{text[:78]}", nl=False, err=True)
