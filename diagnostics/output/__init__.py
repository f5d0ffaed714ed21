"""A diagnosis as text: for the terminal, for programs, for a ticket, for a page. Text of the log is escaped in all."""

import importlib
import json
from collections.abc import Callable

from diagnostics.findings import Diagnosis

FORMATS = ("text", "json", "sarif", "junit", "markdown", "html")


def render(diagnosis: Diagnosis, output_format: str, *, color: bool = False) -> str:
    """The diagnosis in one of FORMATS. ``color`` concerns text only. Raises ValueError for another format."""
    if output_format == "json":
        return json.dumps(diagnosis.to_json(), indent=2) + "\n"
    if output_format == "text":
        from diagnostics.output import text  # one format a call

        return text.render(diagnosis, color=color)
    if output_format not in FORMATS:
        raise ValueError(f"'{output_format}' is not an output format; choose one of {', '.join(FORMATS)}")
    rendered: str = importlib.import_module(f"diagnostics.output.{output_format}").render(diagnosis)
    return rendered


def report_news(news: Diagnosis, write: Callable[[str], object], output_format: str) -> None:
    """Write the new findings of a log that grows: one JSON object a line, or the text of each finding."""
    from diagnostics.output import text

    for finding in news.findings:
        write(json.dumps(finding.to_json()) if output_format == "json" else text.finding_text(finding) + "\n")


def report_verdict(diagnosis: Diagnosis, write: Callable[[str], object], output_format: str) -> None:
    """Write the verdict at the end of a log that grew: one JSON object, or the head of the report."""
    from diagnostics.output import text

    if output_format == "json":
        write(json.dumps({"verdict": diagnosis.verdict, "explanation": diagnosis.explanation}))
    else:
        write(text.head(diagnosis))
