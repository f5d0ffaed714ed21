"""What a run ran on, as blocks: nodes, what differs between them, traffic, ranks, versions, configuration. Pure."""

from collections.abc import Iterator

from raybench.documents.run.result import RunResult
from raybench.reports.facts import FactView, facts_of, node_facts, node_grid, rank_facts
from raybench.reports.model import Block, Details, Facts, Heading, Table, Text, notes_of
from raybench.reports.traffic_table import traffic_view
from raybench.units import format_seconds

_MOST_NODES = 32  # of more the table opens when it is asked for
_TRAFFIC = "While the run measured, over all nodes; the last three columns are both ways of one node"
_DIFFERING = "The commonest value and on how many; then every other value and where it is"


def node_blocks(result: RunResult) -> Iterator[Block]:
    """Nodes and ranks."""
    table = Table(grid=node_grid(result.cluster), text_columns=3)
    count = len(table.grid.rows)
    yield Heading(text="Nodes", anchor="nodes")
    yield Details(summary=f"All {count:,} nodes", blocks=(table,)) if count > _MOST_NODES else table
    yield from _fact_blocks(node_facts(result.cluster), "Facts in which nodes differ")
    traffic = traffic_view(result.cluster)
    if traffic:
        yield Heading(text="Traffic by network device", level=3)
        yield Table(grid=traffic.grid, caption=_TRAFFIC)
        yield from notes_of(traffic.notes)
    ranks = rank_facts(result.cluster)
    if ranks.shared or ranks.differing:
        yield Heading(text="Ranks", anchor="ranks")
        yield from _fact_blocks(ranks, "Facts in which ranks differ")


def environment_blocks(result: RunResult) -> Iterator[Block]:
    """What was installed, set and asked for."""
    yield Heading(text="Environment", anchor="environment")
    timings = tuple((name, format_seconds(value)) for name, value in result.timings.items())
    job = result.scheduler.to_json() if result.scheduler else {}
    for title, pairs in (
        ("Job of the scheduler", tuple((name, str(value)) for name, value in job.items() if value)),
        ("Experiment trackers", tuple((one.tracker, one.as_told) for one in result.trackers)),
        ("Versions", facts_of(result.versions)),
        ("Variables", facts_of(result.variables)),
        ("Configuration", facts_of(result.config)),
        ("Where the time went", timings),
    ):
        if pairs:
            yield Details(summary=title, blocks=(Facts(pairs=pairs),), is_open=True)


def _fact_blocks(view: FactView, title: str) -> Iterator[Block]:
    if view.differing:
        yield Heading(text=title, level=3)
        yield Table(grid=view.differing, caption=_DIFFERING, text_columns=4)
        yield from (Text(text=note, tone="soft") for note in view.notes)
    if view.shared:
        yield Details(summary=view.shared_title, blocks=(Facts(pairs=view.shared),), is_open=True)
