"""Samples of nodes as blocks of a run's report, and as a report of their own. Pure but for its figures."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.node_samples import NodeSamples
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.findings import finding_blocks
from raybench.reports.findings import ordered
from raybench.reports.findings_in_short import findings_view
from raybench.reports.model import Block, Figure, Heading, Report, Table, Text, notes_of
from raybench.reports.samples import samples_view
from raybench.reports.text import count_of
from raybench.timeline.spans import Span
from raybench.units import format_seconds

_CAPTION = "Means over all samples; throttled: readings in which a clock was lowered for heat, power supply or hardware"


def sample_blocks(samples: NodeSamples, spans: Sequence[Span], *, drawn: bool, emulated: bool) -> Iterator[Block]:
    """Figures over time, a row a node, and what is to be known of them."""
    view = samples_view(samples)
    yield Heading(text="Nodes over time", anchor="samples")
    if drawn:
        from raybench.reports.plots.samples import sample_plots
        from raybench.reports.plots.svg import plot_style  # matplotlib's

        with plot_style():
            for plot in sample_plots(view.lines, spans, emulated=emulated):
                yield Heading(text=plot.title, level=3)
                yield Figure(plot=plot)
    more = f"; {count_of(view.more, 'node')} more in node_samples.json" if view.more else ""
    yield Table(grid=view.grid, caption=_CAPTION + more)
    yield from notes_of(view.notes)
    yield Text(text="Every value: raybench show node_samples.json --format csv", tone="soft")


def samples_report(samples: NodeSamples, asked: Asked) -> Report:
    """The samples alone; of an agent that no run started with its verdict and what it warned of."""
    if not samples.run_id:
        return _agent_report(samples, asked)
    return Report(
        name=f"raybench samples of run {samples.run_id}",
        title=f"samples {samples.run_id}",
        verdict="",
        reason="",
        lead=f"{count_of(len(samples.nodes), 'machine')}, by {samples.origin}",
        when=f"since {samples.started_at}",
        blocks=tuple(sample_blocks(samples, (), drawn=asked.drawn, emulated=False)),
    )


def _agent_report(samples: NodeSamples, asked: Asked) -> Report:
    """The verdict of what it warned of; unknown where it read nothing that could be wrong."""
    found = findings_view(ordered(samples.findings))
    graver = [one for one in found.shown if one.severity != "info"]
    read = any(not name.startswith("agent/") for node in samples.nodes for name in node.series)
    verdict = graver[0].severity if graver else "ok" if read else "unknown"
    calm = "no warning while it sampled" if read else "it has sampled nothing"
    hosts = ", ".join(node.name for node in samples.nodes)
    findings = (Heading(text="Warnings"), *finding_blocks(found)) if samples.findings else ()
    return Report(
        name=f"{samples.origin} on {hosts}",
        title=f"samples of {hosts}",
        verdict=verdict,
        reason=graver[0].summary if graver else calm,
        lead=f"{_lasted(samples)}, by {samples.origin}",
        when=f"since {samples.started_at}",
        blocks=(*findings, *sample_blocks(samples, (), drawn=asked.drawn, emulated=False)),
    )


def _lasted(samples: NodeSamples) -> str:
    seconds = [at for node in samples.nodes for at in node.seconds]
    return format_seconds(max(seconds) - min(seconds)) if seconds else "no readings"
