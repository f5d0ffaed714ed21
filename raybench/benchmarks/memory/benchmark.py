"""The memory benchmark of one rank: trials by batch size, and the search for the largest that fits every rank."""

from collections.abc import Generator, Mapping

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.free_memory import free_bytes
from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.memory.record import MemoryRecord, Trial
from raybench.benchmarks.memory.trial import Order, measure, measure_apart
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.models.precision import chosen_dtype, compute_dtype
from raybench.benchmarks.training.models.shapes import shape_of
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import MemoryEstimate, estimate_memory
from raybench.performance_model.search import search
from raybench.performance_model.setup.strategies import Strategy
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.units import parse_bytes

_STRATEGIES: Mapping[str, Strategy] = {"full": "fsdp", "grad-op": "fsdp-grad-op"}
_SMALL_BATCH = 8  # of a perceptron or a small convolutional net: megabytes


def run(context: RankContext, spec: BenchmarkSpec) -> Generator[MemoryRecord, None, int]:
    """Yield this rank's one record, and after each trial those so far. Raises UnsupportedError for a missing type."""
    options: MemoryOptions = spec.options
    chosen_dtype(options.dtype, context.device)
    trials = Trials(context, options)
    most = options.search_end(context.device.type)
    for size in options.batch_sizes:
        trials.fits(size)
        yield trials.record(trials.largest(), interim=True)
    asking = search(most)
    try:
        size = next(asking)
        while True:
            is_new = not trials.tried(size)
            fits = trials.fits(size)
            if is_new:
                yield trials.record(trials.largest(), interim=True)
            size = asking.send(fits)
    except StopIteration as end:
        yield trials.record(end.value, reached_most=end.value == most)
    return 0


class Trials:
    """Trials of this rank by batch size, each made once, and what all ranks say of them."""

    def __init__(self, context: RankContext, options: MemoryOptions) -> None:
        self._context, self._options = context, options
        self._done: dict[int, tuple[Trial, bool]] = {}
        available = free_bytes(context)
        self.limit_bytes = min(parse_bytes(options.limit), available) if options.limit else available

    def tried(self, batch_size: int) -> bool:
        """Whether the batch size was tried before."""
        return batch_size in self._done

    def fits(self, batch_size: int) -> bool:
        """Whether the batch size fits every rank. Every rank must ask for the same."""
        if batch_size not in self._done:
            self._context.progress.enter("timing")
            self._context.progress.iteration(len(self._done))
            trial = self._trial(batch_size)
            agreed = torch.tensor([int(trial.fits)], device=self._context.device)
            dist.all_reduce(agreed, dist.ReduceOp.MIN)
            self._done[batch_size] = trial, bool(agreed.item())
        return self._done[batch_size][1]

    def _trial(self, batch_size: int) -> Trial:
        context, options = self._context, self._options
        order = Order(
            device=str(context.device),
            strategy=options.strategy,
            training=options.training(batch_size),
            limit_bytes=self.limit_bytes,
            shards=options.shards or context.world_size,
        )
        if context.device.type == "cuda":  # gpu: memory-estimate, largest-batch
            torch.cuda.empty_cache()
        elif options.strategy != "fsdp" and self._certainly_fits(batch_size):
            return measure(order)
        return measure_apart(order, options.limit_seconds)

    def _certainly_fits(self, batch_size: int) -> bool:
        """Whether the trial can do no harm in this process: the estimate, or a smaller batch's figure, is so small."""
        estimate = estimate_of(self._context, self._options, batch_size)
        if estimate is not None:
            return 2 * estimate.allocated <= self.limit_bytes
        known = [trial for trial, _ in self._done.values() if trial.peak]
        least = min((trial.peak * -(-batch_size // trial.batch_size) for trial in known), default=None)
        return batch_size <= _SMALL_BATCH if least is None else least <= self.limit_bytes

    def all(self) -> tuple[Trial, ...]:
        """Every trial, ascending."""
        return tuple(trial for _, (trial, _) in sorted(self._done.items()))

    def largest(self) -> int:
        """The largest batch so far that fits every rank; 0 without one."""
        return max((size for size, (_, fits) in self._done.items() if fits), default=0)

    def record(self, largest: int, *, reached_most: bool = False, interim: bool = False) -> MemoryRecord:
        """What this rank knows by now."""
        return MemoryRecord(
            label=f"memory {self._options.called}",
            trials=self.all(),
            largest_batch=largest,
            reached_most=reached_most,
            limit_bytes=self.limit_bytes,
            emulated=self._context.device.type != "cuda",  # gpu: memory-estimate
            estimates=estimates(self._context, self._options, self.all()),
            interim=interim,
        )


def estimates(context: RankContext, options: MemoryOptions, trials: tuple[Trial, ...]) -> dict[str, dict[str, int]]:
    """What performance_model/memory/ says of each batch size, by its text; nothing where it is no transformer."""
    found = {str(trial.batch_size): estimate_of(context, options, trial.batch_size) for trial in trials}
    return {batch: estimate.parts() for batch, estimate in found.items() if estimate is not None}


def estimate_of(context: RankContext, options: MemoryOptions, batch_size: int) -> MemoryEstimate | None:
    """The estimate of one trial, which has no DDP and lets its gradients go; None for what is no transformer."""
    if options.model in ("mlp", "cnn"):
        return None
    dtype = chosen_dtype(options.dtype, context.device)
    training = options.training(batch_size)
    shape, length = shape_of(training)
    shards = (options.shards or context.world_size) if options.strategy == "fsdp" else 1
    setup = TrainingSetup(
        batch_size=batch_size,
        sequence_length=length,
        strategy=_STRATEGIES[options.sharding] if shards > 1 else "ddp",
        optimizer=options.optimizer,  # type: ignore[arg-type]  # one of them: MemoryOptions
        compute_bytes=compute_dtype(dtype).itemsize,
        checkpointing=options.checkpoint_activations,
        lora_rank=training.lora_rank if options.strategy in ("lora", "qlora") else 0,
        quantized=options.strategy == "qlora",
        fused_optimizer=context.device.type == "cpu",  # there one parameter after another is updated
        gradients_kept=False,
        on_gpu=context.device.type == "cuda",  # gpu: memory-estimate
        wide_norms=has_wide_norms(context.device),
    )
    return estimate_memory(shape, setup, Layout(world_size=shards, ranks_per_node=shards))


def has_wide_norms(device: torch.device) -> bool:
    """Whether autocast computes RMSNorm in fp32 here; what a GPU is asked, which alone is estimated so."""
    if device.type != "cuda":  # gpu: memory-estimate
        return True
    with torch.autocast("cuda", torch.float16):  # gpu: memory-estimate
        found = torch.nn.functional.rms_norm(torch.ones(1, 2, dtype=torch.float16, device=device), (2,))
    return found.dtype == torch.float32
