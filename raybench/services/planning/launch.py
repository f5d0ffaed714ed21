"""How the best way is started: by raybench, and by what people train with themselves."""

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raybench.performance_model.estimate import EstimateRequest
    from raybench.performance_model.training_plan import Way

_SHARDING = {"fsdp": "full", "fsdp-grad-op": "grad-op", "fsdp-hybrid": "hybrid"}
_ACCELERATE = {"fsdp": "FULL_SHARD", "fsdp-grad-op": "SHARD_GRAD_OP", "fsdp-hybrid": "HYBRID_SHARD"}


def command_of(way: "Way", request: "EstimateRequest") -> str:
    """``raybench train`` of the way, to measure what was estimated; empty for what it does not know or cannot do."""
    from raybench.performance_model.transformer import PRESETS

    own, setup = way.estimate.request.layout, way.estimate.request.setup
    if request.model.name not in PRESETS or own.is_cut or setup.is_zero:
        return ""
    method = "qlora" if setup.quantized else "lora" if setup.lora_rank else setup.strategy.partition("-")[0]
    words = ["raybench", "train", "--nodes", str(request.layout.nodes), "--strategy", method]
    if setup.strategy in _SHARDING and method == "fsdp":
        words += ["--sharding", _SHARDING[setup.strategy]]
    words += ["--model", request.model.name, "--batch-size", str(setup.batch_size)]
    words += ["--sequence-length", str(setup.sequence_length), "--dtype", request.dtype]
    if way.estimate.request.accumulation > 1:
        words += ["--gradient-accumulation-steps", str(way.estimate.request.accumulation)]
    if setup.checkpointing:
        words.append("--activation-checkpointing")
    return shlex.join(words)


def launch_lines(way: "Way") -> tuple[str, ...]:
    """torchrun on every node, and what the way is told by the framework that people take for it."""
    layout, setup = way.estimate.request.layout, way.estimate.request.setup
    program = "train.py"
    if layout.is_cut:
        program = "-m torchtitan.train" if setup.strategy == "fsdp" else "pretrain_gpt.py"
    torchrun = (
        f"torchrun --nnodes {layout.nodes} --nproc-per-node {layout.node.ranks} "
        f"--rdzv-backend c10d --rdzv-endpoint NODE0:29500 {program}"
    )
    if layout.is_cut and setup.strategy == "fsdp":
        return torchrun, f"torchtitan: {_torchtitan(way)}"
    if layout.is_cut:
        return torchrun, f"Megatron-LM: {_megatron(way)}"
    return torchrun, f"transformers: {_trainer(way)}", *_sharding_lines(way)


def _trainer(way: "Way") -> str:
    one = way.estimate.request
    words = [f"--per_device_train_batch_size {one.setup.batch_size}"]
    words.append(f"--gradient_accumulation_steps {one.accumulation}")
    words += ["--bf16 True"] if one.dtype == "bf16" else []
    words += ["--gradient_checkpointing True"] if one.setup.checkpointing else []
    return " ".join(words)


def _sharding_lines(way: "Way") -> tuple[str, ...]:
    setup = way.estimate.request.setup
    if setup.is_zero:
        return (f'deepspeed: {{"zero_optimization": {{"stage": {setup.strategy[-1]}}}, "bf16": {{"enabled": true}}}}',)
    if setup.strategy not in _ACCELERATE:
        return ()
    anew = str(setup.checkpointing).lower()
    line = (
        f"accelerate: fsdp_sharding_strategy: {_ACCELERATE[setup.strategy]}, "
        f"fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_activation_checkpointing: {anew}"
    )
    return (line,)


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
    words += [f"--expert-model-parallel-size {layout.expert}"] if layout.expert > 1 else []
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
