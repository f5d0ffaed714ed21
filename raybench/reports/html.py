"""The report of a run: one HTML file that needs no network, no script and no other file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raybench.documents.result import RunResult
from raybench.errors import MissingLibraryError
from raybench.installation import install_advice
from raybench.reports.facts import facts_of, node_facts, node_grid, rank_facts
from raybench.reports.findings import all_findings, headline, network_facts, place, severity
from raybench.reports.findings_in_short import evidence_view, findings_view
from raybench.reports.model import Grid
from raybench.reports.pairs import PairMatrix, ends_in_short, pair_matrices
from raybench.reports.plots.svg import Plot
from raybench.reports.rows import (
    all_warnings,
    cluster_line,
    dropped_lines,
    emulated_notice,
    expectation_remarks,
    matrices,
    tables,
    unmeasured,
)
from raybench.reports.text import printable
from raybench.reports.traffic_table import traffic_view
from raybench.reports.view import (
    pair_caption,
    pair_grid,
    pairs_grid,
    summary_grid,
    table_grid,
)
from raybench.reports.workloads.table import workload_plots, workload_sections
from raybench.units import format_bytes, format_seconds
from raybench.whole_file import write_whole

INSTALL = install_advice("report")
_MOST_MATRICES = 2  # sizes of one matrix that get a heatmap, the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """A matrix as the template sees it. ``plot`` is None without matplotlib."""

    title: str
    matrix: PairMatrix
    plot: Plot | None
    slowest: Grid
    caption: str
    warnings: tuple[str, ...]


def write_html(result: RunResult, path: Path, diagnosis: Mapping[str, Any] | None = None) -> None:
    """Write the report of a run; ``diagnosis`` is that of its logs (raybench.diagnosis/1).

    Without matplotlib the report has no plots and says how to get them. Raises MissingLibraryError without jinja2, and
    OSError where the file cannot be written.
    """
    write_whole(path, render_html(result, diagnosis))


def render_html(result: RunResult, diagnosis: Mapping[str, Any] | None = None) -> str:
    """The page. The same result gives the same bytes."""
    template = page_template("run.html.j2")
    return str(template.render(_context(result, diagnosis)))


def page_template(name: str) -> Any:
    """A template of ``templates/``, with what it may call. Raises MissingLibraryError without jinja2."""
    try:
        import jinja2  # an optional library
        import markupsafe  # jinja2's own
    except ImportError as error:
        raise MissingLibraryError(f"the HTML report needs jinja2, which is not installed: {INSTALL}") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("raybench.reports", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.globals["svg"] = lambda plot: markupsafe.Markup(plot.svg)  # noqa: S704 - made by svg.py
    environment.globals |= {"headline": headline, "place": place, "severity": severity, "evidence": evidence_view}
    return environment.get_template(name)


def _shown(value: Any) -> Any:
    """Every string of the page made printable, but for markup that is ours."""
    return printable(value) if type(value) is str else value


def _context(result: RunResult, diagnosis: Mapping[str, Any] | None) -> dict[str, Any]:
    measured = tables(result.benchmarks)
    has_plots = has_matplotlib()
    plots = workload_plots(result.benchmarks, emulated=result.cluster.emulated) if has_plots else {}
    views = _matrix_views(result, has_plots=has_plots)
    return {
        "result": result,
        "cluster_line": cluster_line(result.cluster),
        "dropped": dropped_lines(result.cluster),
        "emulated": emulated_notice(result),
        "elapsed": format_seconds(result.total_seconds) if result.total_seconds else None,
        "summary": summary_grid(measured),
        "expectations": tuple(expectation_remarks(result.benchmarks)),
        "tables": [(table, table_grid(table)) for table in measured],
        "plots": plots.get("Over message size", ()),
        "install": None if has_plots else INSTALL,
        "workload_plots": plots.get("Plots", ()),
        "workloads": workload_sections(result.benchmarks),
        "matrices": views,
        "pairs": pairs_grid((view.title, view.matrix) for view in views),
        "absent": unmeasured(result),
        "findings": findings_view(all_findings(result, diagnosis)),
        "network": network_facts(diagnosis) if result.cluster.backend == "nccl" else (),
        "nodes": node_grid(result.cluster),
        "node_facts": node_facts(result.cluster),
        "rank_facts": rank_facts(result.cluster),
        "traffic": traffic_view(result.cluster),
        "environment": (
            ("Versions", facts_of(result.versions)),
            ("Variables", facts_of(result.variables)),
            ("Configuration", facts_of(result.config)),
            ("Where the time went", tuple((name, format_seconds(value)) for name, value in result.timings.items())),
        ),
    }


def has_matplotlib() -> bool:
    """Whether plots can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401 - an optional library
    except ImportError:
        return False
    return True


def _matrix_views(result: RunResult, *, has_plots: bool) -> tuple[MatrixView, ...]:
    views = []
    for number, benchmark in enumerate(matrices(result.benchmarks)):
        for matrix in pair_matrices(benchmark, result.cluster, result.findings)[: -_MOST_MATRICES - 1 : -1]:
            plot = _heatmap(matrix, f"pairs-{number}-{matrix.message_bytes}", result) if has_plots else None
            title = f"{benchmark.name}, {format_bytes(matrix.message_bytes)} messages"
            grid = pair_grid(matrix)
            warnings = (*ends_in_short(matrix), *all_warnings(benchmark))
            caption = pair_caption(matrix, len(grid.rows))
            view = MatrixView(title=title, matrix=matrix, plot=plot, slowest=grid, caption=caption, warnings=warnings)
            views.append(view)
    return tuple(views)


def _heatmap(matrix: PairMatrix, name: str, result: RunResult) -> Plot:
    from raybench.reports.plots.heatmap import pair_heatmap  # only with matplotlib

    return pair_heatmap(matrix, name=name, emulated=result.cluster.emulated)
