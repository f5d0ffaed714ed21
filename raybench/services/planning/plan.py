"""The best way to train a model on a machine: options in, document out."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from raybench.errors import UsageError
from raybench.services.estimating.options import EstimateOptions, at_least_one
from raybench.services.estimating.own_runs import own_runs_of, with_corrections
from raybench.services.estimating.request import estimate_request
from raybench.services.estimating.results import measured_settings
from raybench.services.planning.as_run import ASSUMED, as_run
from raybench.services.planning.fewest import fewest_nodes, nodes_in_time
from raybench.services.planning.goal import Goal, Reckoned, judged, meeting_first, reckoned
from raybench.services.planning.launch import command_of, is_trained, launch_lines, reduces_each
from raybench.services.planning.left_open import left_open
from raybench.services.planning.nearest import nearest_plan

if TYPE_CHECKING:
    from raybench.documents.estimate import MeasuredSetting
    from raybench.documents.training_plan import FewestNodes, TrainingPlan, TrainingWay
    from raybench.performance_model.estimate.own_runs import OwnRun
    from raybench.performance_model.estimate.request import EstimateRequest
    from raybench.performance_model.ways.way import Way
    from raybench.services.estimating.measured_setting import Setting

_TOKENS_PER_STEP = 1 << 20  # of all ranks, where nobody says: GPT-3 13B's batch, and what many fine-tune with is less
_ADAPTER_SAMPLES = 64  # of a step, with adapters
# Of a step over samples that somebody has: Alpaca, Vicuna and Tulu 3 take 128; of very many a thousandth.
_TUNING_SAMPLES, _TUNING_STEPS = 128, 1000
_LORA_RANK = 16
_FEW_STEPS = 100
_MOST_TOKENS = 10**18  # ten thousand times as many as any training
_EACH = "shards reduce gradients in each micro-batch, as the commands say (Trainer: from transformers of 2026-02 on)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """A model and a machine as ``raybench plan --help`` says of each. ``machine``: what ``raybench estimate`` takes.

    ``tokens``: of the whole training; ``samples`` and ``epochs`` give them as well. Deadline in seconds. ``own_runs``:
    what the machine's ``measured`` and results say of other trainings. ``is_measured``: results of trainings or memory
    are given.
    """

    machine: EstimateOptions
    nodes: int = 1
    method: str = "full"
    samples_per_step: int | None = None
    tokens: int | None = None
    samples: int | None = None
    epochs: float = 1.0
    deadline_seconds: float | None = None
    budget: float | None = None
    own_runs: "tuple[OwnRun, ...]" = ()
    is_measured: bool = False


def training_plan(options: PlanOptions) -> "TrainingPlan":
    """All ways with the best first. Raises UsageError for what cannot be."""
    from raybench.documents.estimate import links_measured
    from raybench.documents.training_plan import TrainingPlan
    from raybench.performance_model.estimate.report import own_runs_told
    from raybench.performance_model.programs.taken import with_method

    settings = measured_settings(options.machine)
    options = _with_own_runs(options, settings)
    request = with_method(_request(options))
    _check_modules(request)
    per_step, assumed = _samples_per_step(options, request)
    goal = _goal(options, request)
    known, measured = _ranked(request, per_step, options, settings, goal)
    ways = tuple(one.way for one in known)
    own_runs = options.own_runs if any(way.estimate.traits is not None for way in ways) else ()
    told = tuple(_marked(_way(one, ways[0], request, options.machine), measured) for one in known)
    still_open = left_open(ways[0])
    conclusion = judged(told, request, goal, lambda: nearest_plan(options, _best_of))
    is_unlike = own_runs and not any(_is_of(ways[0], run) for run in own_runs)
    without = _first_without(request, per_step, options, settings, goal) if is_unlike else None
    return TrainingPlan(
        model=request.model.name,
        parameters=request.model.parameters,
        method=options.method,
        world_size=request.layout.world_size,
        nodes=request.layout.nodes,
        gpu=request.gpu.name if request.gpu else None,
        device_bytes=request.memory_bytes,
        sequence_length=request.setup.sequence_length,
        samples_per_step=per_step,
        tokens=goal.tokens,
        currency=request.price.currency if request.price else None,
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        ways=told,
        launch=launch_lines(ways[0]),
        assumed=(
            *_nodes_assumed(options),
            *assumed,
            *_taken(request, per_step, goal),
            *_as_started(ways[0], request),
            *_of_program(ways[0]),
        ),
        unknown=tuple(ways[0].estimate.unknown),
        measured=with_corrections(measured, own_runs, settings, _machine(options)),
        own_runs=own_runs_told(own_runs),
        first_without_runs=None if without == told[0].name else without,
        fewest_nodes=_fewest(options, per_step, ways[0]),
        nodes_in_time=_in_time(options, told),
        links_measured=links_measured(request.basis),
        price=_price(request),
        program=request.program.asked if request.program else None,
        not_said=still_open.not_said,
        open_tokens_per_second=still_open.tokens_per_second,
        other_programs=still_open.other_programs,
    )


def _ranked(
    request: "EstimateRequest", per_step: int, options: PlanOptions, settings: "tuple[Setting, ...]", goal: Goal
) -> "tuple[tuple[Reckoned, ...], tuple[MeasuredSetting, ...]]":
    """All ways with the best for the goal first, and what became of each result."""
    ways = _ways(request, per_step, options)
    ways, measured = _with_measured(ways, settings, request, options.machine) if settings else (ways, ())
    return meeting_first([reckoned(way, request.price, goal) for way in ways], goal), measured


def _is_of(way: "Way", run: "OwnRun") -> bool:
    """Whether the run is of the way, whatever its batch."""
    own, ran = way.estimate.traits, run.told[0].traits
    return own is not None and (own.strategy, own.cut) == (ran.strategy, ran.cut)


def _first_without(
    request: "EstimateRequest", per_step: int, options: PlanOptions, settings: "tuple[Setting, ...]", goal: Goal
) -> str:
    """The first way where trainings of other settings correct none."""
    alone = replace(request, own_runs=())
    known, _ = _ranked(alone, per_step, options, settings, goal)
    return _way(known[0], known[0].way, alone, options.machine).name


def _with_own_runs(options: PlanOptions, settings: "tuple[Setting, ...]") -> PlanOptions:
    """With what the runs that are given say, of the machine as it is asked about: other numbers of nodes are tried."""
    if not settings and not options.machine.measured:
        return options
    runs = own_runs_of(_machine(options), settings, of_plan=True)
    return replace(options, own_runs=runs, is_measured=bool(settings))


def _request(options: PlanOptions) -> "EstimateRequest":
    request = estimate_request(_machine(options))
    return replace(request, own_runs=options.own_runs, other_sizes=(), checkpointing_known=True, is_started=True)


def _of_program(best: "Way") -> tuple[str, ...]:
    """What was taken of the program that was named, and what was not tried since it has none."""
    from raybench.performance_model.programs.taken import not_tried, taken_in_short

    request = best.estimate.request
    if request.program is None:
        return ()
    taken, lacking = taken_in_short(request), not_tried(request.program, request.layout)
    return (*([taken] if taken else []), *([f"not tried: {lacking}"] if lacking else []))


def _nodes_assumed(options: PlanOptions) -> tuple[str, ...]:
    machine = options.machine
    return () if machine.gpus_per_node or machine.node_type else ("8 GPUs a node (--gpus-per-node)",)


def _price(request: "EstimateRequest") -> str | None:
    price = request.price
    return None if price is None else f"{price.per_node_hour:,.10g} {price.currency} a node and hour, {price.source}"


def _ways(
    request: "EstimateRequest", per_step: int, options: PlanOptions, *, cut: bool = True, fitting_only: bool = False
) -> "tuple[Way, ...]":
    from raybench.performance_model.ways.to_train import ways_to_train

    return ways_to_train(request, per_step, cut=cut, fitting_only=fitting_only, **_run_with(options))


def _run_with(options: PlanOptions) -> dict[str, Any]:
    """How ways are run, and by what."""
    from raybench.hardware.nodes import node_type_named

    trained = options.method != "full" and is_trained(options.machine.model)  # of a whole model nobody asks

    def run(one: "EstimateRequest") -> "EstimateRequest":
        if one.program is not None and one.program.starts != "transformers":
            return one
        return as_run(one, is_trained=trained and one.program is None)

    named = options.machine.node_type
    on_aws = named is not None and node_type_named(named).is_of_aws
    return {"as_run": run, "on_sagemaker": on_aws, "is_measured": options.is_measured}


def _as_started(best: "Way", request: "EstimateRequest") -> tuple[str, ...]:
    """What is taken for granted of the program that runs the best way."""
    found, program = best.estimate.request.setup, request.program
    if program is not None and program.starts != "transformers":
        return ()
    as_asked = (found.masked_attention, found.compiled) == (request.setup.masked_attention, request.setup.compiled)
    is_taken = found.lora_rank and not as_asked and not found.masked_attention
    return (*([_EACH] if reduces_each(best) else []), *([ASSUMED] if is_taken else []))


def _fewest(options: PlanOptions, per_step: int, best: "Way") -> "FewestNodes | None":
    """The fewest nodes; ways that cut the model are tried there only where the best is one: they are many."""
    cut = best.estimate.request.layout.is_cut
    if not best.fits:
        return None
    return fewest_nodes(
        options, per_step, lambda fewer: _fitting_best(fewer, cut=cut), lambda fewer: _any_fits(fewer, cut)
    )


def _any_fits(options: PlanOptions, cut: bool) -> bool:
    """Whether there is a best way that fits, without finding it. Raises UsageError for a plan that cannot be."""
    from raybench.performance_model.ways.to_train import any_fits

    request = _request(options)
    per_step, _ = _samples_per_step(options, request)
    return any_fits(request, per_step, cut=cut, **_run_with(options))


def _in_time(options: PlanOptions, told: "tuple[TrainingWay, ...]") -> "FewestNodes | None":
    """Of a deadline that the best way may miss; ways that cut the model are tried there where one fits here."""
    best = told[0]
    if not best.fits or options.deadline_seconds is None or best.hours is None:
        return None
    if best.hours[1] * 3600 <= options.deadline_seconds:
        return None
    cut = any(way.is_cut for way in told if way.fits)
    return nodes_in_time(replace(options, budget=None), lambda more: _fitting_best(more, cut=cut), best.hours[1])


def _marked(way: "TrainingWay", measured: "tuple[MeasuredSetting, ...]") -> "TrainingWay":
    runs = tuple(dict.fromkeys(one.run_id for one in measured if one.taken and one.way == way.name))
    return replace(way, measured_by=runs) if runs else way


def _with_measured(
    ways: "tuple[Way, ...]", settings: "tuple[Setting, ...]", request: "EstimateRequest", asked: EstimateOptions
) -> "tuple[tuple[Way, ...], tuple[MeasuredSetting, ...]]":
    from raybench.performance_model.ways.ranking import ranked
    from raybench.services.estimating.measured import with_measured_ways

    named = [(way, _way(reckoned(way, None, Goal()), way, request, asked).name) for way in ways]
    found, told = with_measured_ways(named, settings)
    return ranked(found), told


def _machine(options: PlanOptions) -> EstimateOptions:
    """The estimate's options for all GPUs of the nodes."""
    from raybench.services.estimating.machine import machine_of

    if options.nodes < 1:
        raise UsageError(f"--nodes is {options.nodes}; it must be at least 1")
    if options.method not in ("full", "lora", "qlora"):
        raise UsageError(f"--method is {options.method!r}; it is full, lora or qlora")
    machine = machine_of(options.machine)
    at_least_one(options.machine.gpus_per_node, "--gpus-per-node")
    if options.method == "full" and options.machine.lora_rank:
        raise UsageError("--lora-rank is of adapters; give --method lora or qlora with it")
    if options.method == "full" and (options.machine.lora_targets or options.machine.lora_dropout is not None):
        name = "--lora-targets" if options.machine.lora_targets else "--lora-dropout"
        raise UsageError(f"{name} is of adapters; give --method lora or qlora with it")
    if options.method == "full" and options.machine.base_dtype:
        raise UsageError("--base-dtype is of the base of adapters; give --method lora with it")
    per_node = options.machine.gpus_per_node or (machine.node.gpus if machine.node else 8)
    adapters = options.method != "full"
    return replace(
        options.machine,
        world_size=options.nodes * per_node,
        gpus_per_node=per_node,
        strategy=options.machine.strategy or "ddp",  # each way has its own
        lora_rank=(options.machine.lora_rank or _LORA_RANK) if adapters else 0,
        qlora=options.method == "qlora",
    )


def _check_modules(request: "EstimateRequest") -> None:
    """Raises UsageError where a plan has no way by Megatron-LM that could compute them again."""
    setup = request.setup
    if not setup.recompute_modules or request.program is not None:
        return
    lacks = "of adapters" if setup.lora_rank else "of one GPU" if request.layout.world_size == 1 else ""
    lacks = lacks or ("" if setup.is_usual else "of 16-bit weights or moments, or activations on the CPU,")
    if lacks:
        raise UsageError(
            f"--recompute-modules are of models that Megatron-LM cuts, and a plan {lacks} cuts none; leave them out"
        )


def _samples_per_step(options: PlanOptions, request: "EstimateRequest") -> tuple[int, tuple[str, ...]]:
    """Samples of a step over all ranks, and what was assumed."""
    ranks = request.layout.world_size
    if options.samples_per_step is not None:
        return at_least_one(options.samples_per_step, "--samples-per-step") or 1, ()
    wanted = _ADAPTER_SAMPLES if options.method != "full" else _usual_samples(options, request)
    samples = ranks * 2 ** max(0, round(math.log2(max(1, wanted) / ranks)))
    tokens = samples * request.setup.sequence_length
    return samples, (f"{samples} samples, {tokens:,} tokens, a step (--samples-per-step)",)


def _usual_samples(options: PlanOptions, request: "EstimateRequest") -> int:
    """A million tokens; of samples, of which there are so few in fine-tuning, no more than leave it many steps."""
    most = _TOKENS_PER_STEP // request.setup.sequence_length
    if options.samples is None:
        return most
    in_all = options.samples * min(options.epochs, _MOST_TOKENS) * request.samples_share
    return min(most, max(_TUNING_SAMPLES, int(in_all / _TUNING_STEPS)))


def _taken(request: "EstimateRequest", per_step: int, goal: Goal) -> tuple[str, ...]:
    """What follows from what was asked for."""
    from raybench.performance_model.estimate.unknown import caveats_of

    return *_spread(per_step, request), *_few_steps(goal, per_step, request), *caveats_of(request)


def _spread(per_step: int, request: "EstimateRequest") -> tuple[str, ...]:
    """Which ways there are none of, where the ranks are no replicas of their own."""
    ranks = request.layout.world_size
    return (f"nothing but a cut model spreads {per_step} samples over {ranks} ranks",) if per_step % ranks else ()


def _few_steps(goal: Goal, per_step: int, request: "EstimateRequest") -> tuple[str, ...]:
    """What a training of a few steps spends its time with is no step."""
    tokens = per_step * request.setup.sequence_length
    steps = math.ceil(goal.tokens / tokens) if goal.tokens else _FEW_STEPS
    if steps >= _FEW_STEPS:
        return ()
    return (f"a training of {steps} step{'' if steps == 1 else 's'}: loading and compiling take longer; not counted",)


def _goal(options: PlanOptions, request: "EstimateRequest") -> Goal:
    tokens = options.tokens
    if options.epochs != 1 and options.samples is None:
        raise UsageError("--epochs needs the samples of an epoch: give --samples")
    if options.samples is not None:
        if tokens is not None:
            raise UsageError("--tokens and --samples say the same; give one of them")
        packed = round(request.setup.sequence_length * request.samples_share)
        tokens = _all_tokens(options.samples, options.epochs, packed)
    if tokens is not None and not 1 <= tokens <= _MOST_TOKENS:
        raise UsageError(f"a training of {tokens} tokens is none; there must be from 1 to {_MOST_TOKENS:.0e}")
    if tokens is None and (options.deadline_seconds is not None or options.budget is not None):
        raise UsageError("--deadline and --budget need the length of the training: give --tokens, or --samples")
    if options.budget is not None and request.price is None:
        how = request.price_unknown or "give --price, or a --node-type with a list price"
        raise UsageError(f"--budget needs a price: {how}")
    return Goal(tokens=tokens, deadline_seconds=options.deadline_seconds, budget=options.budget)


def _all_tokens(samples: int, epochs: float, length: int) -> int:
    if samples * length > _MOST_TOKENS or epochs > _MOST_TOKENS:
        raise UsageError(f"{epochs:g} epochs of {samples} samples are more than {_MOST_TOKENS:.0e} tokens")
    return round(samples * length * epochs)


def _best_of(options: PlanOptions) -> str | None:
    """The best way and what it needs; None where none fits, or the plan cannot be (ranks do not divide samples)."""
    try:
        best = _fitting_best(options)
    except UsageError:
        return None
    return f"{best.name}: {best.peak / 2**30:.0f} GiB" if best else None


def _fitting_best(options: PlanOptions, *, cut: bool = True) -> "TrainingWay | None":
    """The best way for what is to be reached, if it fits. Raises UsageError for a plan that cannot be."""
    request = _request(options)
    per_step, _ = _samples_per_step(options, request)
    goal = _goal(options, request)
    ways = _ways(request, per_step, options, cut=cut, fitting_only=True)
    known = meeting_first([reckoned(way, request.price, goal) for way in ways], goal)
    return _way(known[0], known[0].way, request, options.machine) if known else None


def _way(known: Reckoned, best: "Way", request: "EstimateRequest", asked: EstimateOptions) -> "TrainingWay":
    from raybench.documents.training_plan import TrainingWay

    way, one = known.way, known.way.estimate
    return TrainingWay(
        strategy=one.request.setup.strategy,
        activation_checkpointing=one.request.setup.checkpointing,
        batch_size=one.request.setup.batch_size,
        accumulation=one.request.accumulation,
        peak=one.peak,
        least_peak=one.least_peak,
        fits=way.fits,
        tokens_per_second=one.tokens_per_second,
        mfu=one.mfu,
        hours=known.hours,
        cost=known.cost,
        limit=way.limit,
        why_not="" if way is best and way.fits is not False else _why_not(way, best),
        command=command_of(way, request, asked.model, gpus_per_node=asked.gpus_per_node, vocabulary=asked.vocabulary),
        tensor_parallel=one.request.layout.tensor,
        context_parallel=one.request.layout.context,
        pipeline_parallel=one.request.layout.pipeline,
        virtual_stages=one.request.layout.virtual_stages,
        expert_parallel=one.request.layout.expert,
        expert_tensor_parallel=one.request.layout.expert_cut,
        selective_checkpointing=one.request.setup.selective,
        recomputed_share=one.request.setup.recomputed_share,
        recompute_modules=one.request.setup.recompute_modules,
        launch=launch_lines(way) if way.fits is not False else (),
    )


def _why_not(way: "Way", best: "Way") -> str:
    """Why another way is better."""
    memory = way.estimate.request.memory_bytes
    if way.fits is False and memory is not None:
        return "too large"
    if way.fits is None and memory is not None:
        return "may fit"
    if not way.tokens_per_second or not best.tokens_per_second:
        return ""
    ratio = best.tokens_per_second / way.tokens_per_second
    if ratio < 0.97:  # by another framework than PyTorch's own, and not by so much that it is worth it
        return f"{1 / ratio:.2f}x speed"
    return "as fast" if ratio < 1.005 else f"{ratio:.2f}x time"
