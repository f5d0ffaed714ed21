"""What was fetched from which host, for people."""

from collections.abc import Iterator
from typing import IO

from raybench.documents.collection import CollectedHost, CollectionReport
from raybench.reports.text import count_of, printable
from raybench.unreachable import reason_lines

COLUMNS = ("host", "status", "files", "bytes", "cut", "kernel", "GPUs")
_STYLES = {"complete": "green", "partial": "yellow", "unreachable": "red"}
_SHOWN_PROBLEMS = 5


def print_collection(report: CollectionReport, stream: IO[str]) -> None:
    """Print a report: a line a host, then each host's problems and what was cut."""
    from rich.console import Console  # only where something is shown
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else 200)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        table.add_column(name, no_wrap=True, justify="right" if name in {"files", "bytes", "cut", "GPUs"} else "left")
    for host in report.hosts:
        cells = cells_of(host)
        styles = ["", _STYLES.get(host.status, ""), *[""] * (len(cells) - 2)]
        table.add_row(*(Text(cell, style=style) for cell, style in zip(cells, styles, strict=True)))
    console.print(table)
    for line in remarks_of(report):
        console.print(Text(line), soft_wrap=True)


def cells_of(host: CollectedHost) -> tuple[str, ...]:
    """The cells of a host. ``bytes`` counts what is kept here, ``cut`` the files of which only the tail is."""
    cut = sum(file.left_out_bytes > 0 for file in host.files)
    return (
        printable(host.name),
        host.status,
        str(len(host.files)),
        _megabytes(sum(file.kept_bytes for file in host.files)),
        str(cut or ""),
        printable(host.kernel),
        "" if host.gpu_count is None else str(host.gpu_count),
    )


def remarks_of(report: CollectionReport) -> Iterator[str]:
    """Lines below the table."""
    silent = [host for host in report.hosts if host.status == "unreachable"]
    yield from map(printable, reason_lines((host.name, "; ".join(host.problems)) for host in silent))
    for host in report.hosts:
        if host.status == "unreachable":
            continue
        name = printable(host.name)
        for problem in host.problems[:_SHOWN_PROBLEMS]:
            yield f"{name}: {printable(problem)}"
        if len(host.problems) > _SHOWN_PROBLEMS:
            yield f"{name}: {len(host.problems) - _SHOWN_PROBLEMS} more in collection.json"
        yield from (f"{name}: {printable(note)}" for note in host.notes[:_SHOWN_PROBLEMS])
        for file in host.files:
            if file.left_out_bytes:
                yield f"{name}: {printable(file.remote)}: the first {_megabytes(file.left_out_bytes)} left out"
    complete = sum(host.status == "complete" for host in report.hosts)
    yield f"{complete} of {count_of(len(report.hosts), 'host')} complete: {printable(report.folder)}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
