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

Operation = Callable[[], object]
Breaker = Callable[[CollectiveArguments, Buffers, Operation], Operation]
NAMES = [name for name in SUITES["collectives"] if name != "p2p_matrix"]
WORLD_SIZE, BROKEN_RANK = 3, 1
ELEMENTS = 1200  # a multiple of the ranks, longer than the pattern's period


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


def wrong(name: str, sabotage: Sabotage | None, *, dtype: str = "float32", in_place: bool | None = None) -> list[int]:
    """Wrong elements that each rank counts, with a broken collective."""
    entry = OPERATIONS[name]
    spec = BenchmarkSpec(
        name=name,
        kind="collective" if name in COLLECTIVES else "p2p",
        sizes=(ELEMENTS * 4 if dtype == "float32" else ELEMENTS,),
        dtype=dtype,
        reduce_op="sum" if entry.reduces else None,
        root=(BROKEN_RANK if name in ("reduce", "gather") else 0) if entry.rooted else None,
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


@pytest.mark.parametrize("index", [0, -1, 300], ids=["first", "last", "beyond the period"])
@pytest.mark.parametrize("name", NAMES)
def test_one_hidden_element_is_found_in_each_collective(name: str, index: int) -> None:
    assert wrong(name, breaking(name, flip(index))) == [0, 1, 0]


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter"])
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


def left_out(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
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
    assert wrong("all_reduce", breaking("all_reduce", left_out)) == [own_nonzero()] * WORLD_SIZE
    assert sum(wrong("reduce_scatter", breaking("reduce_scatter", left_out))) == own_nonzero()


def unwritten(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    """The last quarter of the output never arrives: what was there before stays."""

    def run() -> None:
        tail = buffers.receive[-len(buffers.receive) // 4 :]
        before = tail.clone()
        operation()
        tail.copy_(before)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_output_that_never_arrives_is_found(name: str) -> None:
    """Whatever the buffer held before, also the right result of the operation before."""
    counts = wrong(name, breaking(name, unwritten))
    received = {"reduce_scatter": ELEMENTS // 3, "scatter": ELEMENTS // 3}.get(name, ELEMENTS)
    assert (counts[0], counts[2]) == (0, 0)
    assert received // 4 * 0.9 <= counts[1] <= received // 4


def swapped(args: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    """Parts of two other ranks arrive in each other's place."""

    def run() -> None:
        operation()
        parts = buffers.receive.chunk(args.world_size)
        first = parts[0].clone()
        parts[0].copy_(parts[2])
        parts[2].copy_(first)

    return run


@pytest.mark.parametrize("name", ["all_gather", "all_to_all", "gather"])
def test_swapped_parts_are_found(name: str) -> None:
    counts = wrong(name, breaking(name, swapped))
    assert (counts[0], counts[2]) == (0, 0)
    assert 0.9 * 2 * ELEMENTS // 3 <= counts[1] <= 2 * ELEMENTS // 3


def shifted(_: CollectiveArguments, buffers: Buffers, operation: Operation) -> Operation:
    def run() -> None:
        operation()
        buffers.receive.copy_(torch.roll(buffers.receive, 1))

    return run


@pytest.mark.parametrize("name", ["broadcast", "send_recv", "scatter", "all_reduce"])
def test_data_shifted_by_one_element_are_found(name: str) -> None:
    counts = wrong(name, breaking(name, shifted))
    received = ELEMENTS // 3 if name == "scatter" else ELEMENTS
    assert (counts[0], counts[2]) == (0, 0)
    assert counts[1] > 0.5 * received


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
