"""Every collective, type, reduction and placement on real gloo ranks: verified right, or skipped with the reason."""

from dataclasses import replace

import pytest

from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.benchmarks.registry import specs_of
from raybench.benchmarks.spec import DTYPE_BYTES, REDUCE_OPS, BenchmarkSpec
from raybench.benchmarks.workload import Request
from tests.benchmarks.gloo_ranks import failures_of, points_of, run_ranks, skipped_of

SIZES = (3, 4100)


def everything(root: int, *, sizes_of_all: bool) -> tuple[BenchmarkSpec, ...]:
    """All of them, each type at both sizes; without ``sizes_of_all`` the first and the last, the others at one."""
    template = BenchmarkSpec(name="", kind="", sizes=SIZES, root=root, warmup=0, iterations=2, blocks=1)
    request = Request(template=template, reduce_ops=REDUCE_OPS, dtypes=tuple(DTYPE_BYTES), options={})
    plan = specs_of("collectives", request)
    if sizes_of_all:
        return plan
    one_size = {dtype: SIZES[number % 2 :][:1] for number, dtype in enumerate(DTYPE_BYTES)}
    ends = {next(iter(one_size)), next(reversed(one_size))}
    return tuple(spec if spec.dtype in ends else replace(spec, sizes=one_size[spec.dtype]) for spec in plan)


# Three ranks have every part that two and four have, and the pairs of them.
@pytest.mark.parametrize(
    ("world_size", "root", "sizes_of_all"),
    [
        (1, 0, False),
        pytest.param(2, 0, True, marks=pytest.mark.long),
        (3, 2, False),
        pytest.param(4, 1, True, marks=pytest.mark.long),
    ],
)
def test_all_of_them_are_right_or_skipped_with_a_reason(world_size: int, root: int, *, sizes_of_all: bool) -> None:
    plan = everything(root, sizes_of_all=sizes_of_all)
    events = run_ranks(world_size, plan)
    assert failures_of(events) == []
    skipped = set()
    for index, spec in enumerate(plan):
        reasons = {skipped_of(heard, index) for heard in events}
        assert len(reasons) == 1, f"ranks disagree on {spec}"
        reason = reasons.pop()
        if reason is not None:
            assert spec.name in reason or "pair" in reason
            skipped.add((spec.name, spec.dtype, spec.reduce_op))
            assert all(points_of(heard, index) == [] for heard in events)
            continue
        for heard in events:
            points = points_of(heard, index)
            expected = 2 * (world_size - 1) if spec.name == "p2p_matrix" else len({one.message_bytes for one in points})
            assert len(points) == expected > 0
            for one in points:
                assert (one.verified, one.wrong_elements) == (True, 0), f"{spec} {one}"
                assert [len(block) for block in one.stamps] == [2]
                assert all(0 < block[0] < block[1] for block in one.stamps)
                assert one.message_bytes == one.element_count * DTYPE_BYTES[spec.dtype]
    assert_little_is_skipped(skipped, world_size)


def assert_little_is_skipped(skipped: set[tuple[str, str, str | None]], world_size: int) -> None:
    """float32 of everything runs but averages, which gloo lacks, and pairs of one rank."""
    lost = {(name, op) for name, dtype, op in skipped if dtype == "float32"}
    averages = {(name, "avg") for name, entry in OPERATIONS.items() if entry.reduces}
    pairs = {("p2p_matrix", None)} if world_size == 1 else set()
    assert lost - averages == pairs
