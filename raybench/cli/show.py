"""``raybench show``: what a command wrote before, on the terminal or in any format."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.comparing.showing import RESULT
from raybench.cli.output import deliver, printing, say
from raybench.cli.usage.command import TopicCommand
from raybench.errors import UsageError
from raybench.reports.formats import FORMATS

if TYPE_CHECKING:
    from raybench.documents.diagnosis import Diagnosis
    from raybench.services.show import KeptRun

EXAMPLES = """\b
Examples:
  raybench show runs/20261121-014502-3f9a             the screen that it ended with
  raybench show runs/20261121-014502-3f9a --full      all its tables
  raybench show RUN --format markdown                 for an issue or a chat
  raybench show RUN --format html -o report.html      the report again, as this version makes it
  raybench show runs/preflight-20261121/preflight.json --format markdown
"""
_TEXT = "text"


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("run", type=RESULT)
@click.option(
    "--format",
    "output_format",
    type=click.Choice([_TEXT, *FORMATS]),
    default=_TEXT,
    show_default=True,
    help="; ".join(["Output format: text", *(f"{name}, {one.help}" for name, one in FORMATS.items())]) + ".",
)
@click.option("--full", is_flag=True, help="On the terminal: all tables, not one screen.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead of the terminal."
)
def command(run: Path, output_format: str, full: bool, output: Path | None) -> None:
    """Show a run that was measured before: RUN is its folder, or its result.json, of this or an earlier version.

    RUN may be any other document that raybench wrote, too: of a study, preflight, fabric test, collection, estimate.
    Or what raybench agent -o kept.

    Nothing is measured or judged again: verdict and findings are those that the run ended with. The exit
    code is 0 where it could be shown, whatever the verdict is.
    """
    from raybench.documents.reading import taking_apart
    from raybench.services.show import kept_run, other_document

    if output_format == _TEXT and output is not None:
        raise click.UsageError("--output needs --format: the text is made for a terminal")
    if output_format != _TEXT and full:
        raise click.UsageError(f"--full is for the terminal; --format {output_format} has all there is")
    if output_format == _TEXT:
        show_text(run, full=full)
        return
    with taking_apart(f"what is kept of the run {run}"):
        other = other_document(run)
        if other is not None:
            _show_other(other, output_format, output, full=full)
            return
        kept = kept_run(run)
        for remark in kept.remarks:
            say(f"raybench: {remark}")
        deliver(_rendered(kept.result, kept.diagnosis, output_format), output)


def show_text(run: Path, *, full: bool = False) -> None:
    """The screen that a run, or a study, in a folder ended with. Raises UsageError."""
    from raybench.documents.reading import taking_apart
    from raybench.services.show import kept_run, other_document

    with taking_apart(f"what is kept of the run {run}"):
        other = other_document(run)
        if other is not None:
            _show_other(other, _TEXT, None, full=full)
            return
        kept = kept_run(run)
        for remark in kept.remarks:
            say(f"raybench: {remark}")
        _print_text(kept, full=full)


def _print_text(kept: "KeptRun", *, full: bool) -> None:
    from raybench.reports.terminal.report import print_document, run_files

    with printing("stdout"):
        print_document(kept.result, sys.stdout, files=run_files(kept.folder, kept.report, full=full), full=full)


def _show_other(document: Any, output_format: str, output: Path | None, *, full: bool) -> None:
    from raybench.reports.terminal.report import print_document

    if output_format != _TEXT:
        deliver(_rendered(document, None, output_format), output)
        return
    with printing("stdout"):
        print_document(document, sys.stdout, full=full)


def _rendered(document: Any, diagnosis: "Diagnosis | None", output_format: str) -> str:
    from raybench.errors import MissingLibraryError

    try:
        return FORMATS[output_format].render(document, diagnosis)
    except MissingLibraryError as error:
        raise UsageError(str(error)) from error
