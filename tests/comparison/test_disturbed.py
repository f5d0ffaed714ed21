"""A side that lost processors to other virtual machines: its interval is longer at one end, and that is said."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from raybench.comparison.comparing import compare
from raybench.comparison.disturbed import disturbance_of, worst_of
from raybench.comparison.interval import ratio_interval
from raybench.comparison.run_side import run_side
from raybench.comparison.side import Disturbance, Side, SideFigure
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.machine_use import MachineUse, stolen_share
from raybench.documents.run.result import RunResult
from tests.comparison.recorded import SERIES, sampled_run
from tests.comparison.stolen_pairs import words

SAMPLE = Path(__file__).parents[1] / "documents/samples/collective-26f0ebe.json"

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


Losses = tuple[tuple[float, ...], ...]


def launched(levels: tuple[float, ...], losses: Losses) -> SideFigure:
    """A run whose launches have these levels, sure to a ten-thousandth, and lost these shares of their nodes."""
    samples = ((0.9999, 1.0, 1.0001),) * 3
    launches = tuple(tuple(tuple(level * one for one in block) for block in samples) for level in levels)
    share = sum(map(max, losses)) / len(losses) if losses else None
    return SideFigure(unit="s", runs=(launches,), stolen=(share,), lost=(losses,))


LEVEL = (1.0, 1.001, 0.999, 1.0)


FLAT = (0.0,), (0.1,), (0.2,), (0.0,)
TENTH, LITTLE = -math.log1p(-0.1), 0.02  # of a loss of 10 %; of a slope that is known to be none


@pytest.mark.parametrize(
    ("before", "after", "below", "above"),
    [
        (FLAT, ((0.1,), (0.2,), (0.2,), (0.1,)), LITTLE, 0.0),
        (((0.1,), (0.2,), (0.2,), (0.1,)), FLAT, 0.0, LITTLE),
        (((0.0,), (0.0,), (0.01,), (0.0,)), ((0.1,), (0.3,), (0.2,), (0.1,)), LITTLE, 0.0),
        (((0.0, 0.1), (0.1, 0.0)) * 2, ((0.1, 0.0), (0.1, 0.2)) * 2, LITTLE, LITTLE),
        # as long as may be
        (((0.0,),) * 4, ((0.1,),) * 4, TENTH, 0.0),  # launches that do not differ have no slope
        (((0.1,),) * 4, ((0.0,), (0.0,), (0.0,), (0.0001,)), 0.0, TENTH),
        (((0.0,), (0.02,), (0.0,), (0.02,)), ((0.11,),) * 4, TENTH, 0.0),  # nothing between is seen
        (((0.1,),) * 4, (), 0.0, TENTH),  # not known of the one
        (((0.1, 0.0),) * 4, ((0.0, 0.1),) * 4, TENTH, TENTH),  # of two machines, each of which was hit on one side
        (((0.1, 0.0), (0.0, 0.1)) * 2, ((0.0, 0.0),) * 4, 0.0, TENTH),  # either of them, so that the levels are flat
    ],
)
def test_how_much_of_a_loss_counts_is_asked_of_the_launches(
    before: Losses, after: Losses, below: float, above: float
) -> None:
    sides = [launched(LEVEL, losses) for losses in (before, after)]
    plain = ratio_interval(*(replace(side, lost=(), stolen=()) for side in sides))
    found = ratio_interval(*sides)
    for grown, wanted in ((math.log(plain.low / found.low), below), (math.log(found.high / plain.high), above)):
        assert 0 <= grown <= LITTLE if wanted == LITTLE else grown == pytest.approx(wanted, rel=0.1, abs=1e-9)


def test_a_loss_that_reaches_times_counts_in_full_and_a_difference_beyond_it_is_told() -> None:
    losses = ((0.0,), (0.1,), (0.2,), (0.05,)), ((0.1,), (0.2,), (0.3,), (0.15,))
    reached = [tuple(1 / (1 - share) for (share,) in side) for side in losses]
    same = ratio_interval(*(launched(levels, side) for levels, side in zip(reached, losses, strict=True)))
    assert same.ratio > 1.1
    assert not same.is_clear
    nothing = ratio_interval(launched(LEVEL, losses[0]), launched(tuple(1.05 * one for one in LEVEL), losses[1]))
    assert nothing.low > 1.02


def test_what_lies_between_the_launches_of_both_sides_never_makes_a_difference() -> None:
    """Three per cent apart, as may be 1/(1 - s) of the 9 % that no launch shows; agreement needs no such chance."""
    losses = ((0.0,), (0.01,), (0.0,), (0.01,)), ((0.1,), (0.3,), (0.2,), (0.1,))
    apart, alike = (
        ratio_interval(launched(LEVEL, losses[0]), launched(tuple(factor * one for one in LEVEL), losses[1]))
        for factor in (1.03, 1.0)
    )
    assert not apart.is_clear
    assert alike.is_within(0.05)
    assert ratio_interval(launched(LEVEL, losses[0]), launched(tuple(0.97 * one for one in LEVEL), losses[1])).high < 1


@pytest.mark.parametrize(
    ("reached", "told"), [((0.0, 0.0), True), ((0.3, 0.0), False), ((0.0, 0.3), False)], ids=["no", "less", "more"]
)
def test_a_difference_is_told_where_neither_side_shows_that_losses_reach_it(
    reached: tuple[float, float], told: bool
) -> None:
    """Four per cent apart, and 11 % that only one side lost; ``reached``: which part of its losses each side shows."""
    losses = ((0.0,), (0.05,), (0.1,), (0.1,)), ((0.2,), (0.3,), (0.25,), (0.2,))
    sides = [
        launched(
            tuple(level * factor * (1 - share) ** -part for level, (share,) in zip(LEVEL, side, strict=True)), side
        )
        for factor, part, side in zip((1.0, 1.04), reached, losses, strict=True)
    ]
    assert ratio_interval(*sides).is_clear is told


@pytest.mark.parametrize(
    ("losses", "reach", "wanted"),
    [
        ("both on that host", "nothing", 0.8),
        ("both on that host", "all", 0.0),
        ("one on that host, one quiet", "above 10 %", 0.0),
        ("nodes by themselves", "of the second node", 0.0),
    ],
)
def test_simulated_losses_make_no_false_word(losses: str, reach: str, wanted: float) -> None:
    same, other = words(losses, reach, count=40, seed=2, spread=0.0)
    assert same["slower"] + same["faster"] <= 0.05 * 40
    assert other.total() - other["found"] - other["cannot tell"] <= 0.05 * 40
    assert min(same["no difference"], other["found"]) >= wanted * 40


@pytest.mark.parametrize(
    ("uses", "lost"),
    [
        ([use(0, 0, 0.1), use(0, 1, 0.2), use(1, 0, 0.0), use(1, 1, 0.3)], ((0.1, 0.2), (0.0, 0.3))),
        ([use(1, 1, 0.3), use(0, 1, 0.2), use(1, 0, 0.0), use(0, 0, 0.1)], ((0.1, 0.2), (0.0, 0.3))),  # in their order
        ([use(0, 0, 0.1), use(1, 0, None)], ()),
        ([use(0, 0, 0.1)], ()),  # of one of two launches
        ([], ()),
    ],
)
def test_a_run_knows_what_each_launch_lost(uses: list[MachineUse], lost: Losses) -> None:
    content = json.loads(SAMPLE.read_text(encoding="utf-8"))
    for point in content["benchmarks"][0]["points"]:
        lengths = point["block_iterations"][0]
        point["block_iterations"] = [lengths[:3], lengths[3:]]  # two launches
    content["benchmarks"][0]["machine_use"] = [one.to_json() for one in uses]
    side = run_side("it", [RunResult.of_json(content, "it")])
    found = [one.lost for one in side.figures.values()]
    assert {tuple(tuple(round(share, 6) for share in node) for node in run) for one in found for run in one} == {lost}


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
