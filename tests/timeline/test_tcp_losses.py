"""Lost TCP segments beside what was measured: what they cost, on whose way they were, and what is not known."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.result import RunResult
from raybench.finding_rules.samples import TCP_LOSSES
from raybench.timeline.judging import with_samples
from tests.found import found
from tests.timeline.runs import collective, run_of
from tests.timeline.streams import sampled, samples_of

SECONDS = 40  # the all_reduce is measured from 10 to 20
RATE_OF_TEN = 1.25e9  # bytes per second on a link of 10 Gbit/s


def run(nodes: int, *findings: Finding, emulated: bool = False) -> RunResult:
    one = run_of(collective((0.10,)), nodes=nodes, per_node=1)
    named = tuple(
        replace(node, name=f"node-{number}", address=f"192.0.2.{number}")
        for number, node in enumerate(one.cluster.nodes, 1)
    )
    return replace(one, cluster=replace(one.cluster, nodes=named, emulated=emulated), findings=findings)


def counter(grows: Callable[[int], float]) -> list[float | None]:
    total = 0.0
    return [total := total + grows(second) for second in range(SECONDS)]


def node(
    number: int,
    to: Mapping[int, float],
    *,
    lossy: range = range(SECONDS),
    needless: float = 0.0,
    link: float | None = 10.0,
    rate: float = 12e6,
    clean_rate: float = 12e6,
    peer: int = 9,
    waiting: float = 0.0,
) -> SampledNode:
    """1000 segments a second, of which so many are lost on the way to each peer, at so many bytes a second."""
    lost = sum(to.values())
    moved = counter(lambda second: rate if second in lossy else clean_rate)
    series: dict[str, list[float | None]] = {
        "host/tcp/sent_segments": counter(lambda _: 1000),
        "host/tcp/retransmitted_segments": counter(lambda second: (lost + needless) * (second in lossy)),
        "host/tcp/needlessly_retransmitted_segments": counter(lambda second: needless * (second in lossy)),
        "nic/eth0/sent_bytes": moved,
        "nic/lo/sent_bytes": counter(lambda _: 1.0),
        "pressure/cpu/some_seconds": counter(lambda _: waiting),
        f"tcp/192.0.2.{peer}/carried_bytes": moved,
        f"tcp/192.0.2.{peer}/carrying_seconds": counter(lambda _: 1.0),
    }
    series |= {
        f"tcp/192.0.2.{peer}/lost_segments": counter(lambda second, count=count: count * (second in lossy))  # type: ignore[misc]
        for peer, count in to.items()
    }
    return sampled(f"node-{number}", series | ({} if link is None else {"nic/eth0/rate_gbit_per_s": [link] * SECONDS}))


def judged(result: RunResult, *nodes: SampledNode) -> tuple[Finding | None, RunResult]:
    joined = with_samples(result, samples_of(*nodes))
    return next((one for one in joined.findings if one.rule == TCP_LOSSES.id), None), joined


def test_two_nodes_with_a_slow_link_are_told_by_its_rate_and_not_fine() -> None:
    """No other path is there to compare with."""
    live = found(rule="tcp-retransmissions", severity="warning", summary="node-1 TCP: 3.0%", hosts=["node-1"])
    one, joined = judged(run(2, live), node(1, {2: 30}), node(2, {1: 40}))
    assert one is not None
    assert one.summary == (
        "the path between node-1 and node-2: 4.0% of the TCP segments of node-2 were lost and sent again during "
        "all_reduce; at most 0.012 GB/s passed a link of 1.25 GB/s (eth0, 10 Gbit/s)"
    )
    assert (one.severity, one.hosts, one.ranks) == ("critical", ("node-1", "node-2"), (0, 1))
    assert [other.rule for other in joined.findings] == [TCP_LOSSES.id]  # the live one says the same
    assert (joined.conclusion.verdict, joined.exit_code) == ("critical", 1)


def test_what_tcp_carried_without_losses_tells_what_they_cost() -> None:
    lossy = node(1, {2: 100}, lossy=range(15, SECONDS), rate=2e7, clean_rate=6e8, link=None)
    one, _ = judged(run(3), lossy, node(2, {}), node(3, {}))
    assert one is not None
    assert one.severity == "critical"
    assert one.summary.endswith("and TCP carried 0.02 GB/s then, 0.6 without losses")


def test_where_nothing_tells_what_they_cost_the_verdict_is_unknown() -> None:
    one, joined = judged(run(2), node(1, {2: 30}, link=None), node(2, {1: 30}, link=None))
    assert one is not None
    assert one.severity == "warning"
    assert (joined.conclusion.verdict, joined.exit_code) == ("unknown", 3)
    assert "what the network carries without is not known" in joined.conclusion.reason
    again = with_samples(joined, joined.node_samples or samples_of())
    assert again.checks == joined.checks


def test_a_link_that_is_full_beside_losses_is_a_warning() -> None:
    """Many that send to one at a time lose some, and fill its link all the same."""
    one, joined = judged(run(2), node(1, {2: 30}, rate=0.9 * RATE_OF_TEN), node(2, {1: 30}, rate=0.9 * RATE_OF_TEN))
    assert one is not None
    assert (one.severity, joined.conclusion.verdict) == ("warning", "warning")


def test_the_node_that_all_of_it_was_on_the_way_to_or_from_is_named() -> None:
    one, _ = judged(run(4), node(1, {2: 30}), node(2, {3: 10}), node(3, {2: 50, 4: 1}), node(4, {}))
    assert one is not None
    assert one.hosts == ("node-2",)
    assert one.summary.startswith("node-2: 5.1% of the TCP segments of node-3 were lost")
    one, _ = judged(run(4), node(1, {2: 30}), node(3, {4: 30}))
    assert one is not None
    assert one.hosts == ("node-1", "node-3")
    assert one.summary.startswith("node-1, node-3: ")


def test_losses_on_the_way_to_a_slow_node_are_its_evidence() -> None:
    slow = found(rule="slow-node", severity="critical", summary="node-2 is slow", hosts=["node-2"])
    to_it, from_it = (node(1, {2: 30}), node(3, {2: 30})), (node(2, {1: 30}),)
    for lossy in (to_it, from_it):
        joined = with_samples(run(3, slow), samples_of(*lossy))
        assert [one.rule for one in joined.findings] == ["slow-node"]
        assert any("were lost and sent again" in line.text for line in joined.findings[0].evidence)


@pytest.mark.parametrize(
    ("result", "nodes"),
    [
        (run(2), [node(1, {2: 9}), node(2, {1: 9})]),  # less than 1 %
        (run(2), [node(1, {}, needless=300), node(2, {})]),  # the peer had them
        (run(2), [node(1, {2: 300}, lossy=range(30, 40)), node(2, {})]),  # after what was measured
        (run(2, emulated=True), [node(1, {2: 30}), node(2, {1: 30})]),
    ],
)
def test_what_is_no_loss_that_matters(result: RunResult, nodes: list[SampledNode]) -> None:
    one, joined = judged(result, *nodes)
    assert one is None
    assert joined.checks == result.checks


@pytest.mark.parametrize(
    ("link", "rate", "waiting", "verdict"),
    [
        (10.0, 12e6, 0.1, "unknown"),  # 1 % of the link, and no other path is there to compare with
        (10.0, 12e6, 0.5, "ok"),  # on processors that are taken, which may be what is slow
        (10.0, 60e6, 0.1, "ok"),
        (0.1, 12e6, 0.1, "ok"),  # all that it carries
        (None, 12e6, 0.1, "ok"),  # a virtual machine's, which does not say
    ],
)
def test_two_paths_that_carry_a_trifle_of_their_links_are_not_fine(
    link: float | None, rate: float, waiting: float, verdict: str
) -> None:
    nodes = [node(own, {}, link=link, clean_rate=rate, rate=rate, peer=3 - own, waiting=waiting) for own in (1, 2)]
    one, joined = judged(run(2), *nodes)
    assert one is None
    assert joined.conclusion.verdict == verdict
    asked = [check.undecided for check in joined.checks if check.name == "tcp paths"]
    assert asked == ([verdict == "unknown"] if (link, rate) == (10.0, 12e6) else []), "what is not known is said"
    if verdict == "unknown":
        text = "TCP carries 0.012 GB/s at most while it has bulk data on its way, 1.0% of a link of 1.25 GB/s (eth0, 10"
        assert text in joined.conclusion.reason
