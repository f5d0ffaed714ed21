"""Verification can fail: collectives that are broken on purpose are found, and their wrong elements counted exactly."""

import dataclasses
from collections.abc import Callable
from importlib import import_module

import pytest
import torch

from raybench.benchmarks.base import Buffers, CollectiveArguments
from raybench.benchmarks.messages.operations import COLLECTIVES, OPERATIONS
from raybench.benchmarks.registry import SUITES
from raybench.benchmarks.spec import BenchmarkSpec
from tests.benchmarks.gloo_ranks import Sabotage, failures_of, points_of, run_ranks
from tests.benchmarks.messages.test_semantics import collective, spread

Operation = Callable[[], object]
Breaker = Callable[[CollectiveArguments, Buffers, Operation], Operation]
NAMES = [name for name in SUITES["collectives"] if name != "p2p_matrix"]
WORLD_SIZE, BROKEN_RANK = 3, 1
ELEMENTS = 1200  # a multiple of the ranks, longer than the pattern's period
BOTH_PLACEMENTS = [name for name in NAMES if len(OPERATIONS[name].placements) == 2]


def breaking(name: str, breaker: Breaker, rank: int = BROKEN_RANK) -> Sabotage:
    """Have one rank run the collective through the breaker. In a forked process: nothing has to be put back."""

    def sabotage(this_rank: int) -> None:
        if this_rank == rank:
            module = import_module(OPERATIONS[name].module)
            prepare = module.COLLECTIVE.prepare
            broken = dataclasses.replace(
                module.COLLECTIVE, prepare=lambda args, buffers: breaker(args, buffers, prepare(args, buffers))
            )
            module.COLLECTIVE = broken

    return sabotage


def called(name: str, dtype: str = "float32", reduce_op: str = "sum") -> CollectiveArguments:
    """What the broken rank is asked for; it is the root where nobody else receives."""
    entry = OPERATIONS[name]
    args = CollectiveArguments(
        rank=BROKEN_RANK,
        world_size=WORLD_SIZE,
        elements=ELEMENTS,
        dtype=dtype,
        reduce_op=reduce_op if entry.reduces else None,
        root=0 if entry.rooted else None,
    )
    return args if list(collective(name).expected(args)) else dataclasses.replace(args, root=BROKEN_RANK)


def received(name: str) -> int:
    """Elements that the broken rank has to receive."""
    return sum(segment.count for segment in collective(name).expected(called(name)))


# A rank receives a part of every other: parts can be in each other's place.
FROM_ALL = [name for name in NAMES if OPERATIONS[name].partitioned and received(name) == ELEMENTS]


def wrong(
    name: str,
    sabotage: Sabotage | None,
    *,
    dtype: str = "float32",
    in_place: bool | None = None,
    reduce_op: str = "sum",
) -> list[int]:
    """Wrong elements that each rank counts, with a broken collective."""
    entry, args = OPERATIONS[name], called(name, dtype, reduce_op)
    spec = BenchmarkSpec(
        name=name,
        kind="collective" if name in COLLECTIVES else "p2p",
        sizes=(ELEMENTS * 4 if dtype == "float32" else ELEMENTS,),
        dtype=dtype,
        reduce_op=args.reduce_op,
        root=args.root,
        in_place=entry.placements[0] == "in_place" if in_place is None else in_place,
        warmup=1,
        iterations=2,
        blocks=2,
    )
    events = run_ranks(WORLD_SIZE, (spec,), sabotage=sabotage)
    assert failures_of(events) == []
    points = [points_of(heard, 0) for heard in events]
    assert all(len(one) == 1 for one in points)
    return [one[0].wrong_elements for one in points]


def flip(index: int) -> Breaker:
    """After the operation, one element is off by one."""

    def breaker(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
        def run() -> None:
            operation()
            if index < len(buffers.receive):  # not in the probe, which sends a few elements
                buffers.receive[index] += 1

        return run

    return breaker


# All elements are compared in one step, and the last and one in the middle stand for them every day.
@pytest.mark.parametrize(
    "index",
    [
        pytest.param(0, id="first", marks=pytest.mark.long),
        pytest.param(-1, id="last"),
        pytest.param(300, id="beyond the period"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_one_hidden_element_is_found_in_each_collective(name: str, index: int) -> None:
    assert wrong(name, breaking(name, flip(index))) == [0, 1, 0]


@pytest.mark.parametrize("name", BOTH_PLACEMENTS)
def test_it_is_found_in_place_too(name: str) -> None:
    assert wrong(name, breaking(name, flip(7)), in_place=True) == [0, 1, 0]


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_it_is_found_in_small_types(dtype: str) -> None:
    assert wrong("all_reduce", breaking("all_reduce", flip(5)), dtype=dtype) == [0, 1, 0]


def nan(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    def run() -> None:
        operation()
        buffers.receive[3:8] = float("nan")

    return run


def test_nan_is_wrong() -> None:
    assert wrong("all_reduce", breaking("all_reduce", nan)) == [0, 5, 0]


def omitted(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    """This rank's data never take part: zeros go in their place."""

    def run() -> None:
        buffers.send.zero_()
        operation()

    return run


def own_nonzero(dtype: str = "float32") -> int:
    from raybench.benchmarks.messages.pattern import PERIOD, table_of

    table = table_of(BROKEN_RANK, WORLD_SIZE, dtype, "sum")
    return sum(table[index % PERIOD] != 0 for index in range(ELEMENTS))


def test_a_rank_whose_data_are_left_out_of_a_sum_is_counted_on_every_rank() -> None:
    """In exactly those elements where it had something to add."""
    assert wrong("all_reduce", breaking("all_reduce", omitted)) == [own_nonzero()] * WORLD_SIZE
    assert sum(wrong("reduce_scatter", breaking("reduce_scatter", omitted))) == own_nonzero()


def unwritten(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    """The last quarter of the output never arrives: what was there before stays."""

    def run() -> None:
        tail = buffers.receive[-len(buffers.receive) // 4 :]
        before = tail.clone()
        operation()
        tail.copy_(before)

    return run


def never_right(name: str, reduce_op: str) -> int:
    """Elements of the last quarter of the output that are wrong as they were before the operation.

    In place, what a rank sends stood there: of a maximum, it is right already where this rank's is the largest.
    """
    args, facts = called(name, reduce_op=reduce_op), collective(name)
    length = facts.lengths(args)[1]
    in_place = OPERATIONS[name].placements[0] == "in_place"
    before = spread(facts.sent(args) if in_place else [], length)
    quarter = slice(-length // 4, None)
    return sum(
        right != held
        for right, held in zip(spread(facts.expected(args), length)[quarter], before[quarter], strict=True)
    )


@pytest.mark.parametrize(
    ("name", "reduce_op"), [*((name, "sum") for name in NAMES), ("all_reduce", "max"), ("reduce_scatter", "min")]
)
def test_output_that_never_arrives_is_found(name: str, reduce_op: str) -> None:
    """Whatever the buffer held before, also the right result of the operation before."""
    expected = never_right(name, reduce_op)
    assert expected > received(name) // 4 * 0.5
    assert wrong(name, breaking(name, unwritten), reduce_op=reduce_op) == [0, expected, 0]


def swapped(args: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    """Parts of two other ranks arrive in each other's place."""

    def run() -> None:
        operation()
        parts = buffers.receive.chunk(args.world_size)
        first = parts[0].clone()
        parts[0].copy_(parts[2])
        parts[2].copy_(first)

    return run


@pytest.mark.parametrize("name", FROM_ALL)
def test_swapped_parts_are_found(name: str) -> None:
    counts = wrong(name, breaking(name, swapped))
    assert (counts[0], counts[2]) == (0, 0)
    assert 0.9 * 2 * ELEMENTS // 3 <= counts[1] <= 2 * ELEMENTS // 3


def shifted(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    def run() -> None:
        operation()
        buffers.receive.copy_(torch.roll(buffers.receive, 1))

    return run


@pytest.mark.parametrize("name", NAMES)
def test_data_shifted_by_one_element_are_found(name: str) -> None:
    counts = wrong(name, breaking(name, shifted))
    assert (counts[0], counts[2]) == (0, 0)
    assert counts[1] > 0.5 * received(name)


def test_a_wrong_pair_is_found_in_the_matrix() -> None:
    """A transfer that loses its last element, on one receiver: in both pairs that send to it."""

    def sabotage(rank: int) -> None:
        if rank == BROKEN_RANK:
            from raybench.benchmarks.messages import point_to_point

            real = point_to_point._transfer

            def transfer(context: object, buffer: torch.Tensor, source: int, destination: int) -> Operation:
                operation = real(context, buffer, source, destination)

                def run() -> None:
                    operation()
                    if destination == BROKEN_RANK:
                        buffer[-1] = 55.5

                return run

            point_to_point._transfer = transfer

    spec = BenchmarkSpec(name="p2p_matrix", kind="p2p", sizes=(4096,), warmup=1, iterations=2, blocks=2)
    events = run_ranks(WORLD_SIZE, (spec,), sabotage=sabotage)
    assert failures_of(events) == []
    found = {
        (one.source_rank, one.destination_rank): one.wrong_elements
        for heard in events
        for one in points_of(heard, 0)
        if one.wrong_elements
    }
    assert found == {(0, BROKEN_RANK): 1, (2, BROKEN_RANK): 1}


def test_without_sabotage_nothing_is_wrong() -> None:
    assert wrong("all_reduce", None) == [0, 0, 0]
