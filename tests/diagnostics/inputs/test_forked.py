"""Work that several processes share: in order, whichever is free, and what one that ends early leaves undone."""

import mmap
import os
import time

import pytest

from diagnostics.inputs.forked import MOST_EARLY, dealt, map_ahead
from tests.processes.waiting import come_true


def test_what_a_process_that_ends_early_leaves_is_told() -> None:
    own, first = os.getpid(), [True]
    other_lives, living = os.pipe()

    def work(number: int) -> tuple[int, bool]:
        if os.getpid() == own and first:
            first.clear()
            os.close(living)
            os.read(other_lives, 1)  # comes back once the other one has ended, with an item that it has taken
        elif os.getpid() != own and number >= 1:
            os._exit(9)
        return number, os.getpid() == own

    done = list(map_ahead(work, range(8), 2))
    os.close(other_lives)
    left = done.index(None)
    assert [one[0] for one in done if one] == [number for number in range(8) if number != left], "this one goes on"
    assert all(one == (number, True) for number, one in enumerate(done) if number > 1 and one)
    assert list(map_ahead(lambda number: number * number, range(4), 1)) == [0, 1, 4, 9], "where there is no other one"


@pytest.mark.parametrize("most", [0, 1])
def test_where_no_more_processes_can_be_started_those_that_are_do_the_work(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    fork, left = os.fork, iter(range(most))

    def limited() -> int:
        if next(left, None) is None:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", limited)
    before = len(os.listdir("/proc/self/fd"))
    assert list(map_ahead(lambda number: number * number, range(4), 3)) == [0, 1, 4, 9]
    assert len(os.listdir("/proc/self/fd")) == before


def test_large_and_small_items_are_dealt_so_that_processes_have_alike_to_do() -> None:
    assert dealt([1] * 5, 2) == [0, 1, 0, 1, 0]
    sizes = [1, 8] * 10
    owners = dealt(sizes, 2)
    loads = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == number) for number in (0, 1)]
    assert abs(loads[0] - loads[1]) <= max(sizes)


@pytest.mark.parametrize("count", [0, 1, 20, 10_000])
def test_what_is_done_by_whichever_process_is_free_comes_in_order(count: int) -> None:
    assert list(map_ahead(lambda number: number * number, range(count), 3)) == [n * n for n in range(count)]


def test_processes_that_are_ahead_of_a_slow_one_wait_and_hold_little() -> None:
    own, first, shared = os.getpid(), [True], mmap.mmap(-1, 3)
    slow_has_one, done_here, slow_is_through = range(3)  # what both processes know

    def work(_number: int) -> tuple[bool, bytes]:
        if os.getpid() == own:
            assert come_true(lambda: shared[slow_has_one])
            shared[done_here] += 1
        elif first and first.pop():
            shared[slow_has_one] = 1
            come_true(lambda: shared[done_here] >= MOST_EARLY)
            time.sleep(0.2)  # for more, which there must not be
            shared[slow_is_through] = 1
        return bool(shared[slow_is_through]), bytes(2**20)

    found = [one for one in map_ahead(work, range(60), 2) if one]
    assert len(found) == 60
    late = [through for through, _ in found]
    assert not any(late[2 : 2 + MOST_EARLY]), "done while the slow one works"
    assert all(late[MOST_EARLY + 4 :]), "not before it is through"
