"""How the best way is started: by raybench, and by what people train with themselves."""

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raybench.performance_model.estimate import EstimateRequest
    from raybench.performance_model.training_plan import Way

_SHARDING = {"fsdp": "full", "fsdp-grad-op": "grad-op", "fsdp-hybrid": "hybrid"}
_ACCELERATE = {"fsdp": "FULL_SHARD", "fsdp-grad-op": "SHARD_GRAD_OP", "fsdp-hybrid": "HYBRID_SHARD"}


def command_of(way: "Way", request: "EstimateRequest") -> str:
    """``raybench train`` of the way, to measure what was estimated; empty for a model that it does not know by name."""
    from raybench.performance_model.transformer import PRESETS

    if request.model.name not in PRESETS:
        return ""
    setup = way.estimate.request.setup
    method = "qlora" if setup.quantized else "lora" if setup.lora_rank else setup.strategy.partition("-")[0]
    words = ["raybench", "train", "--nodes", str(request.layout.nodes), "--strategy", method]
    if setup.strategy in _SHARDING and method == "fsdp":
        words += ["--sharding", _SHARDING[setup.strategy]]
    words += ["--model", request.model.name, "--batch-size", str(setup.batch_size)]
    words += ["--sequence-length", str(setup.sequence_length), "--dtype", request.dtype]
    if way.estimate.request.accumulation > 1:
        words += ["--accumulate", str(way.estimate.request.accumulation)]
    if setup.checkpointing:
        words.append("--checkpoint-activations")
    return shlex.join(words)


def launch_lines(way: "Way", request: "EstimateRequest") -> tuple[str, ...]:
    """torchrun on every node, and what FSDP or DDP is told by Hugging Face's trainer and accelerate."""
    layout, setup = request.layout, way.estimate.request.setup
    torchrun = (
        f"torchrun --nnodes {layout.nodes} --nproc-per-node {layout.node.ranks} "
        "--rdzv-backend c10d --rdzv-endpoint NODE0:29500 train.py"
    )
    trainer = [f"--per_device_train_batch_size {setup.batch_size}"]
    trainer.append(f"--gradient_accumulation_steps {way.estimate.request.accumulation}")
    trainer += ["--bf16 True"] if request.dtype == "bf16" else []
    trainer += ["--gradient_checkpointing True"] if setup.checkpointing else []
    lines = [torchrun, f"transformers: {' '.join(trainer)}"]
    if setup.strategy in _ACCELERATE:
        lines.append(
            f"accelerate: fsdp_sharding_strategy: {_ACCELERATE[setup.strategy]}, "
            "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, "
            f"fsdp_activation_checkpointing: {str(setup.checkpointing).lower()}"
        )
    return tuple(lines)
