"""A request as the program that was named trains: its facts wherever the user says nothing. Pure."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from raybench.errors import UsageError
from raybench.performance_model.layout import Layout
from raybench.performance_model.programs.program import (
    AS_THE_MODEL,
    COMPUTED,
    LABELS,
    SIZES,
    Cut,
    Fact,
    Method,
    Program,
    Value,
    in_short,
    told,
)
from raybench.performance_model.programs.table import KIN, PROGRAMS
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.setup.strategies import WITHOUT_PIPELINE, Strategy
from raybench.performance_model.setup.training_setup import TrainingSetup

# Fields that `heaviest` decides where nobody says them.
_DECIDED = ("on_streams", "wide_scores", "holds_inputs", "upcast")
# Fields of a request that say whether a fact's value is known.
_KNOWN_BY = {
    "kernels": "kernels_known",
    "loss": "loss_known",
    "gradient_bytes": "gradients_known",
    "adapter_dropout": "adapter_dropout_known",
    "on_streams": "streams_known",
    "checkpointing": "checkpointing_known",
}
# On which memory and time hang most.
_HANG_ON = (
    *("checkpointing", "loss", "kernels", "compiled", "gradient_bytes", "reduce_bytes", "reduces_each"),
    "offloads_activations",
)
PLANNED_STRATEGIES: tuple[Strategy, ...] = ("ddp", "zero1", "zero2", "zero3", "fsdp-grad-op", "fsdp", "fsdp-hybrid")
_CUTS: dict[Cut, str] = {
    "tensor": "--tensor-parallel",
    "context": "--context-parallel",
    "pipeline": "--pipeline-parallel",
    "expert": "--expert-parallel",
}


def with_program(request: EstimateRequest, *, planned: bool = False) -> EstimateRequest:
    """The request with what its program decides; as it is where it names none.

    ``request``: with what the user said alone, which wins. ``planned``: with what a plan has the program told, too.
    """
    program = request.program
    if program is None:
        return request
    asked = _undecided(replace(request, setup=replace(request.setup, own_loop=False)))
    if "loss" in request.said and (loss := _own_loss(program, asked)) is not None:
        asked = _with(asked, loss)
    for fact in (*(program.planned if planned else ()), *program.facts):
        if _holds(fact, asked):
            asked = _with(asked, fact)
    decided = heaviest(asked.setup, kernels_known=asked.kernels_known, loss_known=asked.loss_known)
    has_whole = program.whole_experts or program.usually_whole_experts
    if has_whole and asked.layout.expert > 1 and asked.layout.expert_cut is None:
        asked = replace(asked, layout=replace(asked.layout, expert_cut=1))
    own: dict[str, Any] = {fact.name: fact.value for fact in asked.taken if fact.name in _DECIDED}
    return replace(asked, setup=replace(decided, dtensors=program.dtensors, **own), asked=request)


def decided_anew(asked: EstimateRequest) -> EstimateRequest:
    """A request whose setup was changed, with what its program, or where none is named nobody, decides of it.

    ``asked``: as it was before its program's facts (``EstimateRequest.asked``).
    """
    if asked.program is not None:
        return with_program(asked)
    setup = _undecided(asked).setup
    return replace(asked, setup=heaviest(setup, kernels_known=asked.kernels_known, loss_known=asked.loss_known))


def what_is_taken(request: EstimateRequest) -> Mapping[str, str]:
    """Of each figure that is the program's: what it is, and which of its files says so."""
    program = request.program
    if program is None:
        return {}
    taken = {LABELS[fact.name]: told(fact, program.title, request.dtype) for fact in request.taken}
    strategy = f"{request.setup.strategy}, the usual one of {program.title} (--strategy)"
    usual = {} if "strategy" in request.said else {"strategy": strategy}
    note = f" ({program.release_note})" if program.release_note else ""
    return {"program": f"{program.title}{note}", **usual, **taken}


def most_taken(request: EstimateRequest) -> str:
    """The same of what memory and time hang on most, in three rows of a screen; the rest is where each has its source.

    First what a program decides of its loss, then of its kernels, of its gradients, and where activations are.
    """
    named = {fact.name: fact for fact in request.taken}
    stored = [fact for fact in request.taken if fact.name == "flash_attention" and not fact.value]
    most = (*stored, *(named[name] for name in _HANG_ON if name in named))
    words = taken_in_short(replace(request, taken=most))
    return f"{words}, ...: --full" if words and len(most) < len(named) else words


def taken_in_short(request: EstimateRequest) -> str:
    """``as torchtitan has it: kernels fused, loss fused``; empty where nothing was taken."""
    program = request.program
    if program is None:
        return ""
    usual = [] if "strategy" in request.said else [f"{request.setup.strategy} (no --strategy)"]
    words = ", ".join([*usual, *(in_short(fact, request.dtype) for fact in request.taken)])
    return f"as {program.title} has it: {words}" if words else ""


def refused(program: Program, request: EstimateRequest) -> str | None:
    """Why the program cannot train so: a strategy, a way to cut the model, or adapters that it has not; else None."""
    setup, title = request.setup, program.title
    if not program.has_strategy(setup.strategy, request.layout.world_size):
        has = ", ".join((*program.strategies, *program.unplanned))
        return f"{title} has no {setup.strategy}; it has {has} (--strategy)"
    cuts = (*program.cuts, *program.unplanned_cuts)
    cut = next((one for one in _cuts_of(request) if one not in cuts), None)
    if cut is not None:
        has = ", ".join(_CUTS[one] for one in cuts) or "nothing that cuts a model"
        return f"{title} has no {_CUTS[cut]}; {program.instead.get(cut) or f'it has {has}'}"
    whole, layout = program.whole_experts, request.layout
    if layout.pipeline > 1 and setup.strategy in WITHOUT_PIPELINE:
        return f"{title} has no {setup.strategy} with --pipeline-parallel; take zero1 (--strategy)"
    is_spread = layout.expert > 1 and layout.tensor > 1 and layout.expert_cut is not None
    if whole is not None and is_spread and layout.has_whole_experts != whole and not program.cut_experts:
        return f"{title} has experts {'whole on' if whole else 'cut over'} tensor ranks (--expert-tensor-parallel)"
    method = method_of(setup)
    if method not in program.methods:
        return f"{title} trains no adapters that way ({method}); it has {', '.join(program.methods)}"
    return _without(program, request) or _lacking(program, request) or _refused_in_part(program, setup)


def _without(program: Program, request: EstimateRequest) -> str | None:
    """The same of the model: one of those that it has no code for."""
    families, model = program.families, request.model
    if model.predicting and not program.predicts_ahead:
        return (
            f"{program.title} is not known to train multi-token prediction, as Megatron-LM does; leave --mtp-layers out"
        )
    if families is None or not families.lack(model.family):
        return None
    return f"{program.title} has no {model.name} ({families.source}); it trains {families.has} (--model)"


def _lacking(program: Program, request: EstimateRequest) -> str | None:
    """The same of a single option."""
    known = {"dtype": request.dtype, "drops": request.model.drops and "drops" in request.said}
    lack = next((one for one in program.lacks if known.get(one.name, _of_setup(request, one.name)) == one.value), None)
    return f"{program.title} has no {lack.option} ({lack.source}); leave it out" if lack else None


def _refused_in_part(program: Program, setup: TrainingSetup) -> str | None:
    """The same of what is computed again in part."""
    if setup.recompute_modules and not program.recomputes_modules:
        return f"--recompute-modules are Megatron-LM's, and {program.title} has none; leave them out"
    if setup.selective and program.selective is not True:
        why = program.selective or "it has none"
        return f"--selective-checkpointing is torchtitan's, and of {program.title} another: {why}; leave it out"
    return None


def checked(request: EstimateRequest) -> EstimateRequest:
    """The request, as its program can train it. Raises UsageError for what that has not."""
    program = request.program
    why = program and refused(program, request)
    if program and why:
        raise UsageError(f"--program {program.asked}: {why}{_who_can(program, request)}")
    return request


def _who_can(program: Program, request: EstimateRequest) -> str:
    """The next of its kin that can be told so; empty where none can."""
    kin = next((names for names in KIN if program.name in names), ())
    others = (one for name in kin for one in PROGRAMS if one.name == name != program.name)
    can = next((one for one in others if refused(one, replace(request, program=one)) is None), None)
    return f"; {can.title} trains so (--program {can.name})" if can else ""


def with_method(request: EstimateRequest) -> EstimateRequest:
    """The request, as its program can train it by any strategy. Raises UsageError where none can be."""
    program = request.program
    if program is None:
        return request
    lacking = _without(program, request) or _lacking(program, request) or _refused_in_part(program, request.setup)
    if method_of(request.setup) not in program.methods or lacking:
        checked(replace(request, setup=replace(request.setup, strategy=program.strategies[0])))
    return request


def not_tried(program: Program, layout: Layout) -> str:
    """``torchtitan has no zero1, zero2``: what a plan tries of other programs; empty where it tries all."""
    if layout.world_size == 1:
        return ""
    has = (*program.strategies, *program.unplanned)
    lacks: list[str] = [one for one in PLANNED_STRATEGIES if one not in has]
    lacks += [f"{one} parallelism" for one in _CUTS if one not in (*program.cuts, *program.unplanned_cuts)]
    return f"{program.title} has no {', '.join(lacks)}" if lacks else ""


def method_of(setup: TrainingSetup) -> Method:
    """All parameters, adapters, or adapters over a base in few bits."""
    if not setup.lora_rank:
        return "full"
    return "qlora" if setup.quantized else "lora"


def _cuts_of(request: EstimateRequest) -> tuple[Cut, ...]:
    return tuple(cut for cut in _CUTS if getattr(request.layout, cut) > 1)


def _own_loss(program: Program, request: EstimateRequest) -> Fact | None:
    """What the loss that was said is of this program: fused, plain or chunked, or its release's of transformers'."""
    if request.setup.loss in ("fused", "plain"):
        return program.fused_loss if request.setup.loss == "fused" else program.plain_loss
    if request.setup.loss == "chunked":
        return program.chunked_loss if request.setup.kernels == "plain" else None
    if request.setup.loss != "transformers" or not program.release:
        return None
    theirs = (fact for fact in program.facts if fact.name == "loss" and fact.releases is not None and not fact.is_open)
    return next((fact for fact in theirs if str(fact.value).startswith("transformers")), None)


def _undecided(request: EstimateRequest) -> EstimateRequest:
    """Without what was taken for the heaviest, which depends on what is known."""
    setup = replace(request.setup, **dict.fromkeys(_DECIDED, False), loss_open=False)  # type: ignore[arg-type]
    return replace(request, setup=setup if request.loss_known else replace(setup, loss="plain"), taken=())


def _holds(fact: Fact, request: EstimateRequest) -> bool:
    """Whether it is so here, and nobody has said otherwise: the user, or a fact before it."""
    setup, program = request.setup, request.program
    said = request.said | {"checkpointing"} if request.checkpointing_known else request.said
    if fact.name in said or any(one.name == fact.name for one in request.taken):
        return False
    if fact.releases is not None and not (program and program.release):
        return False
    if fact.families and request.model.family not in fact.families:
        return False
    if fact.strategies and setup.strategy not in fact.strategies:
        return False
    if fact.methods and method_of(setup) not in fact.methods:
        return False
    return all(_known(request, name) == value for name, value in fact.needs.items())


def _known(request: EstimateRequest, name: str) -> Value | None:
    """A field's value; None where it is not known."""
    if name == "dtype":
        return request.dtype
    is_open = {"kernels": not request.kernels_known, "loss": not request.loss_known}
    return None if is_open.get(name) else _of_setup(request, name)


def _of_setup(request: EstimateRequest, name: str) -> Value | None:
    value: Value | None = getattr(request.setup, name, None)
    return not request.setup.whole_gradients if name == "reduces_each" else value


def _padded(request: EstimateRequest, fact: Fact) -> EstimateRequest:
    """With a vocabulary that each rank of those that cut it has a multiple of; as it is where it has."""
    model, multiple = request.model, int(fact.value) * request.layout.tensor
    padded = math.ceil(model.vocabulary / multiple) * multiple
    if padded == model.vocabulary:
        return request
    return replace(request, model=replace(model, vocabulary=padded), taken=(*request.taken, fact))


def _with(request: EstimateRequest, fact: Fact) -> EstimateRequest:
    setup, known = request.setup, not fact.is_open
    value: Any = setup.compute_bytes if fact.name in SIZES and fact.value == COMPUTED else fact.value
    taken = (*request.taken, fact)
    if fact.name == "reduces_each":
        whole = not value and request.accumulation > 1
        return replace(request, setup=replace(setup, whole_gradients=whole), taken=taken)
    if fact.name == "vocabulary_multiple":
        return _padded(request, fact)
    if fact.name == "drops":
        drops = request.model.drops if value == AS_THE_MODEL else bool(value)
        return replace(request, model=replace(request.model, drops=drops), dropout_known=known, taken=taken)
    if fact.name == "bucket_view" and not value:  # gradients that are no views are let go (zero_grad, from PyTorch 2.0)
        setup = replace(setup, gradients_kept=request.accumulation > 1)
    request = replace(request, setup=replace(setup, **{fact.name: value}), taken=taken)
    if fact.name in _KNOWN_BY:
        return replace(request, **{_KNOWN_BY[fact.name]: known})  # type: ignore[arg-type]
    return replace(request, reduce_bytes=value) if fact.name == "reduce_bytes" else request
