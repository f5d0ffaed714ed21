"""Test data with exactly known results: what every rank sends, and what each must then hold.

A rank's data repeat a short table of small integers (length ``PERIOD``, a prime, so that parts that arrive swapped or
shifted do not match by accident). The reduction over ranks is computed once on the tables, in exact integers. The
values are small enough that no partial sum leaves the range in which the data type holds every integer, so the
expected result is exact whatever the order of the additions, and any difference is an error.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

PERIOD = 251

# Every integer up to this is represented exactly, and sums of such integers up to it are exact.
EXACT_LIMIT = {
    "float64": 2**53,
    "float32": 2**24,
    "float16": 2**11,
    "bfloat16": 2**8,
    "int64": 2**63 - 1,
    "int32": 2**31 - 1,
    "int8": 127,
    "uint8": 255,
}

# Distance from 1 to the next number of the type.
_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_AVERAGED = 4  # ranks that send anything but zero at a position of an average, see tolerance_of

Table = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Elements ``offset`` to ``offset + count`` of a buffer hold ``table`` repeated, from its element ``phase`` on."""

    offset: int
    count: int
    table: Table
    phase: int = 0


@lru_cache(maxsize=4096)
def table_of(rank: int, world_size: int, dtype: str, reduce_op: str | None) -> Table:
    """The values that ``rank`` sends. Length PERIOD."""
    if reduce_op == "avg" and dtype in _EPSILON:
        return tuple(_averaged(rank, index, world_size) for index in range(PERIOD))
    if reduce_op in ("sum", "avg"):
        return _addends(rank, world_size, EXACT_LIMIT[dtype])
    return _factors(rank, world_size) if reduce_op == "prod" else _distinct(rank)


@lru_cache(maxsize=4096)
def _factors(rank: int, world_size: int) -> Table:
    doubling = min(world_size, 6)  # 2**6 = 64 is exact in every type
    stride = 1 if world_size <= PERIOD else doubling  # so that every rank doubles somewhere, up to 1506 of them
    return tuple(2.0 if (rank + index * stride) % world_size < doubling else 1.0 for index in range(PERIOD))


@lru_cache(maxsize=4096)
def _distinct(rank: int) -> Table:
    step = 17 + rank // 101 % 80  # no two of 8080 ranks send the same
    return tuple(float((rank * 31 + index * step) % 101) for index in range(PERIOD))


def _addends(rank: int, world_size: int, limit: int) -> Table:
    largest = min(limit // world_size, 63)
    if not largest:  # more ranks than the type can count: only some add
        return tuple(float((rank + index) % world_size < limit) for index in range(PERIOD))
    step = 1 + rank % largest  # never the same at every index
    return tuple(float((rank * 3 + index * step) % (largest + 1)) for index in range(PERIOD))


def _averaged(rank: int, index: int, world_size: int) -> float:
    adds = min(world_size, _AVERAGED)
    stride = 1 if world_size <= PERIOD else adds  # so that every rank adds somewhere, up to 1004 of them
    place = (rank + index * stride) % world_size
    return float(1 + (rank + index + place) % 3) if place < adds else 0.0


@lru_cache(maxsize=256)
def reduced_table(world_size: int, dtype: str, reduce_op: str) -> Table:
    """The reduction of all ranks' tables, computed exactly. Length PERIOD."""
    tables = [table_of(rank, world_size, dtype, reduce_op) for rank in range(world_size)]
    columns = zip(*tables, strict=True)
    if reduce_op == "sum":
        return tuple(math.fsum(column) for column in columns)
    if reduce_op == "avg":
        return tuple(math.fsum(column) / world_size for column in columns)
    if reduce_op == "prod":
        return tuple(math.prod(column) for column in columns)
    return tuple((min if reduce_op == "min" else max)(column) for column in columns)


def tolerance_of(reduce_op: str | None, world_size: int, dtype: str) -> float:
    """Relative difference allowed: none, except for an average of floats over a number of ranks not a power of two.

    NCCL multiplies each addend by 1/n, rounded to the type, and then adds in the type (ncclAvg as PreMulSum). With unit
    roundoff u, half the type's epsilon: 1/n is rounded once, each product once, each of k-1 sums of k addends once and
    the expected value once, so they differ by (k + 2) u at most. k is not n: adding the zeros that most ranks send is
    exact, so the bound stays far below the smallest addend whatever the number of ranks.
    """
    exact = reduce_op != "avg" or world_size & (world_size - 1) == 0 or dtype not in _EPSILON
    return 0.0 if exact else (min(world_size, _AVERAGED) + 2) * _EPSILON[dtype] / 2


def poison_of(dtype: str, segments: Iterable[Segment]) -> int:
    """An integer of the type that none of these segments holds: what is not written over it shows.

    No table holds a negative number, so only uint8 needs a search. Raises ValueError where a table holds all of uint8.
    """
    used = {int(value) for table in {segment.table for segment in segments} for value in table}
    candidates = range(255, -1, -1) if dtype == "uint8" else range(-1, -129, -1)
    free = next((value for value in candidates if value not in used), None)
    if free is None:
        raise ValueError(f"the test data use every value of {dtype}; there is none left to mark what is not written")
    return free
