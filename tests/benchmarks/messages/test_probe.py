"""What counts as 'the backend does not offer this': refused arguments, in all ranks alike, and never a fault."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from raybench.benchmarks.messages.probe import is_refusal
from raybench.benchmarks.spec import BenchmarkSpec
from tests.benchmarks.gloo_ranks import failures_of, points_of, run_ranks, skipped_of

_DeviceError: type[Exception] = getattr(torch, "AcceleratorError", dist.DistBackendError)  # from torch 2.8
SPEC = BenchmarkSpec(name="all_reduce", kind="collective", sizes=(1024,), reduce_op="sum", iterations=1, blocks=1)
SAID_BY_NCCL = """NCCL error in: /pytorch/torch/csrc/distributed/NCCLUtils.cpp:94, unhandled cuda error
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
Cuda failure 801 'operation not supported'"""


@pytest.mark.parametrize(
    "error",
    [
        dist.DistBackendError(SAID_BY_NCCL),
        dist.DistBackendError("operation not supported"),
        dist.DistNetworkError("address family not supported by protocol"),
        _DeviceError("operation not supported"),
        RuntimeError(SAID_BY_NCCL),
        RuntimeError("CUDA error: operation not supported\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: the provided PTX was compiled with an unsupported toolchain."),
        RuntimeError("HIP error: operation not supported"),
        RuntimeError("[/gloo/transport/tcp/pair.cc:534] setsockopt: Operation not supported"),
        RuntimeError("Connection closed by peer"),
    ],
)
def test_a_fault_is_never_taken_for_a_missing_operation(error: Exception) -> None:
    assert not is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Invalid scalar type"),
        ValueError("Cannot use ReduceOp.AVG with Gloo"),
        TypeError("Input tensor data type is not supported for NCCL process group: ComplexDouble"),
        NotImplementedError("gather is not implemented"),
    ],
)
def test_refused_arguments_are(error: Exception) -> None:
    assert is_refusal(error)


def raising(on: Callable[[int], bool], text: str) -> Callable[[int], None]:
    """Makes the probe's all_reduce raise in some ranks; every other call is the real one."""

    def sabotage(rank: int) -> None:
        real = dist.all_reduce

        def all_reduce(tensor: torch.Tensor, *rest: object) -> object:
            if on(rank) and tensor.dtype == torch.float32:
                raise RuntimeError(text)
            return real(tensor, *rest)

        dist.all_reduce = all_reduce

    return sabotage


def test_a_fault_in_every_rank_fails_the_run() -> None:
    events = run_ranks(2, [SPEC], sabotage=raising(lambda _: True, SAID_BY_NCCL))
    assert len(failures_of(events)) == 2


def test_what_every_rank_refuses_is_skipped() -> None:
    events = run_ranks(2, [SPEC], sabotage=raising(lambda _: True, "Invalid scalar type"))
    assert failures_of(events) == []
    assert all("gloo does not offer all_reduce" in (skipped_of(heard, 0) or "") for heard in events)


@pytest.mark.parametrize("collides", [False, True])
def test_what_one_rank_refuses_fails_the_run(collides: bool) -> None:
    """The other ranks wait in the operation, or have run it alone (as a broadcast's root does): no rank skips."""

    def sabotage(rank: int) -> None:
        raising(lambda it: it == 1, "Invalid scalar type")(rank)
        if rank == 0 and not collides:
            dist.all_reduce = lambda *_: None

    events = run_ranks(2, [SPEC], sabotage=sabotage)
    failures = failures_of(events)
    assert len(failures) == 2
    assert all(points_of(heard, 0) == [] for heard in events)
    if not collides:
        assert all("refuses all_reduce of float32 with sum on 1 of 2 ranks" in one.error for one in failures)
