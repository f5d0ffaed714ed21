"""How every command about results shows its document, and the options for it."""

import sys
from pathlib import Path
from typing import Any

import click

from raybench.cli.output import deliver, echo_json, printing
from raybench.reports.formats import FORMATS

_TEXT = "text"


class _Named(click.Path):
    """A path that has a name: an empty one, as of a variable that is not set, is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what is empty."""
        if not str(value).strip() or value == "":
            self.fail("it is empty; name a result, or a folder of them", param, ctx)
        return super().convert(value, param, ctx)


RESULT = _Named(path_type=Path)
JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
FORMAT = click.option(
    "--format",
    "output_format",
    type=click.Choice([_TEXT, *FORMATS]),
    default=_TEXT,
    show_default=True,
    help="Output format.",
)
FULL = click.option("--full", is_flag=True, help="On the terminal: all tables, not one screen.")
OUTPUT = click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead of the terminal."
)


def show_document(document: Any, *, as_json: bool, output_format: str, full: bool, output: Path | None) -> None:
    """On the terminal, as JSON, or in any format of reports. Raises UsageError where options contradict."""
    if as_json and output_format not in (_TEXT, "json"):
        raise click.UsageError(f"--json and --format {output_format} exclude each other")
    if as_json:
        with printing("stdout"):
            echo_json(document.to_json())
    elif output_format != _TEXT:
        deliver(FORMATS[output_format].render(document), output)
    elif output is not None:
        raise click.UsageError("--output needs --format: the text is made for a terminal")
    else:
        from raybench.reports.terminal.report import print_document

        with printing("stdout"):
            print_document(document, sys.stdout, full=full)
