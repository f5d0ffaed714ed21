"""What would make a model fit: the fewest and mildest changes of a training run, found by trying them. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory import MemoryEstimate, estimate_memory
from raybench.performance_model.programs.program import Method, Program
from raybench.performance_model.search import largest_fitting
from raybench.performance_model.step.forms import layouts_meant
from raybench.performance_model.training_setup import Strategy, TrainingSetup
from raybench.performance_model.transformer import Transformer

_MOST_TIMES_NODES = 64  # as many nodes at the most, in doublings
_SPREADING: tuple[Strategy, ...] = ("fsdp", "zero3", "zero2", "zero1")  # the first spreads most
_LORA_RANK = 16  # as the QLoRA and PEFT examples have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """A run that is to fit, by a program or any.

    ``peak_of``: what is told of such a run; None: the estimate of the setup as it stands. ``said``: fields that changes
    have given values of.
    """

    model: Transformer
    setup: TrainingSetup
    layout: Layout
    accumulation: int = 1
    program: Program | None = None
    peak_of: "Callable[[Fitting], int] | None" = None
    said: frozenset[str] = frozenset()

    def may(self, strategy: Strategy, method: Method = "full") -> bool:
        """Whether the program, where one is named, has a strategy and trains so."""
        program = self.program
        return program is None or (strategy in program.strategies and method in program.methods)

    @property
    def peak(self) -> int:
        """Bytes that a GPU must have."""
        return self.memory.peak if self.peak_of is None else self.peak_of(self)

    @property
    def memory(self) -> MemoryEstimate:
        """Of one rank; of experts that may be cut or whole the more."""
        layouts = layouts_meant(self.model, self.layout)
        return max((estimate_memory(self.model, self.setup, one) for one in layouts), key=lambda memory: memory.peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestFit:
    """A run that fits, and by which options of ``raybench estimate`` it differs from the one that was asked for."""

    options: tuple[str, ...]
    run: Fitting


Change = Callable[[Fitting, float], tuple[str, Fitting] | None]  # None: there is nothing to change


def nearest_fit(run: Fitting, memory_bytes: float) -> NearestFit | None:
    """The nearest run whose peak is within ``memory_bytes``; None where none of what is tried has one.

    First what costs no sample and no digit (sharding, computing activations again, micro-batches cut smaller with more
    accumulation), one, two and three of them; then an 8-bit optimizer; then more nodes; then training adapters only.
    """
    for changes in _attempts():
        found = _applied(run, changes, memory_bytes)
        if found is not None:
            return found
    return None


def _attempts() -> Iterator[tuple[Change, ...]]:
    mild: tuple[Change, ...] = (_fused, _sharded, _checkpointed, _smaller)
    groups = [group for count in range(1, len(mild) + 1) for group in combinations(mild, count)]
    yield from groups
    yield from ((*group, _eight_bit) for group in groups)
    yield (_sharded, _more_nodes)
    yield (_sharded, _checkpointed, _smaller, _more_nodes)
    yield (_sharded, _checkpointed, _smaller, _eight_bit, _more_nodes)
    yield (_adapters,)
    yield (_checkpointed, _adapters, _smaller)
    yield (_packed_adapters,)
    yield (_checkpointed, _packed_adapters, _smaller)
    yield (_sharded, _checkpointed, _packed_adapters, _smaller)
    yield (_fused, _sharded, _checkpointed, _packed_adapters, _smaller)
    yield (_fused, _checkpointed, _packed_adapters, _smaller, _sharded, _more_nodes)
    yield (_fused, _checkpointed, _packed_adapters, _smaller, _shared)


def _applied(run: Fitting, changes: tuple[Change, ...], memory_bytes: float) -> NearestFit | None:
    """The run with as many of the changes as it takes, in order; those that change nothing are left out."""
    options: list[str] = []
    for change in changes:
        step = None if options and run.peak <= memory_bytes else change(run, memory_bytes)
        if step is not None:
            options.append(step[0])
            run = step[1]
    return NearestFit(options=tuple(options), run=run) if run.peak <= memory_bytes else None


def _sharded(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    """By the strategy of the program that spreads most; DeepSpeed's pipelines have no ZeRO above 1."""
    has = [one for one in _SPREADING if run.may(one) and (run.layout.pipeline == 1 or one not in ("zero2", "zero3"))]
    strategy = has[0] if has else None
    if strategy is None or run.setup.strategy in ("fsdp", "zero3", strategy) or run.layout.world_size == 1:
        return None
    setup = replace(run.setup, strategy=strategy, gradients_kept=run.accumulation > 1 or strategy != "fsdp")
    return f"--strategy {strategy}", replace(run, setup=setup)


def _checkpointed(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    if run.setup.checkpointing:
        return None
    setup = replace(run.setup, checkpointing=True, selective=False, recompute_modules=())
    return "--activation-checkpointing", replace(run, setup=setup)


def _fused(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    if run.setup.loss not in ("plain", "transformers") or run.program is not None:
        return None
    setup = replace(run.setup, kernels="fused", loss="fused", loss_open=False)
    return "--kernels fused --loss fused", replace(run, setup=setup, said=run.said | {"kernels", "loss"})


def _smaller(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """A micro-batch that fits and divides the rank's samples of a step, which stay as many."""
    samples = run.setup.batch_size * run.accumulation
    kept = replace(run.setup, gradients_kept=True)

    def fits(size: int) -> bool:
        one = replace(run, setup=replace(kept, batch_size=size), accumulation=max(2, samples // size))
        return one.peak <= memory_bytes

    largest = largest_fitting(fits, most=run.setup.batch_size - 1)
    batch = next((size for size in range(largest, 0, -1) if samples % size == 0), 0)
    if not batch:
        return None
    times = samples // batch
    return (
        f"--batch-size {batch} --gradient-accumulation-steps {times}",
        replace(run, setup=replace(kept, batch_size=batch), accumulation=times),
    )


def _eight_bit(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    if run.setup.optimizer not in ("adam", "adamw"):
        return None
    return "--optimizer adamw-8bit", replace(run, setup=replace(run.setup, optimizer="adamw-8bit"))


def _more_nodes(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """The fewest GPUs, in doublings, on which the shards fit: whole nodes, and a part of the first."""
    ranks, per_node = run.layout.world_size, run.layout.ranks_per_node
    setup, in_parts = run.setup, ranks > per_node and ranks % per_node
    if setup.strategy not in ("fsdp", "zero3") or not run.may(setup.strategy) or in_parts:
        return None
    setup = replace(setup, gradients_kept=setup.gradients_kept or setup.strategy == "zero3")
    times = 2
    while times <= _MOST_TIMES_NODES:
        layout = replace(run.layout, world_size=ranks * times)
        more = replace(run, layout=layout, setup=setup)
        if more.peak <= memory_bytes:
            return f"--world-size {layout.world_size}", more
        times *= 2
    return None


def _shared(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """Of a single GPU: several that share the model."""
    if run.layout.world_size > 1 or not run.may("fsdp"):
        return None
    found = _more_nodes(replace(run, setup=replace(run.setup, strategy="fsdp")), memory_bytes)
    return found and (f"--strategy fsdp {found[0]}", found[1])


def _adapters(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    if run.setup.lora_rank or not run.may(run.setup.strategy, "lora"):
        return None
    return f"--lora-rank {_LORA_RANK}", replace(run, setup=replace(run.setup, lora_rank=_LORA_RANK))


def _packed_adapters(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    if (run.setup.quantized and run.setup.packing != "8bit") or not run.may(run.setup.strategy, "qlora"):
        return None
    rank = run.setup.lora_rank or _LORA_RANK
    setup = replace(run.setup, lora_rank=rank, quantized=True, packing="nf4")
    return f"--lora-rank {rank} --qlora", replace(run, setup=setup)
