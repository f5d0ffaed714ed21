"""A report as one HTML file that needs no network, no script and no other file."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.documents.diagnosis import Diagnosis
from raybench.errors import MissingLibraryError
from raybench.reports.builders.asked import Asked, how_to_install
from raybench.reports.builders.table import report_of
from raybench.reports.model import Block
from raybench.reports.text import printable
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from markupsafe import Markup


def write_html(document: Any, path: Path, diagnosis: Diagnosis | None = None) -> None:
    """Write the report of a document; ``diagnosis`` is that of a run's logs (raybench.diagnosis/1).

    Without matplotlib the report has no plots and says how to get them. Raises MissingLibraryError without jinja2, and
    OSError where the file cannot be written.
    """
    write_whole(path, render_html(document, diagnosis))


def render_html(document: Any, diagnosis: Diagnosis | None = None, *, drawn: bool | None = None) -> str:
    """The page. The same document gives the same bytes. ``drawn``: with plots; None where matplotlib is installed."""
    environment = _environment()
    report = report_of(document, Asked(figures=drawn, diagnosis=diagnosis))
    return str(environment.get_template("report.html.j2").render(report=report))


def _environment() -> Any:
    """The templates of ``templates/``, with what they may call. Raises MissingLibraryError without jinja2."""
    try:
        import jinja2  # noqa: F401 - an optional library
    except ImportError as error:
        raise MissingLibraryError(
            f"the HTML report needs jinja2, which is not installed: {how_to_install()}"
        ) from error
    return _templates()


@cache
def _templates() -> Any:
    """Compiled once: that takes 25 ms, more than most documents take to be shown."""
    import jinja2
    import markupsafe  # jinja2's own

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("raybench.reports", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )

    def rendered(blocks: Iterable[Block]) -> "Markup":
        """Each by the macro that is named as its kind."""
        macros = environment.get_template("blocks.html.j2").module
        return markupsafe.Markup("").join(getattr(macros, block.KIND)(block) for block in blocks)

    environment.globals["svg"] = lambda plot: markupsafe.Markup(plot.svg)  # noqa: S704 - made by svg.py
    environment.globals["blocks"] = rendered
    return environment


def _shown(value: Any) -> Any:
    """Every string of the page made printable, but for markup that is ours."""
    return printable(value) if type(value) is str else value
