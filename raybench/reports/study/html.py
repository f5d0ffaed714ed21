"""The report of a study: one HTML file that needs no network, no script and no other file."""

from pathlib import Path
from typing import Any

from raybench.documents.study.result import StudyResult
from raybench.reports.facts import facts_of
from raybench.reports.html import INSTALL, has_matplotlib, page_template
from raybench.reports.study.view import (
    emulated_study_notice,
    order_text,
    study_sections,
    study_title,
    trial_section,
)
from raybench.whole_file import write_whole


def write_study_html(study: StudyResult, path: Path) -> None:
    """Write the report. Raises MissingLibraryError without jinja2, and OSError where the file cannot be written."""
    write_whole(path, render_study_html(study))


def render_study_html(study: StudyResult) -> str:
    """The page. The same result gives the same bytes."""
    return str(page_template("study.html.j2").render(_context(study)))


def _context(study: StudyResult) -> dict[str, Any]:
    plots: tuple[Any, ...] = ()
    if has_matplotlib():
        from raybench.reports.study.plots import study_plots  # only with matplotlib

        plots = study_plots(study)
    variants = [(variant.name, " ".join(variant.arguments)) for variant in study.variants]
    return {
        "study": study,
        "conclusion": study.conclusion,
        "title": study_title(study),
        "order": order_text(study),
        "emulated": emulated_study_notice(study),
        "sections": study_sections(study),
        "trials": trial_section(study),
        "plots": plots,
        "install": None if has_matplotlib() else INSTALL,
        "variants": variants,
        "versions": facts_of(study.environment.versions),
    }
