"""What became of those whom a run accused, and which nodes it went on without. Pure."""

from collections.abc import Iterator

from raybench.documents.run.isolation import Continuation, Isolation, IsolationGroup, Suspicion
from raybench.documents.run.result import RunResult
from raybench.reports.model import Block, Cell, Grid, Heading, Table, Text
from raybench.reports.spans import names_in_short
from raybench.reports.text import count_of, printable
from raybench.units import format_seconds

_TONES = {"confirmed": "bad", "path": "bad", "not confirmed": "warn", "unknown": "warn"}


def isolation_lines(result: RunResult) -> list[str]:
    """A sentence each, for the top of every report: nodes that were dropped first."""
    lines = []
    if result.continued is not None:
        lines.append(_continued(result.continued, result))
    isolation = result.isolation
    if isolation is not None:
        lines += [_suspicion(one) for one in isolation.suspects]
        lines += [f"isolation: {isolation.stopped}, the other suspects are open"] if isolation.stopped else []
        lines += [_stays(one.node, one.reason, result) for one in isolation.not_dropped]
    return lines


def _continued(continued: Continuation, result: RunResult) -> str:
    names = names_in_short([one.node for one in continued.dropped])
    nodes, asked = len(result.cluster.nodes), continued.nodes_asked
    missed = f"; --nodes {asked} was not reached" if asked else ""
    return (
        f"CONTINUED WITHOUT {names}: {nodes} of {count_of(continued.nodes_before, 'node')}, "
        f"{result.cluster.world_size} of {count_of(continued.world_size_before, 'rank')}{missed}; the run with "
        f"{'it' if len(continued.dropped) == 1 else 'them'} is {printable(continued.first_run_id)}"
    )


def _suspicion(one: Suspicion) -> str:
    took = f", {format_seconds(one.seconds)}" if one.seconds else ""
    figures = f" ({one.figures})" if one.figures else ""
    return f"isolated {printable(one.name)}: {one.outcome.upper()}: {printable(one.reason)}{figures}{took}"


def _stays(node: str, reason: str, result: RunResult) -> str:
    why = "nodes are emulated" if result.cluster.emulated else "too few nodes would be left (--min-nodes)"
    return f"{printable(node)} was not dropped, {why}: {printable(reason)}"


def isolation_blocks(result: RunResult) -> Iterator[Block]:
    """All that was measured: that of the run, and that of the run before it which had more nodes."""
    before = result.continued.isolation if result.continued is not None else None
    for isolation, run in ((before, "the run before"), (result.isolation, "this run")):
        if isolation is not None and isolation.suspects:
            yield Heading(text=f"Suspects of {run}, measured again", anchor="isolation" if run == "this run" else "")
            yield Table(grid=_grid(isolation), caption="GB/s of each pair in its slower direction", text_columns=5)
            yield Text(text=f"It took {format_seconds(isolation.seconds)}. Each measurement is in isolation/.")


def _grid(isolation: Isolation) -> Grid:
    rows, blank = [], Cell(text="")
    for one in isolation.suspects:
        named, why = _cell(printable(one.name)), _cell(printable(one.reason))
        rows.append((named, Cell(text=one.outcome, tone=_TONES[one.outcome]), why, _cell(one.figures), blank))
        for group in one.groups:
            took = _cell(format_seconds(group.seconds))
            rows.append((blank, _cell(_what(group)), _cell(_pairs(group)), blank, took))
    return Grid(headings=("suspect", "outcome", "why", "figures", "took"), rows=tuple(rows))


def _cell(text: str) -> Cell:
    return Cell(text=text)


def _what(group: IsolationGroup) -> str:
    if group.with_suspect:
        return "with it"
    return f"without it, {printable(group.instead)} in its place" if group.instead else "without it"


def _pairs(group: IsolationGroup) -> str:
    if group.broke:
        return f"broke: {printable(group.broke)}"
    return ", ".join(f"{'-'.join(map(printable, pair.nodes))} {pair.gb_per_s:.3g}" for pair in group.pairs)
