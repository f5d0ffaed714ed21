"""What `run` and the commands of single workloads share: say what begins, do the run, print it."""

import sys
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing, say
from raybench.config import LAUNCHED, RunConfig

if TYPE_CHECKING:
    from raybench.reports.progress import ProgressDisplay
    from raybench.services.run import FinishedRun


def measure(config: RunConfig, *, as_json: bool, quiet: bool, full: bool = False, dry_run: bool = False) -> int:
    """Do a run and print it. Returns the exit code. Raises UsageError where a library is missing.

    With ``dry_run`` only what the run needs is checked.
    """
    from raybench.processes.interrupt import Interrupt
    from raybench.services.run import check_libraries, check_run, run

    if dry_run:
        check_run(config)
        say("raybench: the options are right, and this machine has what they need of it; nothing was measured")
        return 0
    check_libraries(config)
    where = {
        LAUNCHED: "waiting for the launcher's ranks",
        "auto": "looking for a Ray cluster, else embedding one here",
        "local": "embedding a Ray cluster here",
    }
    announce(where.get(config.address, f"joining the Ray cluster at {config.address}"), quiet=quiet)
    with Interrupt().installed() as interrupt:
        finished = run(config, interrupt=interrupt, display=_Silent if quiet else _display)
        show(finished, as_json=as_json, full=full)
    return finished.exit_code


def show(finished: "FinishedRun", *, as_json: bool, full: bool = False) -> None:
    """Print a run. Its exit code depends on none of the printing."""
    for remark in finished.remarks:
        say(f"raybench: {remark}")
    with printing("stdout", is_kept=finished.kept):  # last, so that the verdict is what stands above the prompt
        if as_json or not finished.kept:
            from raybench.reports.json import render_json

            click.echo(render_json(finished.result), nl=False)
        else:
            _print_text(finished, full=full)


def _print_text(finished: "FinishedRun", *, full: bool) -> None:
    from raybench.reports.builders.asked import Asked
    from raybench.reports.terminal.report import print_document, run_files

    folder, report = finished.folder, finished.report
    notes = []
    if finished.diagnosis and finished.result.cluster.backend == "nccl":  # gpu: ray-masking
        notes.append(f"NCCL logs: {finished.diagnosis.in_brief} (raybench diagnose {folder / 'logs'})")
    print_document(
        finished.result,
        sys.stdout,
        files=run_files(folder, report, full=full),
        full=full,
        asked=Asked(notes=tuple(notes)),
    )


def _display() -> "ProgressDisplay":
    from raybench.reports.progress import ProgressDisplay

    return ProgressDisplay()


class _Silent:
    def start(self, total_steps: int, title: str) -> None:
        """Say nothing."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int, text: str, left_seconds: float | None) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Warnings are said all the same."""
        say(f"raybench: {text}")

    def close(self) -> None:
        """Nothing to end."""
