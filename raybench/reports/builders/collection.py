"""What was fetched from which host: a row a host, then problems and what was cut. Pure."""

from collections.abc import Iterator

from raybench.documents.collection import CollectedHost, CollectionReport
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Cell, Grid, Report, Table, notes_of
from raybench.reports.text import count_of
from raybench.unreachable import reason_lines

_COLUMNS = ("host", "status", "files", "bytes", "cut", "kernel", "GPUs")
_TONES = {"complete": "good", "partial": "warn", "unreachable": "bad"}
_SHOWN_PROBLEMS = 5


def collection_report(report: CollectionReport, _: Asked) -> Report:
    """The report."""
    name = "raybench collect"
    return Report(
        name=name,
        title=name,
        verdict=report.verdict,
        reason=_reason(report),
        lead="",
        when="",
        blocks=(
            Table(grid=Grid(headings=_COLUMNS, rows=tuple(map(_cells, report.hosts))), text_columns=2),
            *notes_of([*_remarks(report)]),
        ),
    )


def _reason(report: CollectionReport) -> str:
    """What the logs say, where all were fetched, and how many hosts are complete."""
    complete = sum(host.status == "complete" for host in report.hosts)
    fetched = f"{complete} of {count_of(len(report.hosts), 'host')} complete: {report.folder}"
    if complete < len(report.hosts):
        return fetched
    if report.diagnosis is None:
        return f"{'the logs were not diagnosed' if report.found_files else 'no logs were found'}; {fetched}"
    nothing = "nothing of NCCL in what was fetched; " if report.diagnosis.empty else ""
    return f"{nothing}logs: {report.diagnosis.in_brief}; {fetched}"


def _cells(host: CollectedHost) -> tuple[Cell, ...]:
    """The cells of a host. ``bytes`` counts what is kept here, ``cut`` the files of which only the tail is."""
    cut = sum(file.left_out_bytes > 0 for file in host.files)
    return (
        Cell(text=host.name),
        Cell(text=host.status, tone=_TONES.get(host.status, "")),
        Cell(text=str(len(host.files))),
        Cell(text=_megabytes(sum(file.kept_bytes for file in host.files))),
        Cell(text=str(cut or "")),
        Cell(text=host.kernel),
        Cell(text="" if host.gpu_count is None else str(host.gpu_count)),
    )


def _remarks(report: CollectionReport) -> Iterator[str]:
    """Lines below the table."""
    silent = [host for host in report.hosts if host.status == "unreachable"]
    yield from reason_lines((host.name, "; ".join(host.problems)) for host in silent)
    for host in (one for one in report.hosts if one.status != "unreachable"):
        yield from (f"{host.name}: {problem}" for problem in host.problems[:_SHOWN_PROBLEMS])
        if len(host.problems) > _SHOWN_PROBLEMS:
            yield f"{host.name}: {len(host.problems) - _SHOWN_PROBLEMS} more in collection.json"
        yield from (f"{host.name}: {note}" for note in host.notes[:_SHOWN_PROBLEMS])
        for file in host.files:
            if file.left_out_bytes:
                yield f"{host.name}: {file.remote}: the first {_megabytes(file.left_out_bytes)} left out"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
