"""The report of a study: one HTML file that needs no network, no script and no other file."""

from pathlib import Path
from typing import Any

from raybench.reports.facts import facts_of
from raybench.reports.html import INSTALL, has_matplotlib, page_template
from raybench.reports.study_view import (
    emulated_study_notice,
    order_text,
    study_sections,
    study_title,
    trial_section,
)
from raybench.whole_file import write_whole


def write_study_html(content: dict[str, Any], path: Path) -> None:
    """Write the report. Raises MissingLibraryError without jinja2, and OSError where the file cannot be written."""
    write_whole(path, render_study_html(content))


def render_study_html(content: dict[str, Any]) -> str:
    """The page. The same result gives the same bytes."""
    return str(page_template("study.html.j2").render(_context(content)))


def _context(content: dict[str, Any]) -> dict[str, Any]:
    plots: tuple[Any, ...] = ()
    if has_matplotlib():
        from raybench.reports.study_plots import study_plots  # only with matplotlib

        plots = study_plots(content)
    variants = [(variant["name"], " ".join(variant["arguments"])) for variant in content["variants"]]
    return {
        "study": {"verdict": None, "verdict_reason": None} | content,
        "title": study_title(content),
        "order": order_text(content),
        "emulated": emulated_study_notice(content),
        "sections": study_sections(content),
        "trials": trial_section(content),
        "plots": plots,
        "install": None if has_matplotlib() else INSTALL,
        "variants": variants,
        "versions": facts_of(content["environment"]["versions"]),
    }
