"""Options of an estimate that change nothing in what is asked for: whoever gives one expects that it counts."""

from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.performance_model.step.spreads import OVERLAPPING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from raybench.performance_model.request.request import EstimateRequest
    from raybench.services.estimating.options import EstimateOptions

_DEEPSPEEDS = (
    "is of DDP and Megatron-LM's optimizer (--strategy distributed-optimizer), and gradients in 16 bits make zero1 "
    "DeepSpeed's"
)
_UNSHARED = "is of experts that ranks share (--expert-parallel), and there are none"


def check_effects(options: "EstimateOptions", request: "EstimateRequest") -> None:
    """Raises UsageError for the first option that was given and is of another training, with what it is of."""
    for name, why in (
        *_of_strategies(options, request),
        *_of_experts(options, request),
        *_of_parts(options),
    ):
        raise UsageError(f"{name} {why}; leave it out")


def _of_strategies(options: "EstimateOptions", request: "EstimateRequest") -> "Iterator[tuple[str, str]]":
    strategy = request.setup.strategy
    has = f"and --strategy is {strategy}"
    if options.overlap is not None and strategy not in OVERLAPPING:
        yield _overlap(options), f"is of zero1 and ddp, {has}"
    if options.overlap is not None and strategy == "zero1" and request.setup.is_deepspeeds:
        yield _overlap(options), _DEEPSPEEDS
    if options.bucket_view is not None and strategy != "ddp":
        yield "--bucket-view", f"is of ddp, {has}"
    if options.reduce_each is not None and not strategy.startswith("fsdp"):
        yield "--reduce-each" if options.reduce_each else "--reduce-last", f"is of fsdp, {has}"
    reduces_so = strategy.startswith("fsdp") or request.layout.is_cut or request.setup.gradient_buffers
    if options.reduce_dtype is not None and not reduces_so and options.program is None:
        instead = ", which has --gradient-dtype" if strategy in ("zero1", "zero2") else ""
        yield "--reduce-dtype", f"is of fsdp, or of a model that is cut, {has}{instead}"


def _overlap(options: "EstimateOptions") -> str:
    return "--overlap" if options.overlap else "--no-overlap"


def _of_experts(options: "EstimateOptions", request: "EstimateRequest") -> "Iterator[tuple[str, str]]":
    if options.expert_tensor_parallel is not None and not request.model.experts:
        yield "--expert-tensor-parallel", f"is of experts, and {request.model.name} has none"
    if request.model.experts and options.expert_parallel > 1:
        return
    if options.token_dispatcher is not None:
        yield "--token-dispatcher", _UNSHARED
    if options.overlap_experts is not None:
        yield "--overlap-experts", _UNSHARED
    if options.force_load_balancing is not None:
        yield "--force-load-balancing", _UNSHARED


def _of_parts(options: "EstimateOptions") -> "Iterator[tuple[str, str]]":
    if options.lora_dropout is not None and not options.lora_rank:
        yield "--lora-dropout", "is of LoRA, and there is no --lora-rank"
    if options.autocast is not None and not options.lora_rank:
        yield "--autocast", "is of LoRA, and there is no --lora-rank"
    if options.sequence_parallel is not None and options.tensor_parallel == 1:
        yield "--sequence-parallel", "is of --tensor-parallel, and that is 1"
    if options.native_attention and options.no_flash_attention:
        yield "--native-attention", "is of a fused kernel, and --no-flash-attention has none"
    if options.masked_attention and options.context_parallel > 1:
        yield "--masked-attention", "is of whole samples, and --context-parallel cuts them"
    narrow = {"bf16", "fp16"}
    if {options.dtype, options.parameter_dtype} == narrow:
        yield "--parameter-dtype", f"is {options.parameter_dtype}, and --dtype {options.dtype}: two types of 16 bits"
