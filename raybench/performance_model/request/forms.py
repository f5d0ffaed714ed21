"""Memory where options are open: the most and the least of the forms that a request may have."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import MOST_BATCH, MemoryEstimate, estimate_memory
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.request.request import EstimateRequest, least_model, least_setup, most_setup
from raybench.performance_model.search import largest_fitting
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.kernels import Kernels, Loss
from raybench.performance_model.setup.training_setup import TrainingSetup

Form = tuple[TrainingSetup, Layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest micro-batch of a rank: ``sure`` in every form, ``lean`` in the one that needs least, ``lean_is``.

    0 where not even one sample is sure to fit.
    """

    sure: int
    lean: int
    lean_is: str = ""


def least_peak(request: EstimateRequest) -> int:
    """Peak of the form whose peak is least: another than that which needs least where fragmentation or pools differ."""
    model, times = least_model(request), request.accumulation
    forms = _leanest(request)
    return min(estimate_memory(model, setup, layout, accumulation=times).peak for setup, layout in forms)


def least_memory(request: EstimateRequest) -> MemoryEstimate:
    """Memory of the form that needs least."""
    model, times = least_model(request), request.accumulation
    least = (estimate_memory(model, setup, layout, accumulation=times) for setup, layout in _leanest(request))
    return min(least, key=lambda memory: memory.needed)


def most_peak(request: EstimateRequest, peak: int) -> int:
    """Peak of the form that needs most; ``peak``: that of the request as it stands."""
    peaks = (
        estimate_memory(request.model, setup, layout, accumulation=request.accumulation).peak
        for setup, layout in _heaviest(request)
        if (setup, layout) != (request.setup, request.layout)
    )
    return max((peak, *peaks))


def largest_batches(request: EstimateRequest) -> LargestBatch:
    """The largest micro-batches within the memory that is sure to be enough, by doubling and bisection."""
    times, memory_bytes, model = request.accumulation, request.sure_bytes, least_model(request)

    def fits(model: Transformer, form: Form, size: int) -> bool:
        setup, layout = replace(form[0], batch_size=size), form[1]
        return estimate_memory(model, setup, layout, accumulation=times).peak <= memory_bytes

    heaviest, leanest = _heaviest(request), _leanest(request)
    sure = largest_fitting(lambda size: all(fits(request.model, one, size) for one in heaviest), most=MOST_BATCH)
    lean = largest_fitting(lambda size: any(fits(model, one, size) for one in leanest), most=MOST_BATCH)
    if lean <= sure:
        return LargestBatch(sure=sure, lean=sure)
    layout = next(one[1] for one in leanest if fits(model, one, lean))
    return LargestBatch(sure=sure, lean=lean, lean_is=_named(request, layout))


def layouts_meant(model: Transformer, layout: Layout) -> list[Layout]:
    """The layout, and where nobody says which, also the one with whole experts on tensor ranks.

    Only where experts are spread: no program has all of them whole on every tensor rank.
    """
    is_open = model.experts > 0 and layout.expert > 1 and layout.expert_tensor > 1 and layout.expert_cut is None
    return [layout] + [replace(layout, expert_cut=1)] * is_open


def _leanest(request: EstimateRequest) -> list[Form]:
    """The forms that may need least: with each that may be said of what is open, since which is leaner hangs on sizes.

    Logits in chunks need gradients of the output layer that few tokens do not outweigh.
    """
    layouts = layouts_meant(request.model, request.layout)
    compiled = (None, True) if request.setup.compiled is None and not request.is_started else (None,)
    setups = dict.fromkeys(least_setup(one) for one in _said(request, ("plain", "fused"), ("fused",), compiled))
    return [(setup, layout) for layout in layouts for setup in setups]


def _heaviest(request: EstimateRequest) -> list[Form]:
    """The forms that may need most: with each loss that may be said where none is, and what no option says.

    As it may be: a loss that is not compiled, FSDP1 or FSDP2, experts cut or whole, scores that are stored on GPUs that
    have no flash kernel, experts in 16 bits over a base in 4, and over one without autocast all else in fp32.
    """
    layouts = layouts_meant(request.model, request.layout)
    asked = _said(request, ("plain", "fused"), ("plain", "transformers", "chunked"))
    setups = dict.fromkeys(setup for one in asked for setup in _heaviest_setups(one))
    return [(setup, layout) for layout in layouts for setup in setups]


def _said(
    request: EstimateRequest,
    kernels: tuple[Kernels, ...],
    losses: tuple[Loss, ...],
    compiled: tuple[bool | None, ...] = (None,),
) -> Iterator[EstimateRequest]:
    """The request, and with each of these said that is open, alone and together; None: nothing is said.

    Kernels and loss where no program is named, which decides what else hangs on them, nor starts it.
    """
    is_open = request.program is None and not request.is_started
    of_kernels = (None, *(kernels if is_open and not request.kernels_known else ()))
    of_loss = (None, *(losses if is_open and not request.loss_known else ()))
    for said in product(of_kernels, of_loss, compiled):
        yield _with(request, *said)


def _with(
    request: EstimateRequest, kernels: Kernels | None, loss: Loss | None, compiled: bool | None
) -> EstimateRequest:
    """With what is said of these, and what that decides; None: nothing."""
    if (kernels, loss, compiled) == (None, None, None):
        return request
    known = (request.kernels_known or kernels is not None, request.loss_known or loss is not None)
    given: dict[str, Any] = {"kernels": kernels, "loss": loss, "compiled": compiled}
    given = {name: value for name, value in given.items() if value is not None}
    if loss is not None:
        given["own_loop"] = loss == "plain"
    if request.program is not None:
        return replace(request, setup=replace(request.setup, **given))
    if kernels is not None:
        given["upcast"] = False
    setup = replace(request.setup, **given, holds_inputs=False, wide_scores=False)
    setup = heaviest(setup, kernels_known=known[0], loss_known=known[1])
    return replace(request, setup=setup, kernels_known=known[0], loss_known=known[1])


def _heaviest_setups(request: EstimateRequest) -> list[TrainingSetup]:
    """What may need most, of a request whose kernels and loss are as they are.

    FSDP1's streams need memory of their own; FSDP2 needs more where blocks are small. Before PyTorch 2.1 FSDP leaves
    frozen blocks gathered. ZeRO-3 of a model that was made without ``zero.Init`` keeps whole weights.
    """
    setup = most_setup(request)
    is_open = setup.strategy.startswith("fsdp") and not request.streams_known
    setups = [setup] + [replace(setup, on_streams=not setup.on_streams)] * is_open
    if setup.has_ligers_mlp and request.program is None:  # other kernels may be meant, which keep more
        setups += [replace(one, keeps_least=False) for one in setups]
    may_be_given = request.program is None or request.program.trains_given
    if setup.strategy == "zero3" and not setup.checkpointing and may_be_given:
        setups.append(replace(setup, graph_holds_weights=True))
    if request.may_have_default_bucket:
        setups = [replace(one, default_bucket=True) for one in setups]
    if request.may_store_scores:
        setups += [stored for one in setups for stored in _storing(one)]
    if setup.frozen_blocks == "perhaps left gathered":
        setups += [replace(one, frozen_blocks="left gathered") for one in setups]
    if request.may_have_single_scales:
        setups = [replace(one, packing="nf4-single") for one in setups]
    if request.may_leave_experts:
        left = [replace(one, packs_experts=False) for one in setups]
        kept = [replace(one, keeps_unpacked=True) for one in setups] if request.may_keep_unpacked else []
        setups += [*left, *kept]
    if request.may_compute_wide:
        setups += [replace(one, compute_bytes=FP32_BYTES) for one in setups]
    return setups


def _storing(setup: TrainingSetup) -> list[TrainingSetup]:
    """With scores that are stored: by operations of a program, their softmax in fp32, or by PyTorch's math kernel."""
    if setup.kernels == "fused":
        return [replace(setup, flash_attention=False)]
    return [
        replace(setup, flash_attention=False, wide_scores=True),
        replace(setup, flash_attention=False, math_attention=True),
    ]


def _named(request: EstimateRequest, layout: Layout) -> str:
    """The form that needs least, in words, by what is not said."""
    kinds = [] if request.kernels_known else ["kernels"]
    kinds += [] if request.loss_known else ["loss"]
    named = [f"the leanest {' and '.join(kinds)}"] if kinds else []
    named += ["no dropout"] * (not request.dropout_known or _adapters_may_drop(request))
    if len(layouts_meant(request.model, request.layout)) > 1:
        named.append(f"experts {'whole on tensor ranks' if layout.has_whole_experts else 'cut over tensor ranks'}")
    return ", ".join(named) or "a program that keeps little"


def _adapters_may_drop(request: EstimateRequest) -> bool:
    return request.setup.lora_rank > 0 and not request.adapter_dropout_known
