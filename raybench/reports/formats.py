"""The formats of reports: a format is a module with its renderer, and a line in ``FORMATS``.

To add one, write ``raybench/reports/NAME.py`` with ``render_NAME(document, diagnosis=None) -> str``:

    report = report_of(document, Asked(brief=True, diagnosis=diagnosis))    # builders/table.py
    return "".join(... for block in report.blocks)                          # the classes of model.py: BLOCKS

and a line here. ``raybench show --format`` takes its choices from this table. ``tests/reports/test_formats.py`` renders
a document of every kind, and a block of every class, in every format of the table, and fails where one is missing. A
renderer that needs a library imports it inside of the function and raises ``raybench.errors.MissingLibraryError``.
What stands on the terminal is no format: it is fitted to the width of the screen (``terminal/``).
"""

import importlib
from dataclasses import dataclass
from typing import Any

from raybench.documents.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A renderer, ``render(document, diagnosis)``, that is imported when it is used, and what it is good for."""

    module: str
    function: str
    help: str

    def render(self, document: Any, diagnosis: Diagnosis | None = None) -> str:
        """A document of any kind as text of this format; ``diagnosis`` is that of a run's logs.

        Raises MissingLibraryError.
        """
        text: str = getattr(importlib.import_module(self.module), self.function)(document, diagnosis)
        return text


FORMATS: dict[str, Format] = {
    "html": Format(module="raybench.reports.html", function="render_html", help="the report, one file with its plots"),
    "markdown": Format(module="raybench.reports.markdown", function="render_markdown", help="for an issue or a chat"),
    "latex": Format(module="raybench.reports.latex", function="render_latex", help="tables for a paper"),
    "csv": Format(module="raybench.reports.csv", function="render_csv", help="one row a point"),
    "json": Format(
        module="raybench.reports.json", function="render_json", help="the document, as this version writes it"
    ),
}
