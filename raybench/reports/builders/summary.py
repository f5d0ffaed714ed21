"""A run's summary for a terminal: its verdict, and what is one figure a benchmark. Pure."""

from collections.abc import Iterator

from raybench.documents.run.summary import RunSummary
from raybench.reports.builders.asked import Asked
from raybench.reports.facts import facts_of
from raybench.reports.model import Banner, Block, Facts, Heading, Report, notes_of
from raybench.reports.spans import names_in_short
from raybench.reports.text import count_of


def summary_tables(summary: RunSummary, _: Asked) -> Report:
    """The report, without the figures of each message size."""
    name = f"raybench summary {summary.name}"
    shape = f"{count_of(summary.nodes, 'node')}, {count_of(summary.world_size, 'rank')}"
    return Report(
        name=name,
        title=name,
        verdict=summary.verdict,
        reason=summary.verdict_reason,
        lead=f"{summary.status}, {shape}; every figure: --format json",
        when=summary.timestamp,
        blocks=tuple(_blocks(summary)),
    )


def _blocks(summary: RunSummary) -> Iterator[Block]:
    if summary.emulated:
        yield Banner(text="EMULATED: these figures say nothing about a network.", tone="emulated")
    if summary.dropped_nodes:
        yield Banner(text=f"CONTINUED WITHOUT {names_in_short(summary.dropped_nodes)}", tone="warn")
    for part, labels in summary.results.items():
        for label, figures in labels.items():
            yield Heading(text=f"{part}: {label}", level=3)
            yield Facts(pairs=facts_of({name: value for name, value in figures.items() if not isinstance(value, list)}))
    yield from notes_of([f"not measured: {name}: {why}" for name, why in summary.not_measured.items()], tone="warn")
