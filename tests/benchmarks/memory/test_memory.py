"""Memory of a rank on a CPU: what the allocator gave, FSDP without its other ranks, limits that the kernel keeps."""

from typing import Any

import pytest
import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.memory.allocator import allocated_peak, is_refusal
from raybench.benchmarks.memory.benchmark import Trials, estimate_of, run
from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.memory.record import Trial
from raybench.benchmarks.memory.trial import Order, measure, measure_apart, ran_out
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.options import TrainingOptions
from raybench.errors import UsageError

MIB = 2**20
PLENTY = 10**10


def test_the_peak_is_that_of_what_is_there_at_once() -> None:
    def work() -> None:
        first = torch.zeros(MIB)  # 4 MiB
        second = torch.zeros(2 * MIB)
        del first
        third = torch.zeros(MIB)
        del second, third

    assert allocated_peak(work) == 12 * MIB
    assert allocated_peak(lambda: None) == 0
    before = torch.zeros(8 * MIB)

    def replace() -> None:
        nonlocal before
        before = torch.zeros(1)
        torch.zeros(MIB)

    assert allocated_peak(replace) == pytest.approx(4 * MIB, abs=1024)


def context(ranks: int = 1) -> RankContext:
    values: dict[str, Any] = {"store": None}
    return RankContext(
        rank=0, local_rank=0, world_size=ranks, ranks_on_machine=ranks, backend="gloo", device=torch.device("cpu"),
        progress=ProgressSlot(), **values,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"model": "tiny", "sequence_length": 64, "batch_sizes": (8,)}, 0.06),
        pytest.param({"model": "small", "sequence_length": 64, "batch_sizes": (2,)}, 0.06, marks=pytest.mark.long),
        pytest.param({"model": "small", "sequence_length": 64, "batch_sizes": (2,), "strategy": "fsdp", "shards": 8},
                     0.06, marks=pytest.mark.long),
        ({"model": "small", "sequence_length": 64, "batch_sizes": (2,), "strategy": "fsdp", "shards": 8,
          "sharding": "grad-op"}, 0.06),
        pytest.param({"model": "small", "sequence_length": 128, "batch_sizes": (8,), "checkpoint_activations": True},
                     0.06, marks=pytest.mark.long),
        pytest.param({"model": "small", "sequence_length": 64, "batch_sizes": (2,), "strategy": "lora"},
                     0.06, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_the_estimate_is_near_what_the_allocator_gave(options: dict[str, Any], tolerance: float) -> None:
    chosen = MemoryOptions(**options)
    (batch,) = chosen.batch_sizes
    order = Order(
        device="cpu", strategy=chosen.strategy, training=chosen.training(batch), limit_bytes=PLENTY,
        shards=chosen.shards or 1,
    )  # fmt: skip
    try:
        trial = measure(order)
    finally:
        if dist.is_initialized():  # by a rank of FSDP without the others
            dist.destroy_process_group()
    estimate = estimate_of(context(), chosen, batch)
    assert estimate is not None
    print(f"measured {trial.peak}, estimated {estimate.allocated}: {estimate.allocated / trial.peak:.3f}")
    assert estimate.allocated == pytest.approx(trial.peak, rel=tolerance)
    if chosen.strategy != "lora":  # of fsdp each rank holds its part alone
        assert trial.parameters == pytest.approx(estimate.parameters, rel=0.01)
        assert trial.optimizer_state == pytest.approx(estimate.optimizer_state, rel=0.01)


def test_the_kernel_holds_a_trial_to_its_limit() -> None:
    """A batch whose logits alone need a gigabyte, in a process that may have a quarter of it."""
    training = TrainingOptions(model="small", batch_size=256, sequence_length=128)
    order = Order(device="cpu", strategy="single", training=training, limit_bytes=256 * MIB)
    assert measure_apart(order, 120).fits is False
    assert is_refusal(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
    assert not is_refusal(RuntimeError("shapes cannot be multiplied"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 4}, "--shards and --sharding are of --strategy fsdp"),
        ({"strategy": "fsdp", "shards": 0}, "--shards is 0"),
        ({"strategy": "fsdp", "sharding": "hybrid"}, "--sharding 'hybrid' is not known"),
        ({"limit_seconds": -1.0}, "--trial-timeout is -1; it must be above 0"),
        ({"limit_seconds": float("nan")}, "--trial-timeout is nan"),
        ({"most_batch": 0, "batch_sizes": (1,)}, "--most-batch is 0; it must be from 1"),
        ({"strategy": "zero"}, "--strategy 'zero' is not known; there are: single, fsdp, lora, qlora"),
    ],
)
def test_what_cannot_be_measured_is_wrong_use(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MemoryOptions(**options)


def test_only_what_surely_fits_is_tried_in_the_rank_itself() -> None:
    def safe(batch: int, **options: Any) -> bool:
        return Trials(context(), MemoryOptions(**options))._certainly_fits(batch)

    assert safe(1, model="tiny", sequence_length=16, limit="64M")
    assert not safe(64, model="tiny", sequence_length=64, limit="64M")
    assert safe(8, model="mlp", limit="64M")
    assert not safe(4096, model="mlp", limit="64M")


def test_a_search_tells_each_new_trial_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trials, "_trial", lambda _, size: Trial(batch_size=size, fits=size < 6))
    monkeypatch.setattr(dist, "all_reduce", lambda *_: None)
    options = MemoryOptions(model="mlp", batch_sizes=(1, 2), most_batch=8)
    told = [*run(context(), BenchmarkSpec(name="memory", kind="memory", sizes=(), options=options))]
    assert [one.text.partition("tried: ")[2] for one in told if one.interim] == [
        "1; the largest that fits: 1",
        "1, 2; the largest that fits: 2",
        "1, 2, 4; the largest that fits: 4",
        "1, 2, 4, 8; the largest that fits: 4",
        "1, 2, 4, 6, 8; the largest that fits: 4",
        "1, 2, 4, 5, 6, 8; the largest that fits: 5",
    ]
    assert (told[-1].interim, told[-1].largest_batch) == (False, 5)


def test_a_trial_over_its_time_says_what_to_do() -> None:
    order = Order(device="cpu", strategy="single", training=TrainingOptions(model="mlp"), limit_bytes=2**30)
    with pytest.raises(RuntimeError, match=r"took more than 0\.01 s; give it more with --trial-timeout"):
        measure_apart(order, 0.01)


def test_a_cpu_is_not_searched_for_as_long_as_a_gpu() -> None:
    assert MemoryOptions().search_end("cuda") == 4096
    assert MemoryOptions().search_end("cpu") == 8
    assert MemoryOptions(batch_sizes=(1, 300)).search_end("cpu") == 300
    assert MemoryOptions(most_batch=16).search_end("cpu") == MemoryOptions(most_batch=16).search_end("cuda") == 16


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"), False),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
    ],
)
def test_a_gpu_that_is_full_is_told_from_one_that_failed(error: RuntimeError, is_memory: bool) -> None:
    assert ran_out(error) is is_memory
