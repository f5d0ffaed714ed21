"""Memory after each step of real ranks and of made series: what leaks is told with its pace, what does not is not."""

import math
import mmap
import random
from collections.abc import Callable
from typing import Any

import pytest

from raybench.benchmarks.training import step
from raybench.documents.run.training.memory_growth import MemoryGrowth
from raybench.documents.run.training.point import TrainingPoint
from raybench.finding_rules.samples import MEMORY_GROWS
from raybench.timeline.growth import growth_by_step, growth_findings
from tests.benchmarks.training.test_training import trained

MIB, GIB = 2.0**20, 2.0**30
_KEPT: list[mmap.mmap] = []
_FILL = b"x" * (4 << 20)


def judged(held: Callable[[int], float], steps: int = 200, noise: float = 0.5) -> MemoryGrowth | None:
    source = random.Random(7)
    series = [2 * GIB + MIB * (held(at) + noise * source.random()) for at in range(steps)]
    return growth_by_step(0, "cuda", series, 10 * GIB)


def test_a_leak_has_its_pace_its_begin_and_its_end() -> None:
    found = judged(lambda at: 3 * at)
    assert found is not None
    assert found.bytes_per_step == pytest.approx(3 * MIB, rel=0.02)
    assert found.interval[0] < 3 * MIB < found.interval[1]
    assert found.since_step == 1
    assert found.steps_left == pytest.approx(10 * 1024 / 3, rel=0.02)


def test_a_leak_that_begins_later_has_the_pace_of_its_own_steps() -> None:
    found = judged(lambda at: 4 * max(at - 80, 0))
    assert found is not None
    assert found.since_step == pytest.approx(81, abs=3)
    assert found.bytes_per_step == pytest.approx(4 * MIB, rel=0.05)


@pytest.mark.parametrize("fallen", [(17,), (2,), (9, 16), (1, 2, 3)])
def test_what_is_freed_once_is_no_later_begin(fallen: tuple[int, ...]) -> None:
    """As seen where a rank's first collection freed what its start had left: 70 MiB, between two steps."""
    found = judged(lambda at: 4 * at - 70 * sum(at >= each for each in fallen))
    assert found is not None
    assert found.since_step == 1
    assert found.bytes_per_step == pytest.approx(4 * MIB, rel=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_freed_and_taken_now_and_then_is_no_later_begin(seed: int) -> None:
    """Of many sizes, some larger than others: as under a launcher that was forked from a large process."""
    source = random.Random(seed)
    jumps = {source.randrange(2, 60): source.choice((-1, -1, 1)) * source.uniform(8, 200) for _ in range(10)}
    found = judged(lambda at: 900 + 4 * at + sum(size for step, size in jumps.items() if at >= step), steps=240)
    assert found is not None
    assert found.since_step <= 3


@pytest.mark.parametrize(
    "before",
    [
        lambda at: 12 * (at % 17),  # a collector's falls come again
        lambda at: 150 * (at % 40 == 30),  # so does a checkpoint's, after a rise
    ],
)
def test_what_comes_and_goes_before_a_leak_is_no_earlier_begin(before: Callable[[int], float]) -> None:
    found = judged(lambda at: before(at) if at < 80 else 4 * (at - 80))
    assert found is not None
    assert found.since_step == pytest.approx(81, abs=3)


@pytest.mark.parametrize(
    "held",
    [
        lambda at: 900 * (1 - math.exp(-at / 8)),  # an allocator that warms up
        lambda at: 700 if at > 90 else 0,  # grown once
        lambda at: 2000 if at % 20 == 19 else 0,  # a checkpoint every twenty steps
        lambda at: 12 * (at % 17),  # a garbage collector
        lambda at: 0.3 * at,  # 45 MiB in all
        lambda at: 400 * math.sin(at / 15),
    ],
)
def test_what_is_no_leak_is_silent(held: Callable[[int], float]) -> None:
    assert judged(held) is None


def test_few_steps_say_nothing() -> None:
    assert judged(lambda at: 50 * at, steps=41) is None
    assert judged(lambda at: 50 * at, steps=42) is not None
    assert growth_by_step(0, "rss", (), None) is None


def _leak_in_one(rank: int) -> None:
    """Rank 1 keeps 4 MiB of each batch; rank 0 takes 100 MiB once, and what it keeps it drops every ninth step.

    Mapped: of the heap it may be what this process freed before, which is resident already.
    """
    made, at = step.batch_of, [0]

    def kept(*given: Any) -> Any:
        at[0] += 1
        if rank == 0 and at[0] % 9 == 0:
            del _KEPT[:]
        _KEPT.append(mmap.mmap(-1, len(_FILL), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        _KEPT[-1].write(_FILL)
        if rank == 0 and at[0] == 30:
            made.__dict__["once"] = bytearray(b"x" * (100 << 20))
        return made(*given)

    step.batch_of = kept


def test_a_rank_that_leaks_is_named_and_one_that_does_not_is_not() -> None:
    point = trained("ddp", model="mlp", sequence_length=None, steps=60, sabotage=_leak_in_one)
    (growth,) = point.memory_growth
    assert (growth.rank, growth.kind) == (1, "rss")
    assert growth.bytes_per_step == pytest.approx(4 * MIB, rel=0.1)
    assert growth.since_step <= 3
    assert growth.steps_left is not None
    (finding,) = growth_findings(point, lambda rank: f"node-{rank}")
    assert (finding.rule, finding.ranks, finding.hosts) == (MEMORY_GROWS.id, (1,), ("node-1",))
    assert finding.summary.startswith("rank 1: resident memory (RSS) grows by 4")
    assert f"lasts {growth.steps_left} more steps" in finding.summary
    assert isinstance(point, TrainingPoint)
    assert point.to_json()["memory_growth"][0]["rank"] == 1
