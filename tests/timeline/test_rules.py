"""Each rule over samples and points: a case, its near misses, and what it says where samples are missing."""

import dataclasses
import math
import random
from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.result import RunResult
from raybench.documents.run.training.memory_growth import MemoryGrowth
from raybench.finding_rules import samples as rules
from raybench.timeline.judging import RULES, with_samples
from tests.timeline.runs import collective, matrix, run_of, training
from tests.timeline.streams import sampled, samples_of

ERRORS = "port/mlx5_3:1/symbol_errors"
THERMAL, CAP, BUSY_GPU = "gpu/0/throttle_thermal", "gpu/0/throttle_power_cap", "gpu/0/utilization_percent"
RESIDENT, SWAPPED = "process/4711/resident_bytes", "host/swap/in_bytes"
CORES, BUSY, WAITED, OTHER = (
    "host/cpu/cores",
    "host/cpu/busy_seconds",
    "pressure/cpu/some_seconds",
    "other/99/processors_used",
)
MIB = 2**20


def found(result: RunResult, rule: str, *nodes: SampledNode) -> list[Finding]:
    return [one for one in with_samples(result, samples_of(*nodes)).findings if one.rule == rule]


def why(result: RunResult, rule: str, *nodes: SampledNode) -> str:
    samples = with_samples(result, samples_of(*nodes)).node_samples
    assert samples is not None
    return next((one.why for one in samples.rules_cannot_tell if one.rule == rule), "")


def counter(grows: Callable[[int], float], seconds: int = 80) -> list[float | None]:
    """A counter that grows by so much in each second."""
    total = 5.0
    return [total := total + (grows(at) if at else 0) for at in range(seconds)]


def errors_in(first: int, last: int, a_second: int = 410) -> list[float | None]:
    return counter(lambda at: a_second if first < at <= last else 0)


class TestPortErrors:
    RULE = rules.PORT_ERRORS.id

    def test_errors_and_a_launch_slower_than_the_others_are_quoted_together(self) -> None:
        run = run_of(collective((0.10, 0.16, 0.10)))
        clean = sampled("node-0", {ERRORS: counter(lambda _: 0)})
        (one,) = found(run, self.RULE, clean, sampled("node-1", {ERRORS: errors_in(30, 40)}))
        assert one.severity == "critical"
        assert one.summary.startswith("node-1 mlx5_3:1: symbol errors +4,100 during all_reduce 1G, busbw 3")
        assert one.summary.endswith("% below its other launches")
        assert (one.hosts, one.ranks) == (("node-1",), (2, 3))
        assert [line.file for line in one.evidence] == ["node_samples.json", "result.json"]
        assert "5 at 29.0 s, 4105 at 41.0 s" in one.evidence[0].text
        assert "GB/s" in one.evidence[1].text

    @pytest.mark.parametrize("seconds", [(0.10, 0.10, 0.10), (0.16,), (0.10, 0.102)])
    def test_without_a_drop_it_is_a_warning_of_the_port_alone(self, seconds: tuple[float, ...]) -> None:
        first = 30 if len(seconds) > 1 else 10
        (one,) = found(
            run_of(collective(seconds)), self.RULE, sampled("node-1", {ERRORS: errors_in(first, first + 10)})
        )
        assert one.severity == "warning"
        assert one.summary.endswith("symbol errors +4,100 during all_reduce 1G")
        assert [line.file for line in one.evidence] == ["node_samples.json"]

    def test_a_pair_is_compared_with_pairs_of_other_nodes(self) -> None:
        place = next(n for n, one in enumerate(matrix().points) if (one.source_rank, one.destination_rank) == (3, 6))
        errors = errors_in(10 + place, 11 + place)
        run = run_of(matrix(slow=[(3, 6)]), nodes=8, per_node=1)
        (one,) = found(run, self.RULE, sampled("node-3", {ERRORS: errors}))
        assert one.severity == "critical"
        assert "during p2p 64M, rank 3 to 6, busbw 70% below pairs of other nodes" in one.summary
        assert found(run, self.RULE, sampled("node-1", {ERRORS: errors})) == [], "it took no part in that pair"

    @pytest.mark.parametrize(
        "errors",
        [
            counter(lambda _: 0),  # they stand above 0, and do not grow
            errors_in(60, 75),  # after all was measured
            counter(lambda at: 1 if at in (32, 36) else 0),  # two bits
        ],
    )
    def test_errors_that_did_not_come_while_it_measured_are_none(self, errors: list[float | None]) -> None:
        run = run_of(collective((0.10, 0.16)))
        assert found(run, self.RULE, sampled("node-1", {ERRORS: errors})) == []

    def test_a_counter_that_was_misread_once_is_no_growth(self) -> None:
        errors: list[float | None] = [0 if at == 35 else 500 for at in range(80)]
        assert found(run_of(collective((0.10, 0.16, 0.10))), self.RULE, sampled("node-1", {ERRORS: errors})) == []

    def test_congestion_is_no_fault_of_a_port(self) -> None:
        node = sampled("node-1", {"port/mlx5_3:1/send_wait_ticks": errors_in(10, 20), ERRORS: counter(lambda _: 0)})
        assert found(run_of(collective((0.1, 0.1))), self.RULE, node) == []

    def test_it_says_where_it_cannot_tell(self) -> None:
        node, other = sampled("node-0", {BUSY_GPU: [1.0] * 9}), sampled("node-1", {ERRORS: [0] * 9})
        run = run_of(collective((0.1, 0.1)))
        assert why(run, self.RULE, node) == "no node has error counters of ports"
        assert why(run, self.RULE, node, other) == "node-0 without error counters of ports"
        assert why(run, self.RULE, other) == ""
        without_times = run_of(collective((0.1,), times=False))
        assert "does not say when" in why(without_times, self.RULE, other)


class TestGpuThrottled:
    RULE = rules.GPU_THROTTLED.id
    STEPS = [0.09] * 200 + [0.15] * 100 + [0.09] * 100  # slow from 28 s to 43 s

    def test_the_steps_of_that_time_are_compared_with_the_others(self) -> None:
        hot = [float(28 <= at <= 43) for at in range(80)]
        (one,) = found(run_of(training(self.STEPS)), self.RULE, sampled("node-0", {THERMAL: hot}))
        assert one.summary == ("node-0 GPU 0: clocks lowered for the temperature in 16 of 50 readings during ddp tiny")
        assert "took 150.00 ms in the median, others 90.00 ms" in one.explanation

    @pytest.mark.parametrize(
        "series",
        [
            {CAP: [1.0] * 80, THERMAL: [0.0] * 80},  # at its power limit, as a GPU at full load is
            {THERMAL: [float(at > 60) for at in range(80)]},  # afterwards
            {THERMAL: [float(at == 30) for at in range(80)]},  # one reading
        ],
    )
    def test_what_is_no_fault_or_not_then_is_none(self, series: dict[str, list[float | None]]) -> None:
        assert found(run_of(training(self.STEPS)), self.RULE, sampled("node-0", series)) == []

    def test_gpus_that_say_nothing_of_it_are_unknown_and_no_gpus_are_not(self) -> None:
        node = sampled("node-0", {ERRORS: [0] * 80})
        assert "no node has the reasons" in why(run_of(training(self.STEPS)), self.RULE, node)
        assert why(run_of(training(self.STEPS), per_node=0), self.RULE, node) == ""


class TestGpuWaits:
    RULE = rules.GPU_WAITS.id

    def test_idle_gpus_and_slow_data_together(self) -> None:
        node = sampled("node-0", {BUSY_GPU: [55.0] * 80})
        (one,) = found(run_of(training([0.1] * 400, data=0.04)), self.RULE, node)
        assert one.summary == "GPUs were busy 55 % of ddp tiny, and loading data took 40% of a step"

    @pytest.mark.parametrize(("busy", "data"), [(95.0, 0.04), (55.0, 0.005)])
    def test_one_of_the_two_alone_is_none(self, busy: float, data: float) -> None:
        node = sampled("node-0", {BUSY_GPU: [busy] * 80})
        assert found(run_of(training([0.1] * 400, data=data)), self.RULE, node) == []

    def test_utilisation_that_is_not_known_is_not_guessed(self) -> None:
        run = run_of(training([0.1] * 400, data=0.04))
        assert found(run, self.RULE, sampled("node-0", {ERRORS: [0] * 80})) == []
        assert "no node has the utilisation" in why(run, self.RULE, sampled("node-0", {ERRORS: [0] * 80}))


def held(growth: Callable[[int], float], noise: float = 3 * MIB) -> list[float | None]:
    source = random.Random(5)
    return [2000 * MIB + growth(at) * MIB + source.random() * noise for at in range(80)]


class TestMemoryGrows:
    RULE = rules.MEMORY_GROWS.id

    def test_growth_step_by_step_has_its_interval(self) -> None:
        node = sampled("node-0", {RESIDENT: held(lambda at: 10 * at)})
        (one,) = found(run_of(training([0.1] * 600)), self.RULE, node)
        assert one.summary.startswith("node-0: memory of process 4711 grows by ")
        assert "95 % interval" in one.explanation

    @pytest.mark.parametrize(
        "series",
        [
            held(lambda at: 900 * (1 - math.exp(-at / 5))),  # settles, as an allocator does
            held(lambda at: 300 * (at % 13) / 13),  # freed by a collector now and then
            held(lambda _: 0, noise=80 * MIB),  # noise
            held(lambda at: 0.2 * at),  # 12 MiB in all
            held(lambda at: 500 if at > 60 else 0),  # once
        ],
    )
    def test_what_does_not_grow_throughout_is_none(self, series: list[float | None]) -> None:
        assert found(run_of(training([0.1] * 600)), self.RULE, sampled("node-0", {RESIDENT: series})) == []

    def test_what_a_rank_said_itself_is_not_said_of_its_samples_again(self) -> None:
        node = sampled("node-0", {RESIDENT: held(lambda at: 10 * at)})
        benchmark = training([0.1] * 600)
        pace = {"bytes_per_step": 4e6, "interval": (3e6, 5e6), "since_step": 1, "grown_bytes": 10**9}
        for rank in (0, 1):
            growth = MemoryGrowth(rank=rank, kind="cuda", steps_left=9, **pace)
            points = tuple(replace(point, memory_growth=(growth,)) for point in benchmark.workload)
            told = found(run_of(replace(benchmark, workload=points)), self.RULE, node)
            own = [one for one in told if one.summary.startswith(f"rank {rank}: allocated GPU memory grows by ")]
            assert len(own) == 1
            assert "lasts 9 more steps" in own[0].summary

    def test_a_short_training_cannot_tell(self) -> None:
        node = sampled("node-0", {RESIDENT: held(lambda at: 10 * at)})
        run = run_of(training([0.1] * 100))
        assert found(run, self.RULE, node) == []
        assert "32 readings" in why(run, self.RULE, node)


class TestNodeSwaps:
    RULE = rules.NODE_SWAPS.id

    def test_pages_that_move_while_it_measures(self) -> None:
        node = sampled("node-1", {SWAPPED: counter(lambda at: 40 * MIB if 12 <= at <= 18 else 0)})
        (one,) = found(run_of(collective((0.1,))), self.RULE, node)
        assert one.summary == "node-1 swapped 280M in during all_reduce 1G"

    @pytest.mark.parametrize(
        "grows", [lambda at: 40 * MIB if at < 9 else 0, lambda _: 4096, lambda at: 40 * MIB if at > 22 else 0]
    )
    def test_before_after_and_a_few_pages_are_none(self, grows: Callable[[int], float]) -> None:
        assert found(run_of(collective((0.1,))), self.RULE, sampled("node-1", {SWAPPED: counter(grows)})) == []


def busy(name: str, *, others: float, waited: float, cores: float = 16) -> SampledNode:
    series: dict[str, list[float | None]] = {
        CORES: [cores] * 80,
        BUSY: counter(lambda _: 14.0),
        WAITED: counter(lambda _: waited),
    }
    return sampled(name, series | ({OTHER: [None if at % 2 else others for at in range(80)]} if others else {}))


class TestProcessorsContended:
    RULE = rules.PROCESSORS_CONTENDED.id

    def test_others_on_one_node_are_named(self) -> None:
        run = run_of(collective((0.1,)))
        (one,) = found(run, self.RULE, busy("node-0", others=0.1, waited=0.0), busy("node-1", others=6.0, waited=0.4))
        assert one.hosts == ("node-1",)
        assert "of 16 processors used by others during all_reduce 1G" in one.summary
        assert "process 99" in one.explanation

    @pytest.mark.parametrize(
        "nodes",
        [
            (busy("node-0", others=6.0, waited=0.4), busy("node-1", others=6.0, waited=0.4)),  # alike
            (busy("node-0", others=0.0, waited=0.0), busy("node-1", others=6.0, waited=0.01)),  # nobody waited
            (busy("node-0", others=0.0, waited=0.4), busy("node-1", others=0.5, waited=0.4)),  # half a processor
            (busy("node-0", others=0.0, waited=0.4), busy("node-1", others=0.0, waited=0.4)),  # our own ranks
        ],
    )
    def test_what_is_alike_or_costs_nothing_is_none(self, nodes: Iterable[SampledNode]) -> None:
        assert found(run_of(collective((0.1,))), self.RULE, *nodes) == []


def test_a_clock_that_is_off_widens_what_is_looked_at() -> None:
    """Errors three seconds after a point may be within it where the node's clock is known to four seconds only."""
    run, errors = run_of(collective((0.1,))), errors_in(22, 24)
    assert found(run, rules.PORT_ERRORS.id, sampled("node-1", {ERRORS: errors}, bound=0.0)) == []
    assert len(found(run, rules.PORT_ERRORS.id, sampled("node-1", {ERRORS: errors}, bound=4.0))) == 1


def test_what_samples_showed_before_is_replaced_and_nothing_else() -> None:
    run = run_of(collective((0.1,)))
    bad = samples_of(sampled("node-1", {SWAPPED: counter(lambda _: 40 * MIB)}))
    once = with_samples(run, bad)
    assert with_samples(once, bad).findings == once.findings != run.findings
    clean = with_samples(once, samples_of(sampled("node-1", {SWAPPED: [0] * 80})))
    assert clean.findings == run.findings


@pytest.mark.parametrize(("device", "kept"), [("mlx5_3:1", 0), ("mlx5_4:1", 1)])
def test_what_the_agent_said_live_of_the_same_device_is_said_once(device: str, kept: int) -> None:
    live = Finding(
        rule="port-errors",
        severity="warning",
        confidence="certain",
        summary=f"node-1 {device}: 410 symbol errors in 1 s",
        explanation="",
        hosts=("node-1",),
    )
    run = replace(run_of(collective((0.1,))), findings=(live,))
    node = sampled("node-1", {ERRORS: errors_in(10, 20)})
    assert len(found(run, "port-errors", node)) == kept
    assert len(found(run, rules.PORT_ERRORS.id, node)) == 1


LOST = "lost_segments"


@pytest.mark.parametrize(
    ("host", "lost", "kept"),
    [
        ("node-1", {"192.0.2.3": 240, "192.0.2.9": 20}, 0),  # nearly all on the way to the slow node
        ("node-2", {}, 0),  # on the way from it
        ("node-1", {"192.0.2.3": 200, "192.0.2.4": 60}, 1),  # to others, too
        ("node-1", {"198.51.100.7": 260}, 1),  # to an address of no node
        ("node-1", {}, 1),  # nobody knows to whom
    ],
)
def test_segments_lost_on_the_way_to_a_slow_node_are_its_evidence(host: str, lost: dict[str, int], kept: int) -> None:
    slow = Finding(
        rule="slow-node", severity="critical", confidence="certain", summary="", explanation="", hosts=("node-2",)
    )
    live = Finding(
        rule="tcp-retransmissions",
        severity="warning",
        confidence="certain",
        summary=f"{host} TCP: 1.3%",
        explanation="",
        hosts=(host,),
    )
    run = run_of(collective((0.1,)), nodes=4)
    nodes = tuple(replace(one, address=f"192.0.2.{number + 1}") for number, one in enumerate(run.cluster.nodes))
    again = dataclasses.replace(slow, summary="of another benchmark")
    run = replace(run, findings=(live, slow, again), cluster=replace(run.cluster, nodes=nodes, emulated=False))
    series = {f"tcp/{peer}/{LOST}": [None, count / 2, count, None] for peer, count in lost.items()}
    joined = with_samples(run, samples_of(sampled(host, series or {CORES: [4]})))
    assert [one.rule for one in joined.findings if one.rule != "slow-node"] == ["tcp-retransmissions"] * kept
    of_slow = [one for one in joined.findings if one.rule == "slow-node"]
    assert [one.summary for one in of_slow] == ["", "of another benchmark"]
    for one in of_slow:
        assert [line.text for line in one.evidence] == [f"{host} TCP: 1.3%"] * (1 - kept)


RATES = {"192.0.2.1": 9e8, "192.0.2.2": 9e8, "192.0.2.3": 9e8, "192.0.2.4": 9e8}


def carrying(number: int, slow: Iterable[int], *, rate: float = 2.4e6, seconds: range = range(9, 21)) -> SampledNode:
    """Node ``number`` of a ring of four: 2.4 MB/s go to the next one, which takes the whole time where one is slow."""
    peer = number % 4 + 1
    carried = counter(lambda row: rate if row in seconds else 0)
    share = 1.0 if {number, peer}.intersection(slow) else rate / 9e8
    busy = counter(lambda row: share if row in seconds else 0)
    series = {"carried_bytes": carried, "carrying_seconds": busy, "least_round_trip_microseconds": [50.0] * len(busy)}
    return sampled(f"node-{number}", {f"tcp/192.0.2.{peer}/{name}": values for name, values in series.items()})


def ring_run(*findings: Finding, emulated: bool = False) -> RunResult:
    run = run_of(collective((0.10,)), nodes=4, per_node=1)
    nodes = tuple(
        replace(one, name=f"node-{number}", address=f"192.0.2.{number}")
        for number, one in enumerate(run.cluster.nodes, 1)
    )
    return replace(run, cluster=replace(run.cluster, nodes=nodes, emulated=emulated), findings=findings)


def test_a_node_whose_tcp_paths_are_slow_is_named_with_both_figures() -> None:
    (one,) = found(ring_run(), rules.SLOW_TCP_PATHS.id, *(carrying(number, [3]) for number in range(1, 5)))
    assert (one.hosts, one.severity) == (("node-3",), "critical")
    assert one.summary == (
        "node-3: TCP carries 0.0024 GB/s to and from node-3, and at least 0.6 on the other 2 paths in use, "
        "during all_reduce"
    )
    assert [line.text.split(":")[0] for line in one.evidence] == [
        "node-2 tcp/192.0.2.3/carried_bytes",
        "node-2 tcp/192.0.2.3/carrying_seconds",
        "node-3 tcp/192.0.2.4/carried_bytes",
        "node-3 tcp/192.0.2.4/carrying_seconds",
        "all_reduce 1G, 10.0 to 20.0 s",
    ]


@pytest.mark.parametrize(
    ("waiting", "rate", "verdict"),
    [
        (0.1, 9e7, "unknown"),
        (0.5, 9e7, "ok"),  # a tenth of the others: processors that are taken may be why
        (
            0.5,
            2.4e6,
            "unknown",
        ),  # not so little, for a whole benchmark: a node that was warned of live was in an ok run
    ],
)
def test_slow_paths_that_nobody_explains_are_not_fine_unless_processors_are_taken(
    waiting: float, rate: float, verdict: str
) -> None:
    nodes = [carrying(number, [1, 3], rate=rate) for number in range(1, 5)]
    nodes[1] = carrying(2, [], rate=rate)
    crowd = sampled("node-4", {**dict_of(nodes[3]), "pressure/cpu/some_seconds": counter(lambda _: waiting)})
    joined = with_samples(ring_run(), samples_of(*nodes[:3], crowd))
    assert [one for one in joined.findings if one.rule == rules.SLOW_TCP_PATHS.id] == []
    assert joined.conclusion.verdict == verdict, joined.conclusion.reason
    assert ("far less on some paths" in joined.conclusion.reason) is (verdict == "unknown")


def dict_of(node: SampledNode) -> dict[str, list[float | None]]:
    return {name: node.values(name) for name in node.series}


def contended_on(*hosts: str) -> Finding:
    """What the agents of these nodes said live."""
    one = rules.PROCESSORS_CONTENDED.finding(
        severity="warning", confidence="certain", summary="", explanation="", hosts=hosts, recommendations=()
    )
    return dataclasses.replace(one, rule="cpu-contention")


def test_processors_that_all_nodes_lack_excuse_no_link() -> None:
    run = ring_run(contended_on("node-1", "node-2", "node-3", "node-4"))
    (one,) = found(run, rules.SLOW_TCP_PATHS.id, *(carrying(number, [3]) for number in range(1, 5)))
    assert one.hosts == ("node-3",)


@pytest.mark.parametrize(
    ("run", "nodes"),
    [
        (ring_run(), [carrying(number, []) for number in range(1, 5)]),
        (ring_run(), [carrying(number, [3]) for number in (1, 2, 4)]),
        (ring_run(emulated=True), [carrying(number, [3]) for number in range(1, 5)]),
        (ring_run(), [carrying(number, [3], seconds=range(40, 60)) for number in range(1, 5)]),
        (ring_run(contended_on("node-3")), [carrying(number, [3]) for number in range(1, 5)]),
        (
            ring_run(dataclasses.replace(contended_on("node-3"), rule="slow-rank")),
            [carrying(number, [3]) for number in range(1, 5)],
        ),
    ],
    ids=[
        "healthy",
        "a node without samples",
        "emulated",
        "after what was measured",
        "others at work on it",
        "a rank of it is slow by itself",
    ],
)
def test_slow_tcp_paths_near_misses(run: RunResult, nodes: list[SampledNode]) -> None:
    assert found(run, rules.SLOW_TCP_PATHS.id, *nodes) == []


def test_every_rule_of_samples_is_judged() -> None:
    assert set(RULES) == {rule.id for rule in rules.RULES}


@pytest.mark.parametrize(("bound", "joined"), [(0.002, True), (9.0, True), (11.0, False)])
def test_a_clock_that_is_known_worse_than_a_point_lasted_joins_nothing_and_says_so(bound: float, joined: bool) -> None:
    run = run_of(collective((0.10,)))
    node = sampled("node-1", {ERRORS: errors_in(12, 18)}, bound=bound)
    assert len(found(run, rules.PORT_ERRORS.id, node)) == joined
    said = why(run, rules.PORT_ERRORS.id, node)
    assert said == (
        ""
        if joined
        else "node-1: the offset of its clock is known within ±11.0 s only, longer than all_reduce 1G lasted"
    )
    for one in found(run, rules.PORT_ERRORS.id, node):
        assert "(offset of its clock within ±" in one.evidence[0].text
