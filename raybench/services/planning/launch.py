"""How the best way is started: by raybench, and by what people train with themselves."""

import json
import shlex
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.performance_model.model_config import is_config

if TYPE_CHECKING:
    from raybench.performance_model.step.request import EstimateRequest
    from raybench.performance_model.training_plan import Way

_SHARDING = {"fsdp": "full", "fsdp-grad-op": "grad-op", "fsdp-hybrid": "hybrid"}
_ACCELERATE = {"fsdp": "FULL_SHARD", "fsdp-grad-op": "SHARD_GRAD_OP", "fsdp-hybrid": "HYBRID_SHARD"}
_PRECISIONS = {"bf16": "--bf16 True", "fp16": "--fp16 True", "tf32": "--tf32 True"}  # of transformers
_OPTIMIZERS = {"adamw-8bit": "adamw_bnb_8bit", "sgd": "sgd", "momentum": "sgd --optim_args momentum=0.9"}
# Without it transformers' Trainer adds whole gradients up (transformers pull request 43919 made it heed this, 2026-02).
_SYNC_EACH = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
_DISPATCHED = "--moe-token-dispatcher-type alltoall --moe-grouped-gemm"  # as estimated; Megatron-LM's own is allgather
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

    ``model``: as it was asked for. ``gpus_per_node``: where not all of a node's. ``vocabulary``: where another.
    """
    own, setup = way.estimate.request.layout, way.estimate.request.setup
    adapted = bool(setup.quantized or setup.lora_rank)
    if own.is_cut or setup.is_zero or (adapted and setup.strategy != "ddp"):
        return ""
    if setup.optimizer not in _TRAINED or request.dtype == "tf32" or not _is_trained(model):
        return ""
    method = "qlora" if setup.quantized else "lora" if setup.lora_rank else setup.strategy.partition("-")[0]
    words = ["raybench", "train", "--nodes", str(request.layout.nodes)]
    words += ["--gpus-per-node", str(gpus_per_node)] if gpus_per_node else []
    words += ["--strategy", method]
    if setup.strategy in _SHARDING:
        words += ["--sharding", _SHARDING[setup.strategy]]
    words += ["--model", model if is_config(model) else request.model.name, "--batch-size", str(setup.batch_size)]
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


def reduces_each(way: "Way") -> bool:
    """Whether the way's shards reduce in each micro-batch of several, which neither program does by itself."""
    one = way.estimate.request
    return one.setup.strategy in _SHARDING and one.accumulation > 1 and not one.layout.is_cut


def _is_trained(model: str) -> bool:
    """Whether raybench train builds the model: a preset, or a config.json in the sizes of one."""
    from raybench.benchmarks.training.models.config_shape import with_config
    from raybench.services.planning.counted_model import is_import_path

    if is_import_path(model):
        return False
    try:
        with_config({"model": model})
    except UsageError:
        return False
    return True


def launch_lines(way: "Way") -> tuple[str, ...]:
    """torchrun on every node, and what the way is told by the framework that people take for it."""
    layout, setup = way.estimate.request.layout, way.estimate.request.setup
    program = "train.py"
    if layout.is_cut:
        program = "-m torchtitan.train" if setup.strategy == "fsdp" else "pretrain_gpt.py"
    meeting = "--rdzv-backend c10d --rdzv-endpoint NODE0:29500"
    meeting = f"--nnodes {layout.nodes} {meeting}" if layout.nodes > 1 else "--standalone"
    torchrun = f"torchrun {meeting} --nproc-per-node {layout.node.ranks} {program}"
    if layout.is_cut and setup.strategy == "fsdp":
        return torchrun, f"torchtitan: {_torchtitan(way)}"
    if layout.is_cut:
        return torchrun, f"Megatron-LM: {_megatron(way)}"
    start = _accelerate(way) if setup.strategy in _ACCELERATE else torchrun
    return start, f"transformers: {_trainer(way)}", *_adapter_lines(way), *_zero_lines(way)


def _trainer(way: "Way") -> str:
    """Arguments of its Trainer. With FSDP, activations are computed again by FSDP: it refuses both."""
    one = way.estimate.request
    words = [f"--per_device_train_batch_size {one.setup.batch_size}"]
    words.append(f"--gradient_accumulation_steps {one.accumulation}")
    words += [_PRECISIONS[one.dtype]] if one.dtype in _PRECISIONS else []
    words += [f"--optim {_OPTIMIZERS[one.setup.optimizer]}"] if one.setup.optimizer in _OPTIMIZERS else []
    words += ["--torch_compile True"] if one.setup.compiled else []
    words += (
        ["--gradient_checkpointing True"] if one.setup.checkpointing and one.setup.strategy not in _ACCELERATE else []
    )
    words += [f"--accelerator_config {shlex.quote(json.dumps(_SYNC_EACH))}"] if reduces_each(way) else []
    return " ".join(words)


def _accelerate(way: "Way") -> str:
    """The command on every node; the Trainer takes FSDP from it as well."""
    layout, setup = way.estimate.request.layout, way.estimate.request.setup
    words = [f"accelerate launch --num_machines {layout.nodes} --num_processes {layout.world_size}"]
    if layout.nodes > 1:
        words.append("--machine_rank $NODE_RANK --main_process_ip NODE0 --main_process_port 29500")
    words.append(f"--use_fsdp --fsdp_sharding_strategy {_ACCELERATE[setup.strategy]}")
    words.append("--fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP")
    words += ["--fsdp_activation_checkpointing true"] if setup.checkpointing else []
    dtype = way.estimate.request.dtype
    words += [f"--mixed_precision {dtype}"] if dtype in ("bf16", "fp16") else []
    return " ".join([*words, "train.py"])


def _adapter_lines(way: "Way") -> tuple[str, ...]:
    setup = way.estimate.request.setup
    if not setup.lora_rank:
        return ()
    packed = " --load_in_4bit True --bnb_4bit_quant_type nf4" if setup.quantized else ""
    targets = " ".join(setup.lora_targets) or "all-linear"
    return (f"trl: --use_peft True --lora_r {setup.lora_rank} --lora_target_modules {targets}{packed}",)


def _zero_lines(way: "Way") -> tuple[str, ...]:
    one = way.estimate.request
    if not one.setup.is_zero:
        return ()
    told = {
        "zero_optimization": {"stage": int(one.setup.strategy[-1])},
        **({one.dtype: {"enabled": True}} if one.dtype in ("bf16", "fp16") else {}),
        "train_micro_batch_size_per_gpu": one.setup.batch_size,
        "gradient_accumulation_steps": one.accumulation,
    }
    return (f"deepspeed: {json.dumps(told)}",)


def _megatron(way: "Way") -> str:
    """Arguments of its training scripts; those of the model's shape are the user's."""
    one = way.estimate.request
    layout, setup = one.layout, one.setup
    words = [f"--tensor-model-parallel-size {layout.tensor}"]
    words += ["--sequence-parallel"] if layout.tensor > 1 else []
    if layout.pipeline > 1:
        words.append(f"--pipeline-model-parallel-size {layout.pipeline}")
    if layout.virtual_stages > 1:
        chunk = one.model.layers // (layout.pipeline * layout.virtual_stages)
        words.append(f"--num-layers-per-virtual-pipeline-stage {chunk}")
    words += [f"--context-parallel-size {layout.context}"] if layout.context > 1 else []
    words += [f"--expert-model-parallel-size {layout.expert} {_DISPATCHED}"] if layout.expert > 1 else []
    words.append(f"--use-distributed-optimizer --micro-batch-size {setup.batch_size}")
    words.append(f"--global-batch-size {way.estimate.samples_per_step} --seq-length {setup.sequence_length}")
    words += ["--bf16"] if one.dtype == "bf16" else ["--bf16 --fp8-format hybrid"] if one.dtype == "fp8" else []
    if setup.checkpointing:
        words.append("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
    return " ".join(words)


def _torchtitan(way: "Way") -> str:
    one = way.estimate.request
    layout, setup = one.layout, one.setup
    words = [f"--parallelism.tensor_parallel_degree={layout.tensor}"]
    words += [f"--parallelism.context_parallel_degree={layout.context}"] if layout.context > 1 else []
    words += [f"--parallelism.expert_parallel_degree={layout.expert}"] if layout.expert > 1 else []
    words.append(f"--training.local_batch_size={setup.batch_size} --training.seq_len={setup.sequence_length}")
    words.append(f"--training.global_batch_size={way.estimate.samples_per_step}")
    words.append(f"--activation_checkpoint.mode={'full' if setup.checkpointing else 'none'}")
    return " ".join(words)
