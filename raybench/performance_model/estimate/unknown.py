"""What an estimate cannot say, and what to give for it."""

from raybench.hardware.gpus import Gpu
from raybench.performance_model.models.counted_model import CountedModel
from raybench.performance_model.models.families.layer_names import NO_LAYER
from raybench.performance_model.parallel.part import BATCHES_PER_STAGE, bubble_share
from raybench.performance_model.request.forms import layouts_meant
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.setup.strategies import WITHOUT_PIPELINE
from raybench.performance_model.step.attention import may_be_masked
from raybench.performance_model.step.links import exchanges_over_nodes, fabrics_of, has_open_fabric, may_send_beside
from raybench.performance_model.step.output_layer import padded_vocabulary
from raybench.performance_model.step.spreads import may_overlap, unpublished
from raybench.performance_model.step.work import has_slower_attention

_WIDE_BYTES = 4  # an element of fp32, whose kernels take any width
_MUCH_BUBBLE = 0.5  # of the computation: a third of the step

# peft/utils/other.py, prepare_model_for_kbit_training; bitsandbytes/nn/parametrize.py and its pull request 1999
_PREPARED = "the most has all but 4-bit layers in fp32, as prepare_model_for_kbit_training leaves it (--dtype fp32)"
_KEPT = (
    "the most has experts in 4 bits and in 16: bitsandbytes before 0.50 keeps what it unpacks (quantize_moe_experts)"
)
_NO_PRICE = "no price; give --price or a --node-type with a list price"


def unknown_of(request: EstimateRequest, peak: float | None) -> tuple[str, ...]:
    """Each figure that is missing, and why; ``peak``: of the GPU for the type, TFLOP/s."""
    reasons = []
    if request.network is None:
        reasons.append(f"times: {request.network_unknown or 'nothing is known of the network'}")
    elif has_open_fabric(request):
        reasons.append(_open_fabric(request))
    if request.gpu is None:
        reasons.append("step time, throughput and MFU: the GPU is not known; give --gpu or --node-type")
    elif peak is None:
        reasons.append(f"step time, throughput and MFU: {without_peak(request.gpu, request.dtype)}")
    if request.memory_bytes is None:
        reasons.append("whether it fits: the memory of the GPU is not known; give --gpu or --memory")
    if request.price is None:
        reasons.append(f"cost: {request.price_unknown or _NO_PRICE}")
    return tuple(reasons)


def without_peak(gpu: Gpu, dtype: str) -> str:
    """That a GPU has no peak for a type, so that it is none to compute in there, and which to give instead."""
    instead = next((name for name in ("bf16", "fp16") if gpu.peak_tflops(name)), None)
    return f"{gpu.name} has no peak for {dtype}" + (f"; give --dtype {instead}" if instead else "")


def _open_fabric(request: EstimateRequest) -> str:
    what = "the network between nodes; give --nics and --nic-gbit, or --node-type"
    if request.gpu is None:
        return f"times: {what}"
    rates = " to ".join(dict.fromkeys(f"{8 * rate:g}" for rate in fabrics_of(request.gpu)))
    return f"{what}; the step is of {rates} Gbit/s a node, as such GPUs mostly have"


def unsaid_of(request: EstimateRequest) -> tuple[str, ...]:
    """Options that nobody gives and that widen the bounds of the step or of memory, which hold either way."""
    setup, gpu = request.setup, request.gpu
    of_kernels = setup.has_separate_kernels is None
    of_attention = gpu is not None and has_slower_attention(gpu, setup) and setup.native_attention is None
    open_options = {
        "--compile": of_kernels,
        "--kernels": not request.kernels_known,
        "--loss": setup.loss_open,
        "--native-attention": of_attention,
        "--flash-attention": request.may_store_scores
        or any(fact.name == "flash_attention" and fact.is_open for fact in request.taken),
        "--masked-attention": may_be_masked(setup),
        "--overlap": may_overlap(setup, request.layout),
        "--dropout": not request.dropout_known,
        "--lora-dropout": setup.lora_rank > 0 and not request.adapter_dropout_known,
        "--expert-tensor-parallel": len(layouts_meant(request.model, request.layout)) > 1,
        "--token-dispatcher": setup.sends_once is None and exchanges_over_nodes(request),
        "--overlap-experts": setup.overlaps_exchange is None and may_send_beside(request),
        "--force-load-balancing": setup.is_balanced is None and request.model.experts > 0 and request.layout.expert > 1,
    }
    return tuple(name for name, is_open in open_options.items() if is_open)


def unsaid_of_memory(request: EstimateRequest) -> tuple[str, ...]:
    """The same of memory alone, of what the program that is named leaves open: types of Megatron-LM's buffers."""
    is_open = {fact.name for fact in request.taken if fact.is_open}
    recomputes = request.program is not None and request.program.recomputes_modules
    keeps_inner = recomputes and request.dtype == "fp8" and request.model.gated
    open_options = {
        "--gradient-dtype": request.setup.strategy == "zero1" and "gradient_bytes" in is_open,
        "--use-precision-aware-optimizer": request.dtype == "bf16" and "stores_remainders" in is_open,
        "--activation-func-fp8-input-store": keeps_inner and "has_8bit_inner" not in request.said,
    }
    return tuple(name for name, is_so in open_options.items() if is_so)


def caveats_of(request: EstimateRequest) -> tuple[str, ...]:
    """What the answer rests on that nobody gave: bounds of other GPUs, a sequence longer than the model is made for."""
    length, made_for = request.setup.sequence_length, request.model.context
    few = None if request.efficiency is not None else unpublished(request.gpu)
    is_long = length > made_for and not isinstance(request.model, CountedModel)
    stretched = f"positions of {request.model.name} stretched from {made_for:,} to {length:,} tokens"
    table, unmatched = request.basis.get("positions"), request.basis.get(NO_LAYER)
    ahead = 0 if request.model.predicting else request.model.predicting_in_config
    untrained = f"{ahead} layer{'' if ahead == 1 else 's'} of multi-token prediction left out, as most programs do"
    return (
        *([stretched] if is_long else []),
        *([f"positions: {table}"] if table else []),
        *([f"--lora-targets: {unmatched}"] if unmatched else []),
        *([f"{untrained} (raybench estimate --mtp-layers {ahead})"] if ahead and not request.setup.lora_rank else []),
        *([_PREPARED] if request.may_compute_wide else []),
        *([_KEPT] if request.may_keep_unpacked else []),
        *([few] if few else []),
    )


def advice_on(request: EstimateRequest) -> tuple[str, ...]:
    """What makes a step slower than it needs to be: a vocabulary that few kernels take, a pipeline that waits."""
    return (*_unpiped(request), *_padded(request), *_filled(request))


def _unpiped(request: EstimateRequest) -> tuple[str, ...]:
    if request.layout.pipeline == 1 or request.setup.strategy not in WITHOUT_PIPELINE:
        return ()
    who = "DeepSpeed, Colossal-AI and PaddleNLP refuse"
    return (f"{who} {request.setup.strategy} with a pipeline; take zero1, or fsdp (--strategy)",)


def _padded(request: EstimateRequest) -> tuple[str, ...]:
    narrow = request.setup.compute_bytes < _WIDE_BYTES and not isinstance(request.model, CountedModel)
    padded = padded_vocabulary(request.model) if narrow else None
    if padded is None:
        return ()
    words = f"{request.model.vocabulary:,} words cannot be divided by 8, which is slow"
    return (f"{words}; pad them (--vocabulary {padded})",)


def _filled(request: EstimateRequest) -> tuple[str, ...]:
    """Of a pipeline whose stages wait for a third of a step and more: as many micro-batches as a plan has at least."""
    layout, times = request.layout, request.accumulation
    bubble = bubble_share(layout, times)
    if bubble < _MUCH_BUBBLE:
        return ()
    waits = f"the stages of the pipeline wait for {bubble / (1 + bubble):.0%} of a step of {times} micro-batch"
    enough = BATCHES_PER_STAGE * layout.pipeline
    return (f"{waits}{'' if times == 1 else 'es'}; give it more of them (--gradient-accumulation-steps {enough})",)
