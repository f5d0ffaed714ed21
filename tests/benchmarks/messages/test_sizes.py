"""The sizes that are measured: the same count for the driver, which has no torch, and for the ranks."""

import pytest

from raybench.benchmarks.messages.operations import OPERATIONS, sizes_of
from raybench.benchmarks.spec import BenchmarkSpec


def spec(name: str, *sizes: int, dtype: str = "float32") -> BenchmarkSpec:
    return BenchmarkSpec(name=name, kind="collective", sizes=sizes, dtype=dtype)


@pytest.mark.parametrize("name", [name for name, entry in OPERATIONS.items() if entry.partitioned])
def test_a_cut_message_is_a_multiple_of_the_ranks(name: str) -> None:
    assert sizes_of(spec(name, 100, 4, 1024), 3) == (12, 96, 1020)


def test_sizes_that_become_equal_are_one() -> None:
    assert sizes_of(spec("all_gather", 4, 8, 12, 16), 4) == (16,)
    assert sizes_of(spec("all_reduce", 9, 8, 1), 4) == (4, 8)


def test_the_type_counts() -> None:
    assert sizes_of(spec("all_reduce", 3, 15, dtype="float64"), 4) == (8,)
    assert sizes_of(spec("all_reduce", 3, 15, dtype="int8"), 4) == (3, 15)


def test_a_matrix_of_pairs_has_one_size() -> None:
    assert sizes_of(spec("p2p_matrix", 65537, 1024), 3) == (65536,)
