"""The nodes of raybench's own Ray cluster: a row a host, then what is wrong with which. Pure."""

from collections.abc import Iterator

from raybench.documents.cluster_status import ClusterAction, ClusterNode, ClusterStatus
from raybench.host_ranges import folded
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Cell, Grid, Report, Table, notes_of
from raybench.reports.text import count_of
from raybench.units import format_seconds
from raybench.unreachable import reason_lines

_COLUMNS = ("host", "role", "state", "address", "GPUs", "CPUs", "ray", "python", "torch", "kept by", "uptime")
_DISPENSABLE = ("address", "python", "ray", "CPUs", "torch", "uptime", "kept by")  # the last goes first
_TONES = {"alive": "good", "ended": "good", "not running": "warn", "was not running": "good"}


def cluster_report(report: ClusterStatus, _: Asked) -> Report:
    """The report."""
    name = f"raybench cluster {report.action}"
    return Report(
        name=name,
        title=name,
        verdict=report.verdict,
        reason=_sum(report),
        lead="",
        when="",
        blocks=(
            Table(grid=_grid(report), text_columns=len(_COLUMNS)),
            *notes_of([*_remarks(report)]),
        ),
    )


def _sum(report: ClusterStatus) -> str:
    states = [node.state(report.action) for node in report.nodes]
    where = f" at {report.address}" if report.address else ""
    if report.action == "down":
        gone = sum(state in {"ended", "was not running"} for state in states)
        return f"{gone} of {count_of(len(states), 'host')} without a Ray node of raybench's"
    checked = "nothing was done (--check); " if report.check else ""
    missing = f"; without {folded([node.name for node in report.missing])}" if report.missing else ""
    return f"{checked}{states.count('alive')} of {count_of(len(states), 'node')} alive{where}{missing}"


def _grid(report: ClusterStatus) -> Grid:
    """What is not known is left empty."""
    return Grid(
        headings=_COLUMNS,
        keep=tuple(_DISPENSABLE.index(one) + 1 if one in _DISPENSABLE else 0 for one in _COLUMNS),
        rows=tuple(_cells(node, report.action) for node in report.nodes),
    )


def _cells(node: ClusterNode, action: ClusterAction) -> tuple[Cell, ...]:
    state, uptime = node.state(action), node.uptime_seconds
    texts = (
        node.address, node.gpus, node.cpus, node.ray, node.python, node.torch, node.supervisor,
        None if uptime is None else format_seconds(float(uptime)),
    )  # fmt: skip
    known = (Cell(text=node.name), Cell(text=node.role), Cell(text=state, tone=_TONES.get(state, "bad")))
    return *known, *(Cell(text="" if text is None else str(text)) for text in texts)


def _remarks(report: ClusterStatus) -> Iterator[str]:
    """Lines below the table: problems by host, nodes that are not of the inventory."""
    yield from reason_lines((node.name, node.problem) for node in report.nodes if node.unreachable)
    problems: dict[str, list[str]] = {}
    for node in report.nodes:
        if node.problem and not node.unreachable:
            problems.setdefault(node.problem, []).append(node.name)
    yield from (f"{folded(names)}: {problem}" for problem, names in problems.items())
    lost = [node for node in report.nodes if node.state(report.action) == "not running"]
    rebooted = [node.name for node in lost if node.rebooted]
    if rebooted:
        yield (
            f"{folded(rebooted)}: rebooted since its Ray node was started (its boot id is another one); "
            "'raybench cluster up' brings it back"
        )
    gone = [node.name for node in lost if node.alive and not node.rebooted]
    if gone:
        yield (
            f"{folded(gone)}: not running, and still in the head's table, which takes seconds to notice: it rebooted, "
            "or where its processes were ended; 'raybench cluster up' brings it back"
        )
    if report.error:
        yield report.error
    if report.strangers:
        yield f"also in the cluster, not in the inventory: {', '.join(report.strangers)}"
