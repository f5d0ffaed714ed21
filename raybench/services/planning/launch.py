"""How the best way is started: by raybench, and by what people train with themselves."""

import shlex
from typing import TYPE_CHECKING

from raybench.performance_model.models.config import is_config
from raybench.performance_model.programs.releases_of_transformers import WITH_SINKS
from raybench.performance_model.ways.ranking import shards_as_deepspeed
from raybench.services.estimating.trained import is_trained
from raybench.services.planning.frameworks import (
    FP8,
    ZERO_FILE,
    cut_by,
    cut_lines,
    meeting_words,
    mixed_words,
    trainer_batch,
    zero_lines,
)
from raybench.services.planning.program_lines import has_double_scales, program_lines

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.setup.training_setup import TrainingSetup
    from raybench.performance_model.ways.way import Way

_SHARDING = {"fsdp": "full", "fsdp-grad-op": "grad-op", "fsdp-hybrid": "hybrid"}
_ACCELERATE = {"fsdp": "FULL_SHARD", "fsdp-grad-op": "SHARD_GRAD_OP", "fsdp-hybrid": "HYBRID_SHARD"}
_PRECISIONS = {"bf16": "--bf16 True", "fp16": "--fp16 True", "tf32": "--tf32 True", "fp8": "--bf16 True"}
_OPTIMIZERS = {
    "adamw-8bit": "adamw_bnb_8bit",
    "paged-adamw": "paged_adamw_32bit",
    "paged-adamw-8bit": "paged_adamw_8bit",
    "sgd": "sgd",
    "momentum": "sgd --optim_args momentum=0.9",
}  # of transformers, as the types above
# Without it transformers' Trainer adds whole gradients up (transformers pull request 43919 made it heed this, 2026-02).
_SYNC_EACH = '{"gradient_accumulation_kwargs":{"sync_each_batch":true}}'  # without spaces: lines are wrapped there
_OF_BYTES = {4: "float32", 2: "bfloat16"}
_TRAINED = ("adamw", "adam", "sgd")  # optimizers of raybench train
_USUAL_RANK = 16  # of LoRA there


def command_of(
    way: "Way",
    request: "EstimateRequest",
    model: str,
    *,
    gpus_per_node: int | None = None,
    vocabulary: int | None = None,
) -> str:
    """``raybench train`` of the way, to measure what was estimated; empty for what it does not know or cannot do.

    So for a longer table of positions than the model's, which raybench train has as it is.
    ``model``: as it was asked for. ``gpus_per_node``: where not all of a node's. ``vocabulary``: where another.
    """
    setup = way.estimate.request.setup
    adapted = bool(setup.quantized or setup.lora_rank)
    if not is_ours(way.estimate.request) or not is_trained(model) or "positions" in request.basis:
        return ""
    method = "qlora" if setup.quantized else "lora" if setup.lora_rank else setup.strategy.partition("-")[0]
    words = ["raybench", "train", "--nodes", str(request.layout.nodes)]
    words += ["--gpus-per-node", str(gpus_per_node)] if gpus_per_node else []
    words += ["--strategy", method]
    if setup.strategy in _SHARDING:
        words += ["--sharding", _SHARDING[setup.strategy]]
    own_name = is_config(model) or vocabulary  # in other sizes a preset has none
    words += ["--model", model if own_name else request.model.name, "--batch-size", str(setup.batch_size)]
    words += ["--vocabulary", str(vocabulary)] if vocabulary else []
    words += ["--sequence-length", str(setup.sequence_length), "--dtype", request.dtype]
    if way.estimate.request.accumulation > 1:
        words += ["--gradient-accumulation-steps", str(way.estimate.request.accumulation)]
        words += ["--reduce-each"] if reduces_each(way) else []
    words += ["--optimizer", setup.optimizer] if setup.optimizer != _TRAINED[0] else []
    words += ["--lora-rank", str(setup.lora_rank)] if adapted and setup.lora_rank != _USUAL_RANK else []
    words += ["--lora-targets", ",".join(setup.lora_targets)] if setup.lora_targets else []
    words += ["--activation-checkpointing"] if setup.checkpointing else []
    words += ["--compile"] if setup.compiled else []
    return shlex.join(words)


def is_ours(request: "EstimateRequest") -> bool:
    """Whether raybench train has the way, whatever the model."""
    setup = request.setup
    adapted = bool(setup.quantized or setup.lora_rank)
    if request.is_of_torchtitan or (request.program is not None and request.program.starts != "raybench"):
        return False
    if request.layout.is_cut or shards_as_deepspeed(setup) or setup.selective or (adapted and setup.strategy != "ddp"):
        return False
    drops = request.model.drops and "drops" in request.said
    drops = drops or (adapted and setup.adapter_dropout and "adapter_dropout" in request.said)
    is_known = setup.is_usual and setup.packing != "8bit" and setup.frozen_bytes == setup.compute_bytes and not drops
    return is_known and setup.optimizer in _TRAINED and request.dtype != "tf32"


def is_packed(request: "EstimateRequest") -> bool:
    """Whether trl is told to pack samples for FlashAttention, which needs a GPU with bf16; not of what has a mask."""
    has_flash = request.gpu is not None and request.gpu.peak_tflops("bf16") is not None
    has_flash = has_flash and (not _has_sinks(request) or _has_kernel_with_sinks(request))
    return bool(request.setup.lora_rank) and has_flash and not request.setup.masked_attention


def stores_scores(request: "EstimateRequest") -> bool:
    """Whether what starts it is told to store scores of attention, where nobody says otherwise: sinks have no kernel.

    But for flex_attention, which few compile as they have to; who says --flash-attention is told it.
    """
    is_said = "flash_attention" in request.said
    return _has_sinks(request) and not is_said and not _has_kernel_with_sinks(request)


def _has_sinks(request: "EstimateRequest") -> bool:
    """As gpt-oss's attention has, and FlashAttention-2 and sdpa have not."""
    return request.model.family in WITH_SINKS


def _has_kernel_with_sinks(request: "EstimateRequest") -> bool:
    return request.gpu is not None and request.gpu.is_hopper


def reduces_each(way: "Way") -> bool:
    """Whether the way's shards reduce in each micro-batch of several, which neither program does by itself.

    Of a model that is cut accelerate does as little; torchtitan always does.
    """
    one = way.estimate.request
    is_other = one.layout.is_cut or one.is_of_torchtitan or one.setup.selective
    is_ours = one.setup.strategy in _SHARDING and (not is_other or cut_by(one) == "accelerate")
    heeds = not (one.program and one.program.release and one.adds_up_whole)
    return is_ours and one.accumulation > 1 and heeds


def launch_lines(way: "Way") -> tuple[str, ...]:
    """torchrun on every node, and what the way is told by the framework that people take for it."""
    layout, setup = way.estimate.request.layout, way.estimate.request.setup
    meeting = "--rdzv-backend c10d --rdzv-endpoint NODE0:29500"
    meeting = f"--nnodes {layout.nodes} {meeting}" if layout.nodes > 1 else "--standalone"
    torchrun = f"torchrun {meeting} --nproc-per-node {layout.node.ranks}"
    fp8 = (FP8,) if way.estimate.request.dtype == "fp8" else ()
    program = way.estimate.request.program
    if program is not None and program.starts != "transformers":
        return program_lines(way, program, torchrun)
    if layout.is_cut or way.estimate.request.is_of_torchtitan or setup.selective:
        by_trainer = cut_by(way.estimate.request) in ("accelerate", "sagemaker")
        return *cut_lines(way, torchrun, _trainer(way)), *(fp8 if by_trainer else ())
    start = _accelerate(way) if setup.strategy in _ACCELERATE else f"{torchrun} train.py"
    lead = program.title if program is not None else "transformers"
    return start, f"{lead}: {_trainer(way)}", *_adapter_lines(way), *_stored_lines(way), *zero_lines(way), *fp8


def _trainer(way: "Way") -> str:
    """Arguments of its Trainer. With FSDP, activations are computed again by FSDP: it refuses both."""
    one = way.estimate.request
    words = [trainer_batch(way)]
    words += [_PRECISIONS[one.dtype]] if one.dtype in _PRECISIONS else []
    words += _optimizer_words(one.setup)
    words += ["--torch_compile True"] if one.setup.compiled else []
    words += ["--use_liger_kernel True"] if one.setup.kernels == "fused" else []
    words += (
        ["--gradient_checkpointing True"] if one.setup.checkpointing and one.setup.strategy not in _ACCELERATE else []
    )
    words += [f"--accelerator_config {shlex.quote(_SYNC_EACH)}"] if reduces_each(way) else []
    words += [f"--deepspeed {ZERO_FILE}"] if shards_as_deepspeed(one.setup) else []
    return " ".join(words)


def _optimizer_words(setup: "TrainingSetup") -> list[str]:
    if setup.optimizer in ("adam", "adamw") and setup.moment_bytes and not shards_as_deepspeed(setup):
        kind = _OF_BYTES[setup.moment_bytes]
        return [f"--optim adamw_anyprecision --optim_args momentum_dtype={kind},variance_dtype={kind}"]
    return [f"--optim {_OPTIMIZERS[setup.optimizer]}"] if setup.optimizer in _OPTIMIZERS else []


def _stored_lines(way: "Way") -> tuple[str, ...]:
    """Of weights in 16 bits (but by DeepSpeed, whose file says so), activations on the CPU, and dropout as asked."""
    setup = way.estimate.request.setup
    told = ["trl: --activation_offloading True"] if setup.offloads_activations else []
    if "drops" in way.estimate.request.said:
        has = "with" if way.estimate.request.model.drops else "without"
        told.append(f"the model: {has} dropout in its config (attention_dropout, hidden_dropout, resid_pdrop, ...)")
    if not setup.lora_rank and _has_sinks(way.estimate.request) and way.estimate.request.program is None:
        told.append(f"the model: loaded with attn_implementation={_attention(way.estimate.request)}")
    if setup.parameter_bytes < 4 and not setup.lora_rank and not shards_as_deepspeed(setup):
        told.append("the model: loaded in bfloat16 (dtype=torch.bfloat16), so that no fp32 weights are kept")
    return tuple(told)


def _accelerate(way: "Way") -> str:
    """The command on every node; the Trainer takes FSDP from it as well."""
    setup = way.estimate.request.setup
    words = [*meeting_words(way), "--use_fsdp", *(_fsdp_1(setup) if setup.on_streams else _fsdp_2(way))]
    words.append("--fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP")
    words += ["--fsdp_activation_checkpointing true"] if setup.checkpointing else []
    return " ".join([*words, *mixed_words(way), "train.py"])


def _fsdp_1(setup: "TrainingSetup") -> list[str]:
    """FSDP's first form, whose streams an estimate has counted, as LoRA is trained by it."""
    return [f"--fsdp_sharding_strategy {_ACCELERATE[setup.strategy]}"]


def _fsdp_2(way: "Way") -> list[str]:
    """``fully_shard``, as raybench train has it and as it was estimated; hybrid by a mesh of nodes and their ranks."""
    layout, strategy = way.estimate.request.layout, way.estimate.request.setup.strategy
    words = ["--fsdp_version 2", f"--fsdp_reshard_after_forward {'false' if strategy == 'fsdp-grad-op' else 'true'}"]
    if strategy == "fsdp-hybrid":
        words.append(f"--use_parallelism_config --parallelism_config_dp_replicate_size {layout.nodes}")
        words.append(f"--parallelism_config_dp_shard_size {layout.node.ranks}")
    return words


def _adapter_lines(way: "Way") -> tuple[str, ...]:
    """Of trl's ModelConfig. FSDP flattens 4-bit weights with the others: they are stored in the others' type."""
    one = way.estimate.request
    if not one.setup.lora_rank:
        return ()
    packed = " --load_in_4bit True --bnb_4bit_quant_type nf4" if one.setup.quantized else ""
    packed += " --use_bnb_nested_quant True" if has_double_scales(one) else ""
    packed = " --load_in_8bit True" if one.setup.packing == "8bit" else packed
    if packed and one.setup.strategy in _ACCELERATE:
        kind = {"fp16": "float16", "bf16": "bfloat16", "fp8": "bfloat16"}.get(one.dtype, "float32")
        packed += f" --bnb_4bit_quant_storage {kind} --dtype {kind}"
    if one.setup.frozen_bytes > one.setup.compute_bytes:
        packed = f" --dtype {_OF_BYTES[one.setup.frozen_bytes]}"
    targets = " ".join(one.setup.lora_targets) or "all-linear"
    words = f"trl: --use_peft True --lora_r {one.setup.lora_rank} --lora_target_modules {targets}{packed}"
    words += "" if one.setup.adapter_dropout else " --lora_dropout 0"
    words += f" --max_length {one.setup.sequence_length}"  # trl/trainer/sft_config.py cuts samples to 1,024 tokens
    words += " --packing True" if is_packed(one) else ""
    kernel = _attention(one)
    words += f" --attn_implementation {kernel}" if kernel else ""
    return (words,)


def _attention(one: "EstimateRequest") -> str:
    """What is told to attend; empty: nothing. FlashAttention-2 has no sinks; on Hopper another kernel has.

    Which trl's sft_gpt_oss.py names; transformers/models/gpt_oss/modeling_gpt_oss.py has it in
    _compatible_flash_implementations, with flex_attention, and _supports_sdpa False: eager where nothing is told.
    """
    if not _has_sinks(one):
        return "flash_attention_2" if is_packed(one) and one.setup.flash_attention else ""  # else stored scores
    if not one.setup.flash_attention:
        return "eager"
    return "kernels-community/vllm-flash-attn3" if _has_kernel_with_sinks(one) else "flex_attention"
