"""What would make a model fit: the fewest and mildest changes of a training run, found by trying them. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import Held, MemoryEstimate, estimate_memory
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.nearest.cut import accumulation_of, cut_words, further_cuts, may_hold
from raybench.performance_model.programs.program import Method, Program
from raybench.performance_model.programs.table import MEGATRON_LM, TRANSFORMERS
from raybench.performance_model.request.forms import layouts_meant
from raybench.performance_model.search import largest_fitting
from raybench.performance_model.setup.strategies import WITHOUT_PIPELINE, Strategy
from raybench.performance_model.setup.training_setup import TrainingSetup

_MOST_TIMES_NODES, _MOST_RANKS = 64, 4096  # as many nodes at the most, in doublings; or so many GPUs
_SPREADING: tuple[Strategy, ...] = ("fsdp", "zero3", "zero2", "zero1")  # the first spreads most
_OF_DEEPSPEED: tuple[Strategy, ...] = ("zero3", "fsdp", "zero2", "zero1")  # who has one of its stages takes another
_OF_CUTS: tuple[Strategy, ...] = ("zero1",)  # Megatron-LM's, who cuts a model whose replicas are whole
# Programs that name their optimizers, none with moments in 8 bits (megatron/training/arguments.py, --optimizer;
# torchtitan/components/optimizer.py; src/olmo_core/optim; nanotron's src, fms-fsdp's main_training_llama.py, nanoGPT's
# train.py, all of November 2026).
_WITHOUT_8_BITS = ("megatron-lm", "megatron-bridge", "torchtitan", "olmo-core", "nanotron", "fms-fsdp", "nanogpt")
_MOST_HOST_BYTES = 2 * 10**12  # of a node's CPUs: p5.48xlarge and ND96isr_H100_v5 have 2 TiB and 1.9
_OTHERS = (TRANSFORMERS, MEGATRON_LM)  # where nothing fits by the program that is asked for
_FEW = 2  # changes that cost no sample and no digit
_LORA_RANK = 16  # as the QLoRA and PEFT examples have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """A run that is to fit, by a program or any.

    ``peak_of``: what is told of such a run; without it the estimate of the setup as it stands. ``said``: fields that
    changes have given values of. ``recomputes_anyway``: its program computes activations again, which no option says.
    """

    model: Transformer
    setup: TrainingSetup
    layout: Layout
    accumulation: int = 1
    program: Program | None = None
    peak_of: "Callable[[Fitting], int | None] | None" = None
    said: frozenset[str] = frozenset()
    recomputes_anyway: bool = False

    def may(self, strategy: Strategy, method: Method = "full") -> bool:
        """Whether the program, where one is named, has a strategy and trains so."""
        program = self.program
        return program is None or (strategy in program.strategies and method in program.methods)

    @property
    def peak(self) -> int | None:
        """Bytes that a GPU must have; None: its program does not run it."""
        return self.memory.peak if self.peak_of is None else self.peak_of(self)

    def fits(self, memory_bytes: float) -> bool:
        """Whether it can be run with so much memory a GPU."""
        peak = self.peak
        return peak is not None and peak <= memory_bytes

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
    accumulation), one, two and three of them, and with a loss in chunks; of DeepSpeed its optimizer on the CPU, of
    others the model cut over ranks, with as many samples a step; then an 8-bit optimizer; then more nodes, and more of
    them with the model cut; then training adapters only, which of one GPU comes before several. Of a program by which
    nothing fits another one, last.
    """
    found = _nearest(run, memory_bytes)
    others = _OTHERS if run.program is not None else ()
    setup = replace(run.setup, checkpointing=run.setup.checkpointing and not run.recomputes_anyway)
    for other in others if found is None else ():
        again = _nearest(replace(run, program=other, setup=setup), memory_bytes)
        if again is not None:
            return replace(again, options=(f"--program {other.name}", *again.options))
    return found


def _nearest(run: Fitting, memory_bytes: float) -> NearestFit | None:
    if run.fits(memory_bytes):  # another program than the one that was asked for
        return NearestFit(options=(), run=run)
    for changes in _attempts(run):
        found = _applied(run, changes, memory_bytes)
        if found is not None:
            return found
    return None


def _attempts(run: Fitting) -> Iterator[tuple[Change, ...]]:
    mild: tuple[Change, ...] = (_fused, _sharded, _checkpointed, _smaller)
    groups = [group for count in range(1, len(mild) + 1) for group in combinations(mild, count)]
    yield from groups
    yield from (_in_chunks(group) for group in groups if _fused in group and run.program is None)
    if run.setup.is_deepspeeds or run.setup.strategy == "zero3":
        yield (_offloaded,)
        yield from (_before_smaller(group, _offloaded) for group in groups)
    yield from ((*group, _cut_in_two) for group in _SHARDED)
    yield from ((*group, _cut) for group in _BEFORE_CUTS)
    has_replicas = run.program is None or "ddp" in run.program.strategies
    # one GPU, and nobody thinks of more
    is_alone = run.layout.world_size == 1 and not (run.setup.is_sharded and has_replicas)
    yield from _in_8_bits(groups, is_alone=is_alone)
    if is_alone:
        yield from _ADAPTED
    yield from _on_more(run)
    yield from ((_sharded, _checkpointed, _eight_bit, on, _smaller) for on, _ in _growths(run))
    if not is_alone:
        yield from _ADAPTED


def _in_8_bits(groups: list[tuple[Change, ...]], *, is_alone: bool) -> Iterator[tuple[Change, ...]]:
    """Optimizer state in 8 bits, with what else it takes; of one GPU adapters are nearer than that with much else."""
    yield (_eight_bit,)
    yield from (_before_smaller(group, _eight_bit) for group in groups if len(group) <= _FEW)
    if is_alone:
        yield (_adapters,)
    yield from (_before_smaller(group, _eight_bit) for group in groups if len(group) > _FEW)
    yield from (_before_smaller(_in_chunks(group), _eight_bit) for group in groups if _fused in group)


def _in_chunks(group: tuple[Change, ...]) -> tuple[Change, ...]:
    return tuple(_chunked if change is _fused else change for change in group)


def _before_smaller(group: tuple[Change, ...], change: Change) -> tuple[Change, ...]:
    """With one more, before the micro-batch is made as small as it has to be then."""
    first = tuple(one for one in group if one is not _smaller)
    return (*first, change, *(one for one in group if one is _smaller))


def _on_more(run: Fitting) -> Iterator[tuple[Change, ...]]:
    """On the fewest GPUs: as it is, with activations computed again, and cut."""
    for on, cut_on in _growths(run):
        yield (_sharded, on)
        yield (_sharded, _checkpointed, on, _smaller)
        yield (_chunked, _sharded, _checkpointed, on, _smaller)
        yield (_sharded, _checkpointed, cut_on)
        yield (_sharded, _checkpointed, _single, cut_on)


def _applied(run: Fitting, changes: tuple[Change, ...], memory_bytes: float) -> NearestFit | None:
    """The run with as many of the changes as it takes, in order; those that change nothing are left out."""
    options: list[str] = []
    for change in changes:
        step = None if options and run.fits(memory_bytes) else change(run, memory_bytes)
        if step is not None:
            options.append(step[0])
            run = step[1]
    return NearestFit(options=tuple(options), run=run) if run.fits(memory_bytes) else None


def _sharded(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    """By the strategy of the program that spreads most, and goes with a pipeline where there is one.

    Of DeepSpeed another of its stages. Who cuts a model whose replicas are whole stays with Megatron-LM, which has
    ZeRO-1; a program that is named has what it has.
    """
    setup, order = run.setup, _SPREADING
    if setup.is_deepspeeds and not run.layout.is_cut:
        order = _OF_DEEPSPEED
    elif run.program is None and run.layout.is_cut and setup.strategy in ("ddp", "zero1"):
        order = _OF_CUTS
    has = [one for one in order if run.may(one) and (run.layout.pipeline == 1 or one not in WITHOUT_PIPELINE)]
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
    if run.program is not None:
        return _with_own_kernels(run, run.program)
    if run.setup.loss not in ("plain", "transformers"):
        return None
    setup = replace(run.setup, kernels="fused", loss="fused", loss_open=False)
    return "--kernels fused --loss fused", replace(run, setup=setup, said=run.said | {"kernels", "loss"})


def _with_own_kernels(run: Fitting, program: Program) -> tuple[str, Fitting] | None:
    """Those that the program has for who asks for them, where its loss comes with them: Liger's of transformers."""
    comes_with = any(fact.name == "loss" and fact.needs == {"kernels": "fused"} for fact in program.facts)
    if run.setup.kernels == "fused" or not comes_with:
        return None
    setup = replace(run.setup, kernels="fused")
    return "--kernels fused", replace(run, setup=setup, said=run.said | {"kernels"})


def _chunked(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    """The loss without all logits at once: Liger, Cut Cross-Entropy."""
    if run.program is not None:
        return _with_own_kernels(run, run.program)
    if run.setup.loss == "chunked":
        return None
    setup = replace(run.setup, kernels="fused", loss="chunked", loss_open=False)
    return "--kernels fused --loss chunked", replace(run, setup=setup, said=run.said | {"kernels", "loss"})


def _offloaded(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    """Of DeepSpeed (ZeRO-Offload): as its users do, whose configurations have it beside those without."""
    setup = run.setup
    if setup.offload != "none" or setup.lora_rank or not (setup.is_deepspeeds or setup.strategy == "zero3"):
        return None
    there = replace(run, setup=replace(setup, offload="optimizer"))
    away = Held.of(run.model, there.setup, run.layout).offloaded * run.layout.node.ranks
    return ("--cpu-offload optimizer", there) if away <= _MOST_HOST_BYTES else None


def _smaller(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """A micro-batch that fits and divides the rank's samples of a step, which stay as many."""
    samples = run.setup.batch_size * run.accumulation
    kept = replace(run.setup, gradients_kept=True)

    def fits(size: int) -> bool:
        one = replace(run, setup=replace(kept, batch_size=size), accumulation=max(2, samples // size))
        return one.fits(memory_bytes)

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
    lacks_it = run.program is not None and run.program.name in _WITHOUT_8_BITS
    if run.setup.optimizer not in ("adam", "adamw") or lacks_it:
        return None
    return "--optimizer adamw-8bit", replace(run, setup=replace(run.setup, optimizer="adamw-8bit"))


def _more_nodes(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """The fewest GPUs, in doublings, on which the shards fit: whole nodes, and a part of the first."""
    if run.setup.strategy not in ("fsdp", "zero3"):
        return None
    grown = (on(run, memory_bytes) for on, _ in _growths(run))
    return next((found for found in grown if found is not None and found[1].fits(memory_bytes)), None)


def _cut(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """Over the fewest ranks of those that there are, with as many samples a step."""
    return _cut_over(run, run.layout.world_size, memory_bytes)


def _cut_in_two(run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    """The same over twice as many ranks as it is cut over, which is less of a change than all else beside a cut."""
    return _cut_over(run, run.layout.world_size, memory_bytes, most=2 * run.layout.cut_ranks)


def _growths(run: Fitting) -> list[tuple[Change, Change]]:
    """More GPUs, in doublings: the run on so many, and cut over them. None where the nodes are not whole."""
    ranks, per_node = run.layout.world_size, run.layout.ranks_per_node
    if ranks > per_node and ranks % per_node:
        return []
    most = max(ranks * _MOST_TIMES_NODES, _MOST_RANKS)
    counts = (ranks * 2**power for power in range(1, (most // ranks).bit_length()))
    return [(partial(_on, many), partial(_cut_on, many)) for many in counts]


def _on(ranks: int, run: Fitting, _: float) -> tuple[str, Fitting] | None:
    """On so many GPUs, where they spread what one alone holds."""
    setup = run.setup
    if setup.strategy == "ddp" or not run.may(setup.strategy):
        return None
    setup = replace(setup, gradients_kept=setup.gradients_kept or setup.is_zero)
    return f"--world-size {ranks}", replace(run, layout=replace(run.layout, world_size=ranks), setup=setup)


def _cut_on(ranks: int, run: Fitting, memory_bytes: float) -> tuple[str, Fitting] | None:
    found = _cut_over(run, ranks, memory_bytes)
    return found and (f"{found[0]} --world-size {ranks}", found[1])


def _single(run: Fitting, _: float) -> tuple[str, Fitting] | None:
    """One sample at a time, as many a step."""
    times = run.setup.batch_size * run.accumulation
    if times == run.accumulation:
        return None
    words = f"--batch-size 1 --gradient-accumulation-steps {times}"
    return words, replace(run, setup=replace(run.setup, batch_size=1, gradients_kept=True), accumulation=times)


def _cut_over(run: Fitting, ranks: int, memory_bytes: float, *, most: int | None = None) -> tuple[str, Fitting] | None:
    samples = run.accumulation * run.layout.data
    for layout in further_cuts(run.model, run.setup, run.layout, ranks, run.program):
        if most is not None and layout.cut_ranks > most:
            break  # those with the fewest come first
        times = accumulation_of(samples, layout)
        if times is None or not may_hold(run.model, run.setup, layout, memory_bytes):
            continue
        setup = replace(run.setup, gradients_kept=run.setup.gradients_kept or times > 1)
        one = replace(run, layout=layout, setup=setup, accumulation=times)
        if one.fits(memory_bytes):
            words = cut_words(run.layout, layout)
            words += [f"--gradient-accumulation-steps {times}"] if times != run.accumulation else []
            return " ".join(words), one
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
    setup = replace(run.setup, lora_rank=rank, quantized=True, packing="nf4", base_bytes=0)
    return f"--lora-rank {rank} --qlora", replace(run, setup=setup)


_SHARDED: tuple[tuple[Change, ...], ...] = ((_sharded,), (_sharded, _checkpointed))
_BEFORE_CUTS: tuple[tuple[Change, ...], ...] = (
    (_sharded,),
    (_fused, _sharded),
    (_sharded, _checkpointed),
    (_fused, _sharded, _checkpointed),
    (_sharded, _checkpointed, _single),
    (_fused, _sharded, _checkpointed, _single),
)
_ADAPTED: tuple[tuple[Change, ...], ...] = (
    (_adapters,),
    (_checkpointed, _adapters, _smaller),
    (_packed_adapters,),
    (_checkpointed, _packed_adapters, _smaller),
    (_sharded, _checkpointed, _packed_adapters, _smaller),
    (_fused, _sharded, _checkpointed, _packed_adapters, _smaller),
    (_fused, _checkpointed, _packed_adapters, _smaller, _sharded, _more_nodes),
    (_fused, _checkpointed, _packed_adapters, _smaller, _shared),
)
