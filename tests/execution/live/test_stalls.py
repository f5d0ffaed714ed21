"""Which ranks stand still by their marks: a stopped one at once, the others by the run's own pace."""

import pytest

from raybench.benchmarks.events import RankMark
from raybench.benchmarks.rank.progress import NOBODY, Operation, Position
from raybench.execution.live.stalls import Moved, Stalls, has_pace

INSIDE = Operation(
    name="all_reduce",
    sequence=7,
    count=4,
    dtype="float32",
    peer=NOBODY,
    source=NOBODY,
    group=0,
    first=0,
    size=0,
    stride=1,
    inside=True,
)


def mark(rank: int, moves: int, *, state: str = "S", usual: float = 0.1, phase: str = "timing") -> RankMark:
    position = Position(phase=phase, benchmark=0, point=0, block=0, iteration=moves)
    return RankMark(rank=rank, state=state, position=position, moves=moves, usual_seconds=usual, operation=INSIDE)


def looks(usual: float, seconds: int, *, phase: str = "timing", moving: bool = False) -> list[int]:
    """At which seconds two ranks that stand still from the first second on call for a look."""
    stalls = Stalls(world_size=2)
    found = []
    for second in range(seconds):
        moves = second if moving else 3
        stalls.take([mark(0, 3, usual=usual, phase=phase), mark(1, moves, usual=usual, phase=phase)], float(second))
        if stalls.calls_for_a_look(second + 0.2):
            found.append(second)
    return found


def test_a_stopped_rank_is_told_once_and_again_when_it_moves() -> None:
    stalls = Stalls(world_size=2)
    told: list[tuple[int, float]] = []
    moved: list[Moved] = []
    for second in range(30):
        stopped = 5 <= second < 27
        moves = 5 if stopped else second
        moved += stalls.take([mark(0, second), mark(1, moves, state="T" if stopped else "S")], float(second))
        told += stalls.stopped(second + 0.2)
        assert not told or second >= 7
    assert told == [(1, 5.0)]
    assert moved == [Moved(rank=1, seconds=22.0)]


def test_one_mark_alone_is_nobodys_stall_however_long_the_next_one_takes() -> None:
    stalls = Stalls(world_size=1)
    stalls.take([mark(0, 1, state="t")], 1.0)
    assert stalls.stopped(6.0) == []
    stalls.take([mark(0, 1, state="t")], 6.5)
    assert stalls.stopped(6.6) == [(0, 1.0)]


def test_a_debugger_that_attaches_for_a_moment_is_nobodys_stall() -> None:
    stalls = Stalls(world_size=1)
    for second, state in enumerate("SSTSSTS"):
        stalls.take([mark(0, second, state=state)], float(second))
        assert stalls.stopped(second + 0.9) == []


def test_all_ranks_that_stand_still_are_looked_at_once_and_again_after_twice_the_time() -> None:
    assert looks(0.1, 12) == [2, 5, 11]


@pytest.mark.parametrize(("usual", "first"), [(1.0, 2), (4.0, 7), (20.0, 31)])
def test_the_runs_own_pace_is_waited_for(usual: float, first: int) -> None:
    assert looks(usual, 40)[0] == first


def test_nobody_is_looked_at_while_a_rank_moves_or_before_there_is_a_pace() -> None:
    assert looks(0.1, 12, moving=True) == []
    assert looks(0.1, 12, phase="joining the process group") == []


def test_a_rank_that_is_not_heard_of_is_waited_for() -> None:
    stalls = Stalls(world_size=2)
    for second in range(12):
        stalls.take([mark(0, 3, usual=2.0)], float(second))
        assert not stalls.calls_for_a_look(second + 0.2)
        if second == 0:
            stalls.take([mark(1, 3, usual=2.0)], 0.0)


def test_the_drivers_own_absence_is_no_stall() -> None:
    stalls = Stalls(world_size=2)
    stalls.take([mark(0, 3), mark(1, 3)], 0.0)
    stalls.forgive(20.0)
    assert not stalls.calls_for_a_look(20.5)


def test_a_node_that_fell_silent_as_its_ranks_moved_calls_for_no_look() -> None:
    """Its rank host may be stopped: a look would wait for it, and hold up the question that finds that out."""
    stalls = Stalls(world_size=2)
    for second in range(4):
        stalls.take([mark(0, min(second, 2)), mark(1, second)], float(second))
    assert not any(stalls.calls_for_a_look(3.0 + tenth / 10) for tenth in range(30))


def test_a_rank_that_ran_between_two_marks_was_not_stopped_all_the_time() -> None:
    """Slowed by SIGSTOP and SIGCONT: each mark may find it stopped, and it has moved on all the same."""
    stalls = Stalls(world_size=1)
    for second in range(10):
        stalls.take([mark(0, second, state="T")], float(second))
        assert stalls.stopped(second + 0.9) == []


@pytest.mark.parametrize(
    ("kind", "phase", "point", "iteration", "paced"),
    [
        ("collective", "timing", 0, 0, True),
        ("collective", "warming up", 3, 0, True),  # a rank that slept there was not told of at all
        ("collective", "warming up", 0, 0, False),  # the first use of its device and communicator
        ("p2p", "preparing buffers", 1, 0, True),
        ("collective", "joining the process group", 1, 0, False),
        ("training", "timing", 0, 0, True),
        ("training", "warming up", 0, 0, False),  # its first batch, what it compiles
        ("training", "warming up", 0, 1, True),
        ("training", "preparing buffers", 0, 0, False),
        ("checkpoint", "timing", 0, 0, False),  # its storage
        ("one of an installed package", "preparing buffers", 0, 0, False),
    ],
)
def test_who_sleeps_is_told_where_nothing_explains_it(
    kind: str, phase: str, point: int, iteration: int, paced: bool
) -> None:
    position = Position(phase=phase, benchmark=0, point=point, block=0, iteration=iteration)
    assert has_pace(position, kind) is paced
