"""The formats of a run beside the terminal's: a format is a module with its renderer, and a line here."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raybench.documents.result import RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A renderer, ``render(result, diagnosis)``, that is imported when it is used, and the line that --help shows."""

    module: str
    function: str
    help: str

    def render(self, result: "RunResult", diagnosis: Mapping[str, Any] | None) -> str:
        """The run as text of this format; ``diagnosis`` is that of its logs. Raises MissingLibraryError."""
        text: str = getattr(importlib.import_module(self.module), self.function)(result, diagnosis)
        return text


FORMATS: dict[str, Format] = {
    "html": Format(module="raybench.reports.html", function="render_html", help="the report, one file with its plots"),
    "markdown": Format(module="raybench.reports.markdown", function="render_markdown", help="for an issue or a chat"),
    "csv": Format(module="raybench.reports.csv", function="render_csv", help="one row a point"),
    "json": Format(
        module="raybench.reports.json", function="render_json", help="the document, as this version writes it"
    ),
}
