"""A side that lost processors to other virtual machines: its interval is longer at one end, and that is said."""

from dataclasses import replace

import pytest

from raybench.comparison.comparing import compare
from raybench.comparison.disturbed import disturbance_of, worst_of
from raybench.comparison.interval import ratio_interval
from raybench.comparison.side import Disturbance, Side
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.machine_use import MachineUse, stolen_share
from tests.comparison.recorded import SERIES, sampled_run

RUNS = [run for run in SERIES["load 1.1 to 2.1"] if run["rate"] == "100mbit"]
SLOWER = [run for run in SERIES["load 1.1 to 2.1"] if run["rate"] == "95mbit"]


def use(launch: int, rank: int, stolen: float | None, waiting: float | None = 0.1) -> MachineUse:
    busy = None if stolen is None else 1 - stolen
    return MachineUse(
        launch=launch, rank=rank, seconds=1.0, processors=2, busy_seconds=busy, stolen_seconds=stolen,
        waiting_seconds=waiting,
    )  # fmt: skip


def lost(side: Side, name: str, share: float | None) -> Side:
    figures = {key: replace(figure, stolen=(share,)) for key, figure in side.figures.items()}
    return replace(side, name=name, figures=figures, disturbance=Disturbance(stolen=share, stolen_where="node2"))


@pytest.mark.parametrize(
    ("shares", "word", "said"),
    [
        ((None, None), "slower", ""),
        ((None, 0.06), "cannot tell", "what A lost is unknown"),
        ((0.06, None), "slower", "what B lost is unknown"),
        ((None, 0.02), "slower", ""),  # what one side lost more than the other is unknown, and it is little
        ((0.01, 0.01), "slower", ""),
        ((0.06, 0.06), "slower", ""),  # both lost the same: it is in both levels
        ((0.0, 0.015), "slower", "; B lost 1.5% of its processors to other virtual machines, A 0.0%"),
        ((0.0, 0.06), "cannot tell", "; B lost 6.0% of its processors to other virtual machines, A 0.0%"),
        ((0.06, 0.0), "slower", "; B lost 0.0% of its processors to other virtual machines, A 6.0%"),
    ],
)
def test_what_a_side_lost_more_may_be_why_it_is_slower(
    shares: tuple[float | None, float | None], word: str, said: str
) -> None:
    before, after = (lost(sampled_run(run), name, share) for run, name, share in
                     ((RUNS[0], "A", shares[0]), (SLOWER[0], "B", shares[1])))  # fmt: skip
    found = compare([before, after])
    assert {one.difference for one in found.compared} == {word}
    assert found.verdict_reason.endswith(said) if said else "virtual" not in found.verdict_reason
    sentence = "{} lost 6.0% of its processors to other virtual machines (node2)"
    wanted = [sentence.format(name) for name, share in zip("AB", shares, strict=True) if share == 0.06]
    assert [one for one in found.remarks if "virtual" in one] == wanted


def test_the_interval_is_longer_at_the_end_of_the_side_that_lost_more() -> None:
    before, after = sampled_run(RUNS[0]).figures, sampled_run(RUNS[1]).figures
    key = next(iter(before))
    plain = ratio_interval(before[key], after[key])
    found = ratio_interval(replace(before[key], stolen=(0.01,)), replace(after[key], stolen=(0.05,)))
    assert found.high == plain.high
    assert found.low == pytest.approx(plain.low * (1 - 0.05) / (1 - 0.01))
    turned = ratio_interval(replace(before[key], stolen=(0.05,)), replace(after[key], stolen=(0.01,)))
    assert (turned.low, turned.high > plain.high) == (plain.low, True)


@pytest.mark.parametrize("unknown", [(None,), (None, None, 0.0), (None, 0.3, 0.0)])
def test_a_loss_that_is_not_known_is_never_more_certain_than_none(unknown: tuple[float | None, ...]) -> None:
    key = next(iter(sampled_run(RUNS[0]).figures))
    much = replace(sampled_run(RUNS[0]).figures[key], stolen=(0.3,))
    one = sampled_run(RUNS[1]).figures[key]
    other = replace(one, runs=one.runs * len(unknown))
    known = tuple(share or 0.0 for share in unknown)
    for order in (1, -1):
        found = ratio_interval(*[much, replace(other, stolen=unknown)][::order])
        zero = ratio_interval(*[much, replace(other, stolen=known)][::order])
        assert found.low <= zero.low
        assert found.high >= zero.high


@pytest.mark.parametrize(
    ("uses", "share"),
    [
        ([], None),
        ([use(0, 0, 0.0), use(0, 1, 0.04), use(1, 0, 0.02), use(1, 1, 0.0)], 0.03),  # the worse node of each launch
        ([use(0, 0, 0.0), use(0, 1, None)], None),  # one that does not know may be the worst
        ([use(0, 0, 0.0), use(1, 0, 0.0)], 0.0),
    ],
)
def test_the_share_of_a_benchmark_is_that_of_the_node_that_lost_most(
    uses: list[MachineUse], share: float | None
) -> None:
    assert stolen_share(uses) == (None if share is None else pytest.approx(share))


def test_a_run_names_its_worst_node_and_several_runs_their_worst() -> None:
    nodes = tuple(NodeInfo(name=f"node{n}", address="", ranks=(n,), gpu_count=0) for n in range(2))
    cluster = ClusterInfo(nodes=nodes, world_size=2, backend="gloo", emulated=False)
    benchmark = BenchmarkResult(
        name="all_reduce", kind="collective", parameters={}, status="complete",
        machine_use=(use(0, 0, 0.01, 0.9), use(0, 1, 0.05, None)),
    )  # fmt: skip
    found = disturbance_of([benchmark], cluster)
    assert found.stolen == pytest.approx(0.05)
    assert found.waiting == pytest.approx(0.9)
    assert (found.stolen_where, found.waiting_where) == ("node1", "node0")
    assert worst_of([Disturbance(), found]).stolen == found.stolen
    assert worst_of([Disturbance(), Disturbance()]) == Disturbance()


def test_waiting_for_a_processor_is_said_and_widens_nothing() -> None:
    waiting = replace(sampled_run(RUNS[0]), name="A", disturbance=Disturbance(waiting=0.96, waiting_where="node1"))
    found = compare([waiting, sampled_run(RUNS[1])])
    assert "A: some task waited for a processor 96% of the time (node1)" in found.remarks
    assert found.verdict == "ok"
