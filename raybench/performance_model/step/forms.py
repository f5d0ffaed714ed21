"""Memory where options are open: the most and the least of the forms that a request may have."""

from dataclasses import dataclass, replace

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory import MemoryEstimate, estimate_memory, largest_batch
from raybench.performance_model.step.request import EstimateRequest, least_model, least_setup, most_setup
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """The largest micro-batch of a rank: ``sure`` in every form, ``lean`` in the one that needs least, ``lean_is``.

    0 where not even one sample is sure to fit.
    """

    sure: int
    lean: int
    lean_is: str = ""


def least_memory(request: EstimateRequest) -> MemoryEstimate:
    """Memory of the form that needs least."""
    setup, times = least_setup(request), request.accumulation
    least = (
        estimate_memory(least_model(request), setup, one, accumulation=times)
        for one in layouts_meant(request.model, request.layout)
    )
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

    def largest(model: Transformer, setup: TrainingSetup, layout: Layout) -> int:
        return largest_batch(model, setup, layout, request.sure_bytes, accumulation=request.accumulation)

    sure = min(largest(request.model, setup, layout) for setup, layout in _heaviest(request))
    model, least = least_model(request), least_setup(request)
    lean, layout = max(
        ((largest(model, least, one), one) for one in layouts_meant(request.model, request.layout)),
        key=lambda pair: pair[0],
    )
    return LargestBatch(sure=sure, lean=max(sure, lean), lean_is=_named(request, layout) if lean > sure else "")


def layouts_meant(model: Transformer, layout: Layout) -> list[Layout]:
    """The layout, and where nobody says which, also the one with whole experts on tensor ranks.

    Only where experts are spread: no program has all of them whole on every tensor rank.
    """
    is_open = model.experts > 0 and layout.expert > 1 and layout.expert_tensor > 1 and layout.expert_cut is None
    return [layout] + [replace(layout, expert_cut=1)] * is_open


def _heaviest(request: EstimateRequest) -> list[tuple[TrainingSetup, Layout]]:
    """The forms that may need most: a loss that is not compiled, FSDP1 or FSDP2, experts cut or whole, as it is open.

    So scores that are stored, on GPUs that have no flash kernel, and experts in 16 bits over a base in 4.
    FSDP1's streams need memory of their own; FSDP2 needs more where blocks are small. ZeRO-3 of a model that was made
    without ``zero.Init`` keeps whole weights.
    """
    setup = most_setup(request.setup)
    is_open = setup.strategy.startswith("fsdp") and not request.streams_known
    setups = [setup] + [replace(setup, on_streams=not setup.on_streams)] * is_open
    may_be_given = request.program is None or request.program.trains_given
    if setup.strategy == "zero3" and not setup.checkpointing and may_be_given:
        setups.append(replace(setup, graph_holds_weights=True))
    if request.may_have_default_bucket:
        setups = [replace(one, default_bucket=True) for one in setups]
    if request.may_store_scores:
        setups += [stored for one in setups for stored in _storing(one)]
    if request.may_leave_experts:
        setups += [replace(one, packs_experts=False) for one in setups]
    return [(one, layout) for layout in layouts_meant(request.model, request.layout) for one in setups]


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
