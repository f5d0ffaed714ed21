"""The nodes of raybench's own Ray cluster as a table, for people; and what is wrong with which."""

from collections.abc import Iterator, Sequence
from typing import IO

from raybench.documents.cluster_status import ClusterNode, ClusterStatus
from raybench.host_ranges import folded
from raybench.reports.text import count_of, printable
from raybench.units import format_seconds
from raybench.unreachable import reason_lines

COLUMNS = ("host", "role", "state", "address", "GPUs", "CPUs", "ray", "python", "torch", "kept by", "uptime")
_DISPENSABLE = ("address", "python", "ray", "CPUs", "torch", "uptime", "kept by")
_PIPE_WIDTH = 250
_STYLES = {"alive": "green", "ended": "green", "not running": "yellow", "was not running": "green"}


def print_cluster(report: ClusterStatus, stream: IO[str]) -> None:
    """Print it: one line a host, then each problem with its host."""
    from rich.console import Console  # only where something is shown
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, highlight=False, width=None if stream.isatty() else _PIPE_WIDTH)
    rows = [cells_of(node, report.action) for node in report.nodes]
    used = columns_that_fit(rows, console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index in used:
        table.add_column(COLUMNS[index], no_wrap=True)
    for row in rows:
        table.add_row(*(Text(row[index], style=_STYLES.get(row[2], "red") if index == 2 else "") for index in used))
    console.print(table)
    for line in remarks_of(report):
        console.print(Text(line), soft_wrap=True)


def columns_that_fit(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Indexes of the columns that have something in them and room side by side; the last in _DISPENSABLE go first."""
    used = [index for index in range(len(COLUMNS)) if any(row[index] for row in rows)]
    widths = {index: max(len(COLUMNS[index]), *(len(row[index]) for row in rows)) for index in used}
    for name in reversed(_DISPENSABLE):
        if sum(widths[index] + 2 for index in used) > width:
            used = [index for index in used if COLUMNS[index] != name]
    return used


def cells_of(node: ClusterNode, action: str) -> tuple[str, ...]:
    """The cells of a host. What is not known is left empty."""
    uptime = node.uptime_seconds
    texts = (
        node.name,
        node.role,
        state_of(node, action),
        *(node.address, node.gpus, node.cpus, node.ray, node.python, node.torch, node.supervisor),
        None if uptime is None else format_seconds(float(uptime)),
    )
    return tuple("" if text is None else printable(text) for text in texts)


def state_of(node: ClusterNode, action: str) -> str:
    """A word or two on a host: alive, not running, unreachable, ..."""
    if node.unreachable:
        return "unreachable"
    if action == "down" and node.running is False:
        return "ended" if node.changed else "was not running"
    if node.problem:
        return "failed"
    if node.running is None:
        return "not asked"
    if not node.running:
        return "not running"
    return {True: "alive", False: "not in the head's table", None: "running"}[node.alive]


def remarks_of(report: ClusterStatus) -> Iterator[str]:
    """Lines below the table: problems by host, nodes that are not of the inventory, the sum."""
    nodes = report.nodes
    yield from map(printable, reason_lines((node.name, node.problem) for node in nodes if node.unreachable))
    problems: dict[str, list[str]] = {}
    for node in nodes:
        if node.problem and not node.unreachable:
            problems.setdefault(printable(node.problem), []).append(printable(node.name))
    yield from (f"{folded(names)}: {problem}" for problem, names in problems.items())
    if report.error:
        yield printable(report.error)
    if report.strangers:
        yield f"also in the cluster, not in the inventory: {', '.join(map(printable, report.strangers))}"
    states = [state_of(node, report.action) for node in report.nodes]
    where = f" at {printable(report.address)}" if report.address else ""
    if report.action == "down":
        gone = sum(state in {"ended", "was not running"} for state in states)
        yield f"{gone} of {count_of(len(states), 'host')} without a Ray node of raybench's"
    else:
        yield f"{states.count('alive')} of {count_of(len(states), 'node')} alive{where}"
