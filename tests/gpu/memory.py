"""Steps that prove memory: the estimate against the allocator, the search for the largest batch, checkpoints."""

from typing import Any

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.events import BenchmarkFinished, Event, PointMeasured, WorkloadMeasured
from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.memory.record import MemoryRecord
from raybench.benchmarks.spec import BenchmarkSpec
from tests.gpu.messages import plan
from tests.gpu.record import Comparison
from tests.gpu.step import Bench, NotRunError, Outcome

_STRATEGIES = {"single": None, "fsdp": 8, "lora": None, "qlora": None}


def estimate(bench: Bench) -> Outcome:
    """Of each strategy the peak that PyTorch's allocator saw, over what the analytic estimate says."""
    gpu = {"model": "llama-1b", "batch_sizes": (1,), "sequence_length": 2048, "most_batch": 1}
    cpu = {"model": "tiny", "batch_sizes": (1,), "sequence_length": 64, "most_batch": 1}
    names = bench.sized(tuple(_STRATEGIES), tuple(_STRATEGIES), ("single",))
    specs = [_memory(bench.sized(gpu, cpu) | {"strategy": name, "shards": _STRATEGIES[name]}) for name in names]
    events = bench.launch(specs)[0]
    ratios = {name: _ratio(_final(events, index)) for index, name in enumerate(names)}
    return Outcome(
        figures={"measured_over_estimated": ratios},
        comparisons=[
            bench.on_gpu_only(f"{name}, measured over estimated", ratio, 0.95, 1.05) for name, ratio in ratios.items()
        ],
    )


def _memory(options: dict[str, Any]) -> BenchmarkSpec:
    return BenchmarkSpec(name="memory", kind="memory", sizes=(), options=MemoryOptions(**options))


def _final(events: list[Event], benchmark: int) -> MemoryRecord:
    """The whole record of a benchmark. Raises NotRunError where it was skipped."""
    for event in events:
        if isinstance(event, BenchmarkFinished) and event.benchmark == benchmark and event.skipped:
            raise NotRunError(event.skipped)
    told = [one.record for one in events if isinstance(one, WorkloadMeasured) and one.benchmark == benchmark]
    record = told[-1]
    assert isinstance(record, MemoryRecord)
    return record


def _ratio(record: MemoryRecord) -> float:
    trial = record.trials[-1]
    return trial.peak / record.estimates[str(trial.batch_size)]["allocated"]


def largest_batch(bench: Bench) -> Outcome:
    """The search runs out of memory on purpose; afterwards the same rank still measures a verified all_reduce."""
    gpu = {"model": "llama-1b", "sequence_length": 8192, "batch_sizes": (1,)}
    cpu = {"model": "tiny", "sequence_length": 64, "batch_sizes": (1,), "limit": "64M", "most_batch": 8}
    after = plan("all_reduce", (2**20,), iterations=2, blocks=1)
    events = bench.launch([_memory(bench.sized(gpu, cpu)), *after])[0]
    record = _final(events, 0)
    tried = {trial.batch_size: trial.fits for trial in record.trials}
    points = [one.samples for one in events if isinstance(one, PointMeasured)]
    return Outcome(
        figures={"largest_batch": record.largest_batch, "limit_bytes": record.limit_bytes, "tried": tried},
        comparisons=(
            Comparison(what="largest batch", value=record.largest_batch, least=1),
            bench.on_gpu_only("the next batch was refused", float(tried.get(record.largest_batch + 1) is False), 1, 1),
            Comparison(what="points verified afterwards", value=sum(one.verified for one in points), least=1),
            Comparison(what="wrong elements afterwards", value=sum(one.wrong_elements for one in points), most=0),
        ),
    )


def checkpoint(bench: Bench) -> Outcome:
    """A sharded model with its optimizer from two ranks of the device to a disk and back, bit for bit."""
    options = CheckpointOptions(to=(str(bench.folder / "checkpoints"),), model=bench.sized("gpt2", "tiny"), saves=1)
    spec = BenchmarkSpec(name="checkpoint", kind="checkpoint", sizes=(), options=options)
    heard = [event for events in bench.launch([spec], 2) for event in events]
    told = [one.record for one in heard if isinstance(one, WorkloadMeasured)]
    records = [one for one in told if isinstance(one, CheckpointRecord) and not one.interim]
    failed = [one.failed for one in records if one.failed]
    return Outcome(
        figures={
            "gb_per_s": {one.label.rpartition(" ")[0]: _rate(one) for one in records if one.durable_seconds},
            "failed": failed,
        },
        comparisons=(
            Comparison(what="checkpoints of ranks", value=len(records), least=8, most=8),
            Comparison(what="failed", value=len(failed), most=0),
            Comparison(what="wrong elements", value=sum(one.wrong_elements for one in records), most=0),
            Comparison(what="verified", value=sum(one.verified for one in records), least=8),
        ),
    )


def _rate(record: CheckpointRecord) -> float:
    return record.tensor_bytes / min(record.durable_seconds) / 1e9
