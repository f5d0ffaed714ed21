"""The test data: no partial sum leaves the range that a type holds exactly, and every rank's part matters."""

import math
from collections.abc import Sequence

import pytest
import torch

from raybench.benchmarks.messages.collective import count_wrong
from raybench.benchmarks.messages.pattern import (
    EXACT_LIMIT,
    PERIOD,
    Segment,
    poison_of,
    reduced_table,
    table_of,
    tolerance_of,
)
from raybench.benchmarks.spec import DTYPE_BYTES, REDUCE_OPS

WORLD_SIZES = (1, 2, 3, 5, 8, 64, 127, 128, 255, 256, 300, 1024)
CASES = [(dtype, op) for op in REDUCE_OPS for dtype in DTYPE_BYTES]


def test_every_type_has_a_limit_and_it_is_that_of_the_type() -> None:
    assert set(EXACT_LIMIT) == set(DTYPE_BYTES)
    for name, limit in EXACT_LIMIT.items():
        dtype = getattr(torch, name)
        assert torch.empty(0, dtype=dtype).element_size() == DTYPE_BYTES[name]
        assert int(torch.tensor(limit, dtype=torch.int64 if limit > 2**53 else torch.float64).to(dtype).item()) == limit
        if dtype.is_floating_point:  # the next integer is not held
            above = torch.tensor(limit + 1, dtype=torch.int64).to(dtype)
            assert int(above.item()) != limit + 1
        else:
            assert torch.iinfo(dtype).max == limit


@pytest.mark.parametrize(("dtype", "op"), CASES)
@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_no_partial_result_leaves_the_exact_range(dtype: str, op: str, world_size: int) -> None:
    """All values are at least 0, so the whole sum bounds every partial sum in whatever order."""
    # ranks x PERIOD; float64 holds each value and each product here, and sums are compared where it holds them too
    tables = torch.tensor([table_of(rank, world_size, dtype, op) for rank in range(world_size)], dtype=torch.float64)
    assert tables.shape == (world_size, PERIOD)
    assert bool(((tables >= 0) & (tables == tables.floor())).all())
    if op in ("sum", "avg"):
        assert float(tables.sum(0).max()) <= min(EXACT_LIMIT[dtype], 2**53)
    elif op == "prod":
        assert float(tables.cumprod(0).max()) <= 64
        assert bool(((tables == 1.0) | (tables == 2.0)).all())
    else:
        assert float(tables.max()) <= min(EXACT_LIMIT.values())


@pytest.mark.parametrize(("dtype", "op"), [case for case in CASES if case[1] != "avg"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 8, 300])
def test_the_reduction_in_the_type_itself_is_the_table(dtype: str, op: str, world_size: int) -> None:
    """Rank after rank, in the type, as a ring does it; for sums also as a tree does."""
    tensors = [
        torch.tensor(table_of(rank, world_size, dtype, op)).to(getattr(torch, dtype)) for rank in range(world_size)
    ]
    combine = {"sum": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}[op]
    ring = tensors[0]
    for one in tensors[1:]:
        ring = combine(ring, one)
    tree = tensors
    while len(tree) > 1:
        tree = [combine(*tree[at : at + 2]) if at + 1 < len(tree) else tree[at] for at in range(0, len(tree), 2)]
    expected = torch.tensor(reduced_table(world_size, dtype, op)).to(getattr(torch, dtype))
    assert torch.equal(ring, expected)
    assert torch.equal(tree[0], expected)


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
@pytest.mark.parametrize("op", ["sum", "prod"])
@pytest.mark.parametrize("world_size", [2, 3, 8, 127, 300])
def test_a_rank_left_out_shows(dtype: str, op: str, world_size: int) -> None:
    """Whichever rank's data is lost, the result differs from what is expected."""
    neutral = 0.0 if op == "sum" else 1.0
    for rank in range(world_size):
        assert any(value != neutral for value in table_of(rank, world_size, dtype, op))


@pytest.mark.parametrize("op", ["min", "max"])
def test_a_rank_left_out_of_a_minimum_or_maximum_shows(op: str) -> None:
    tables = [table_of(rank, 8, "float32", op) for rank in range(8)]
    whole = reduced_table(8, "float32", op)
    choose = min if op == "min" else max
    for omitted in range(8):
        rest = [choose(values) for values in zip(*(tables[:omitted] + tables[omitted + 1 :]), strict=True)]
        assert tuple(rest) != whole


@pytest.mark.parametrize("world_size", [2, 8, 101, 102, 300, 1024])
def test_parts_of_two_ranks_cannot_be_swapped_unseen(world_size: int) -> None:
    tables = {table_of(rank, world_size, "int8", None) for rank in range(world_size)}
    assert len(tables) == world_size


@pytest.mark.parametrize("shift", [1, 2, 3, 50, 101, 250])
def test_shifted_data_does_not_match(shift: int) -> None:
    table = table_of(0, 4, "float32", None)
    doubled = table * 2
    assert doubled[shift : shift + PERIOD] != table


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 8, 127, 128, 255, 256, 300])
def test_what_is_not_written_shows(dtype: str, world_size: int) -> None:
    """The value that receive buffers hold first is in no table, neither in what is sent nor in what is expected."""
    for op in (None, *REDUCE_OPS):
        tables = [table_of(rank, world_size, dtype, op) for rank in (0, world_size - 1)]
        tables += [reduced_table(world_size, dtype, op)] if op else []
        poison = poison_of(dtype, [Segment(offset=0, count=1, table=table) for table in tables])
        kind = getattr(torch, dtype)
        held = torch.full((1,), poison, dtype=kind)
        assert int(held.item()) == poison
        assert not any((torch.tensor(table).to(kind) == held).any() for table in tables)


AVERAGES = (3, 5, 7, 8, 9, 72, 120, 200, 264)
ROUNDED = ("float64", "float32", "bfloat16", "float16")


def averaged(tensors: Sequence[torch.Tensor], start: int) -> torch.Tensor:
    """ncclAvg as PreMulSum: times 1/n rounded to the type, then added in the type, round the ring from a rank."""
    scale = torch.tensor(1 / len(tensors), dtype=tensors[0].dtype)
    first, *rest = (*tensors[start:], *tensors[:start])
    return sum((one * scale for one in rest), first * scale)


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("world_size", AVERAGES)
def test_an_average_is_within_its_tolerance_and_a_wrong_element_is_not(dtype: str, world_size: int) -> None:
    kind, tolerance = getattr(torch, dtype), tolerance_of("avg", world_size, dtype)
    tensors = [torch.tensor(table_of(rank, world_size, dtype, "avg")).to(kind) for rank in range(world_size)]
    segment = Segment(offset=0, count=PERIOD, table=reduced_table(world_size, dtype, "avg"))
    assert (tolerance == 0.0) == math.log2(world_size).is_integer()
    assert count_wrong(sum(tensors[1:], tensors[0]) / world_size, [segment], tolerance) == 0
    for start in {0, 1, world_size // 2, world_size - 1}:
        assert count_wrong(averaged(tensors, start), [segment], tolerance) == 0
    exact = torch.tensor(segment.table, dtype=torch.float64)
    for one in tensors:  # whichever rank's addend is lost or counted twice
        for sign in (-1, 1):
            damaged = (exact + sign * one.double() / world_size).to(kind)
            assert count_wrong(damaged, [segment], tolerance) == int(one.count_nonzero()) > 0


def test_a_small_error_of_an_average_shows() -> None:
    """1.5 % used to pass in float32; in bfloat16 it is two roundings."""
    segment = Segment(offset=0, count=PERIOD, table=reduced_table(3, "float32", "avg"))
    assert count_wrong(torch.tensor(segment.table) * 1.015, [segment], tolerance_of("avg", 3, "float32")) == PERIOD
    assert count_wrong(torch.tensor(segment.table) * (1 + 1e-6), [segment], tolerance_of("avg", 3, "float32")) == PERIOD


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
def test_only_averages_of_floats_have_a_tolerance(dtype: str) -> None:
    assert {tolerance_of(op, 3, dtype) for op in (None, "sum", "prod", "min", "max")} == {0.0}
    assert (tolerance_of("avg", 3, dtype) > 0) == (dtype in ROUNDED)
    assert tolerance_of("avg", 1000, dtype) < 1 / 12  # the least addend of four
