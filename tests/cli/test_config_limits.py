"""What a run may not be asked for, and what is asked for twice."""

from typing import Any

import pytest

from raybench.config import RunConfig, load_config
from raybench.errors import UsageError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iters": 1_000_001}, "--iters is 1000001; it may be at most 1000000"),
        ({"warmup": 1_000_001}, "--warmup is 1000001"),
        ({"blocks": 10_001}, "--blocks is 10001; it may be at most 10000"),
        ({"repeats": 3, "max_repeats": 2}, "--max-repeats is 2; it must be at least --repeats, 3"),
        ({"max_repeats": 1001}, "--max-repeats is 1001; it may be at most 1000"),
        ({"repeats": 1001}, "--repeats is 1001; it may be at most 1000"),
        ({"nodes": 100_001}, "--nodes is 100001; it may be at most 100000"),
        ({"gpus_per_node": 1025}, "--gpus-per-node is 1025; it may be at most 1024"),
        ({"env": ("A=b\0c",)}, "--env A holds a NUL character"),
        ({"env": ("A\0=b",)}, "is not NAME=VALUE"),
        ({"env": ("CUDA_VISIBLE_DEVICES=0",)}, "--env CUDA_VISIBLE_DEVICES cannot be set: each rank sees all GPUs"),
        ({"env": ("NCCL_DEBUG_FILE=/tmp/x",)}, "--env NCCL_DEBUG_FILE cannot be set: each rank logs to a file of its"),
        ({"env": ("LOCAL_RANK=1",)}, "--env LOCAL_RANK cannot be set: raybench numbers the ranks"),
        ({"env": ("WORLD_SIZE=1",)}, "--env WORLD_SIZE cannot be set"),
        ({"env": ("LD_LIBRARY_PATH=/x",)}, "--env LD_LIBRARY_PATH cannot be set: the loader.*where Ray is started"),
        ({"address": "ray://head:10001"}, "Ray Client cannot place ranks"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_config(None, options)


@pytest.mark.parametrize(
    "options",
    [
        {"iters": 1_000_000}, {"blocks": 10_000}, {"repeats": 1000}, {"nodes": 100_000}, {"gpus_per_node": 1024},
        {"env": ("LDAP=1", "RANKS=2", "NCCL_DEBUG=INFO")},
    ],
)  # fmt: skip
def test_a_near_miss_is_accepted(options: dict[str, Any]) -> None:
    config = load_config(None, options)
    assert {name: getattr(config, name) for name in options} == options


def test_what_is_asked_for_twice_is_measured_once() -> None:
    once = RunConfig(suite="all_reduce", dtype="float32,int8", op="sum,max").plan("gloo")
    twice = RunConfig(suite="all_reduce", dtype="float32, int8,float32", op="sum,max,sum,sum").plan("gloo")
    assert twice == once
