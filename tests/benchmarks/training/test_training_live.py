"""What is told of a training while it goes on: how far it is, a loss that is none, a rank that holds it up."""

import math
import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.interim import UNCHECKED, UNEXPOSED
from raybench.benchmarks.training.live.progress import TrainingLive
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import StepMarks, TrainingRecord
from raybench.benchmarks.workload import LiveRemark

STEP_SECONDS, PART_STEPS, STEPS = 0.1, 25, 400


def live(*, emulated: bool = False) -> TrainingLive:
    options = TrainingOptions(steps=STEPS, batch_size=4)
    return TrainingLive(
        spec=BenchmarkSpec(name="ddp", kind="training", sizes=(), options=options), world_size=4, emulated=emulated
    )


def part(number: int, slower: float, draw: random.Random, *, loss: float = 3.25) -> TrainingRecord:
    """A part of a rank that needs more of each step for itself; what is left of the step it waits."""
    at: list[int] = []
    for step in range(number * PART_STEPS, (number + 1) * PART_STEPS):
        own = STEP_SECONDS / 4 * (1 + slower) * draw.uniform(0.99, 1.01)
        begin = step * STEP_SECONDS
        at += [int(1e9 * (begin + moment)) for moment in (own / 2, own, STEP_SECONDS * 0.99, STEP_SECONDS)]
    return TrainingRecord(
        label="ddp tiny",
        stamps=(),
        phases={},
        marks=StepMarks(names=("forward", "backward", "gradient_sync", "end"), at=tuple(at)),
        losses=(loss,) * PART_STEPS,
        memory={},
        utilization={},
        exposure=UNEXPOSED,
        check=UNCHECKED,
        facts={"gpu": None, "tokens_per_sample": 128},
        interim=True,
        first_step=number * PART_STEPS,
    )


def told(
    training: TrainingLive, slower: dict[int, range], excess: float, ready: dict[int, float] | None = None
) -> Iterator[tuple[int, LiveRemark]]:
    """What is told after how many parts, where ranks are slower in some of them, and ready to run meanwhile."""
    draw = random.Random(7)
    for number in range(STEPS // PART_STEPS):
        for rank in range(4):
            more = excess if number in slower.get(rank, ()) else 0.0
            waited = None if ready is None else ready.get(rank, 0.0) if more or len(ready) > 1 else 0.0
            waited = None if waited == math.inf else waited
            for remark in training.take(rank, replace(part(number, more, draw), ready_seconds=waited)):
                yield number, remark


def test_how_far_a_training_is() -> None:
    training, draw = live(), random.Random(7)
    assert training.progress() is None
    for number in range(4):
        list(training.take(0, part(number, 0.0, draw)))
    progress = training.progress()
    assert progress is not None
    assert (progress.done, progress.total) == (100, 400)
    assert progress.text == f"loss 3.25, {4 * 4 * 128 / STEP_SECONDS / 1e3:.3g}K tokens/s"
    assert progress.left_seconds == pytest.approx(30.0, rel=0.01)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_told_once_by_whichever_rank_has_it(loss: float) -> None:
    training, draw = live(), random.Random(7)
    assert list(training.take(0, part(0, 0.0, draw))) == []
    (remark,) = training.take(2, part(1, 0.0, draw, loss=loss))
    assert (remark.rule, remark.severity) == ("loss-not-finite", "critical")
    assert remark.text == "ddp tiny: the loss is not a finite number in timed step 26 of 400"
    assert list(training.take(3, part(1, 0.0, draw, loss=loss))) == []


def test_a_rank_that_holds_up_the_others_is_told_and_told_again_when_it_no_longer_does() -> None:
    found = list(told(live(), {2: range(4, 10)}, 0.5))
    assert [(one.rank, one.over) for _, one in found] == [(2, False), (2, True)]
    assert found[0][1].text == "rank 2 holds up ddp tiny: its own time is 50.1% above the others'"
    assert found[0][0] == 5  # the second part of 2.5 s
    assert 11 <= found[1][0] <= 13


@pytest.mark.parametrize(
    ("slower", "excess", "emulated"),
    [
        ({}, 0.0, False),
        ({2: range(4, 16)}, 0.05, False),  # worth a finding at the end, not a warning
        ({2: range(4, 16)}, 0.4, True),  # which a crowd can do as well
        ({0: range(3, 4), 2: range(7, 8)}, 0.9, False),  # a stall each
    ],
)
def test_what_is_not_told(slower: dict[int, range], excess: float, emulated: bool) -> None:
    assert list(told(live(emulated=emulated), slower, excess)) == []


def test_parts_of_a_rank_whose_fellows_say_nothing_do_not_pile_up() -> None:
    training, draw = live(), random.Random(7)
    for number in range(300):
        list(training.take(0, part(number, 0.0, draw)))
    assert len(training._stragglers._parts[0]) == 64


def test_a_rank_whose_processor_others_take_is_not_accused_and_they_are() -> None:
    """It is 50 % slower, and for as long as that it was ready to run and had no processor."""
    waited = PART_STEPS * STEP_SECONDS / 4 * 0.5
    (begun, over) = [one for _, one in told(live(), {2: range(4, 10)}, 0.5, ready={2: waited})]
    assert (begun.rule, begun.rank) == ("contended-while-measured", 2)
    assert begun.text.endswith("above the others', most of which it is ready to run while others have its processor")
    assert over.over
    assert [one for _, one in told(live(emulated=True), {2: range(4, 10)}, 0.9, ready={2: 2 * waited})] == []
    accused = list(told(live(), {2: range(4, 10)}, 0.5, ready=dict.fromkeys(range(4), waited)))
    assert accused[0][1].rule == "straggler", "all of them wait for processors"
    small = list(told(live(), {2: range(4, 10)}, 0.5, ready={2: waited / 4}))
    assert small[0][1].rule == "straggler"


CROWD = dict.fromkeys(range(4), PART_STEPS * STEP_SECONDS / 4 * 0.8)  # of its own time each is ready for so long


@pytest.mark.parametrize(
    ("slow", "excess", "ready", "rules"),
    [
        (range(4, 16), 0.4, CROWD, ["straggler"]),  # without the crowd it needs three times as long
        (range(4, 16), 0.4, CROWD | {2: 1.4 * CROWD[0]}, []),  # less than twice: it had a processor less often
        (range(5, 6), 0.4, CROWD, []),  # it stood still once
        (range(4, 16), 0.05, CROWD, []),  # which costs the others next to nothing
        (range(4, 16), 0.4, {0: CROWD[0], 2: CROWD[0]}, []),  # of the others nothing is known
    ],
)
def test_what_a_rank_of_a_crowd_needs_where_it_has_a_processor(
    slow: range, excess: float, ready: dict[int, float], rules: list[str]
) -> None:
    known = {rank: ready.get(rank, math.inf) for rank in range(4)}
    found = list(told(live(emulated=True), {2: slow}, excess, ready=known))
    assert [one.rule for _, one in found] == rules
    assert all(one.rank == 2 and number <= 6 for number, one in found)


@pytest.mark.parametrize("steps", [30, 300])
def test_a_rank_that_is_held_again_and_again_is_told_however_short_a_step_is(steps: int) -> None:
    """It is stopped for 50 ms five times a second: in most of its steps it is as quick as the others."""
    assert [(one.rule, one.rank) for one in held(steps, 2)] == [("straggler", 2)]
    assert held(steps, None) == []


def held(steps: int, slow: int | None) -> list[LiveRemark]:
    """Parts of a second each, for 16 s; all wait for the rank that is held."""
    training, draw = live(), random.Random(7)
    remarks: list[LiveRemark] = []
    for number in range(16):
        for rank in range(4):
            at, now = list[int](), float(number)
            for step in range(steps):
                stop = 0.05 if slow is not None and step % (steps // 5) == 3 else 0.0
                own = now + 0.2 / steps * draw.uniform(0.98, 1.02) + (stop if rank == slow else 0.0)
                now += 0.7 / steps + stop
                at += [int(1e9 * own), int(1e9 * now), int(1e9 * now)]
            one = replace(
                part(0, 0.0, draw),
                marks=StepMarks(names=("backward", "gradient_sync", "end"), at=tuple(at)),
                losses=(3.25,) * steps,
                first_step=number * steps,
            )
            remarks += training.take(rank, one)
    return remarks


def test_what_no_rank_can_have_told_ends_nothing() -> None:
    """A node may say anything: steps that were left out, other marks than before, clocks that stand still."""
    training, draw = live(), random.Random(7)
    for number in (0, 1, 7, 8, 9):
        for rank in range(4):
            odd = part(number, 0.0, draw)
            if rank == 1:
                odd = replace(odd, marks=StepMarks(names=("a", "b", "c", "end"), at=odd.marks.at))
            if rank == 2:
                odd = replace(odd, collectives=(0.1,) * (number % 3) * PART_STEPS, ready_seconds=math.nan)
            if rank == 3:
                odd = replace(odd, marks=StepMarks(names=odd.marks.names, at=(5,) * len(odd.marks.at)))
            assert list(training.take(rank, odd)) == []
