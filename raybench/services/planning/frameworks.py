"""What frameworks that cut models, or compute activations again in part, are told: arguments of their own programs."""

import json
import shlex
from typing import TYPE_CHECKING, Literal

from raybench.performance_model.parallel.part import OUTER_STAGES, spare_places
from raybench.performance_model.request.torchtitan import by_torchtitan, torchtitan_config
from raybench.performance_model.step.starts import captures_experts
from raybench.performance_model.ways.ranking import shards_as_deepspeed

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.setup.training_setup import TrainingSetup
    from raybench.performance_model.ways.way import Way

FP8 = "fp8: linear layers of Transformer Engine or torchao, in the model itself"  # not by a word of what starts it
ZERO_FILE = "zero.json"
Framework = Literal["megatron-lm", "torchtitan", "sagemaker", "accelerate"]
_DISPATCHED = "--moe-token-dispatcher-type alltoall --moe-grouped-gemm"  # as estimated; Megatron-LM's own is allgather
# With graphs, as told on GB200 and GB300: Megatron-LM's docs/user-guide/features/cuda_graph.md (core_v0.18.0), "MoE
# Model Training"; until 0.17 --cuda-graph-scope.
_CAPTURED = "--cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router moe_preprocess"
# megatron/training/arguments.py: SGD has momentum unless it is told otherwise; Adam in 8 bits is Transformer Engine's.
_MEGATRON_OPTIMIZERS = {
    "sgd": "--optimizer sgd --sgd-momentum 0",
    "momentum": "--optimizer sgd",
    "adamw-8bit": "--use-precision-aware-optimizer --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8",
}
# Its options of today are those of 0.3; later ones count tokens (torchtitan/config/configs.py of 2026-08-21,
# num_tokens_per_microbatch_per_dp_rank), and have neither training.local_batch_size nor training.seq_len.
TORCHTITAN_AS, TORCHTITAN_SINCE = "torchtitan 0.3", (0, 3)
_IN_FP8 = "llama3_405b"  # torchtitan/models/llama3/config_registry.py, Float8LinearConverter; llama3_405b.toml before
# torchtitan/models/*/train_configs/*.toml of 0.2.2, and which of them 0.1.0 has
_TOML = {
    "llama3_8b": "llama3_8b",
    "llama3_70b": "llama3_70b",
    "llama3_405b": "llama3_405b",
    "qwen3_0_6b": "qwen3_0.6b",
    "qwen3_1_7b": "qwen3_1.7b",
    "qwen3_32b": "qwen3_32b",
    "deepseek_v3_671b": "deepseek_v3_671b",
}
_MEGATRON_TYPES = {"bf16": ["--bf16"], "fp16": ["--fp16"], "fp8": ["--bf16 --fp8-format hybrid"]}


def cut_lines(way: "Way", torchrun: str, trainer: str) -> tuple[str, ...]:
    """The program on every node, after ``torchrun``, and its arguments.

    Megatron-LM with ZeRO-1; of FSDP torchtitan where it has the model, else accelerate's (dense models) or, for
    experts, SageMaker's library. ``trainer``: what transformers' Trainer is told of the way.
    """
    one = way.estimate.request
    framework = cut_by(one)
    if framework == "megatron-lm":
        return f"{torchrun} pretrain_gpt.py", f"Megatron-LM, beside the model's own shape: {megatron_words(way)}"
    if framework == "torchtitan":
        config = torchtitan_config(one.model)
        words = f"{TORCHTITAN_AS}: {torchtitan_words(way, config)}"
        return f"{torchrun} -m torchtitan.train", words, *torchtitan_notes(one.dtype, config)
    if framework == "sagemaker":
        return f"{torchrun} train.py", f"SageMaker's smp: {_sagemaker(way)}"
    return _accelerate(way), f"{one.program.title if one.program else 'transformers'}: {trainer}"


def cut_by(one: "EstimateRequest") -> Framework:
    """Which framework is printed for a model that is cut, or whose activations are computed again in part."""
    if one.setup.strategy != "fsdp":
        return "megatron-lm"
    if one.program is None and torchtitan_config(one.model) and by_torchtitan(one, one.setup) is not None:
        return "torchtitan"
    return "sagemaker" if one.program is None and one.layout.expert > 1 else "accelerate"


def meeting_words(way: "Way") -> list[str]:
    """Of accelerate launch: nodes, ranks and where they meet."""
    layout = way.estimate.request.layout
    words = [f"accelerate launch --num_machines {layout.nodes} --num_processes {layout.world_size}"]
    if layout.nodes > 1:
        words.append("--machine_rank $NODE_RANK --main_process_ip NODE0 --main_process_port 29500")
    return words


def mixed_words(way: "Way") -> list[str]:
    """Of accelerate launch: the type; fp8 is a matter of the model's own layers, in a program in bf16."""
    dtype = way.estimate.request.dtype
    return [f"--mixed_precision {'bf16' if dtype == 'fp8' else dtype}"] if dtype in ("bf16", "fp16", "fp8") else []


def trainer_batch(way: "Way") -> str:
    """Of transformers' Trainer: micro-batch and accumulation."""
    one = way.estimate.request
    return f"--per_device_train_batch_size {one.setup.batch_size} --gradient_accumulation_steps {one.accumulation}"


def _accelerate(way: "Way") -> str:
    """FSDP2 with tensor and context parallelism of a model of transformers that has a plan for them."""
    layout, setup = way.estimate.request.layout, way.estimate.request.setup
    shards = layout.world_size // (layout.tensor * layout.context)
    words = [*meeting_words(way), "--use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP"]
    words.append(f"--use_parallelism_config --parallelism_config_dp_shard_size {shards}")
    words += [f"--parallelism_config_tp_size {layout.tensor}"] if layout.tensor > 1 else []
    words += [f"--parallelism_config_cp_size {layout.context}"] if layout.context > 1 else []
    words += ["--fsdp_activation_checkpointing true"] if setup.checkpointing else []
    return " ".join([*words, *mixed_words(way), "train.py"])


def _sagemaker(way: "Way") -> str:
    layout = way.estimate.request.layout
    told = {"expert_parallel_degree": layout.expert, "hybrid_shard_degree": layout.world_size // layout.expert}
    told |= {"tensor_parallel_degree": layout.tensor} if layout.tensor > 1 else {}
    return shlex.quote(json.dumps(told))


def megatron_words(way: "Way") -> str:
    """Arguments of its training scripts; those of the model's shape are the user's."""
    one = way.estimate.request
    layout, setup = one.layout, one.setup
    words = [f"--tensor-model-parallel-size {layout.tensor}"]
    words += ["--sequence-parallel"] if layout.tensor > 1 else []
    if layout.pipeline > 1:
        words.append(f"--pipeline-model-parallel-size {layout.pipeline}")
    spare = spare_places(one.model, layout.pipeline)
    words += _uneven(one.model.layers + spare, layout.pipeline, spare)
    if layout.virtual_stages > 1:
        chunk = (one.model.layers + spare) // (layout.pipeline * layout.virtual_stages)
        words.append(f"--num-layers-per-virtual-pipeline-stage {chunk}")
    words += [f"--context-parallel-size {layout.context}"] if layout.context > 1 else []
    words += [f"--expert-model-parallel-size {layout.expert} {_DISPATCHED}"] if layout.expert > 1 else []
    words += [_CAPTURED] if _is_captured(one) else []
    words += ["--expert-tensor-parallel-size 1"] if one.model.experts and layout.has_whole_experts else []
    words += ["--use-distributed-optimizer"] if setup.strategy == "zero1" else []
    words += ["--overlap-grad-reduce --overlap-param-gather"] if setup.strategy == "zero1" and setup.overlaps else []
    words.append(f"--micro-batch-size {setup.batch_size}")
    words.append(f"--global-batch-size {way.estimate.samples_per_step} --seq-length {setup.sequence_length}")
    words += _MEGATRON_TYPES.get(one.dtype, [])
    words += [_MEGATRON_OPTIMIZERS[setup.optimizer]] if setup.optimizer in _MEGATRON_OPTIMIZERS else []
    dropped = "0.1" if one.model.drops else "0"  # Megatron-LM's own is 0.1
    words.append(f"--hidden-dropout {dropped} --attention-dropout {dropped}")
    if setup.checkpointing:
        words.append(f"--recompute-granularity full {_recomputed(one, spare)}")
    if setup.recompute_modules:
        words.append(f"--recompute-granularity selective --recompute-modules {' '.join(setup.recompute_modules)}")
    return " ".join(words)


def _is_captured(one: "EstimateRequest") -> bool:
    """Whether its time is told with CUDA graphs, which whole blocks that are recomputed go without."""
    with_experts = one.gpu is not None and one.model.experts > 0 and not one.setup.checkpointing
    return with_experts and one.gpu is not None and captures_experts(one.gpu, one.setup)


def _recomputed(one: "EstimateRequest", spare: int) -> str:
    """All blocks, or the first so many of each part of the model that a pipeline's rank has."""
    setup, layout = one.setup, one.layout
    if setup.recomputed_share == 1:
        return "--recompute-method uniform --recompute-num-layers 1"
    chunk = (one.model.layers + spare) // (layout.pipeline * layout.virtual_stages)
    return f"--recompute-method block --recompute-num-layers {round(setup.recomputed_share * chunk)}"


def _uneven(places: int, stages: int, spare: int) -> list[str]:
    """What Megatron-LM is told where the first and the last stage have fewer layers than the others.

    One place each is the embedding's and the output layer's: that alone goes with an interleaved pipeline.
    """
    if spare == OUTER_STAGES:
        return ["--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"]
    first, last = spare // 2, spare - spare // 2
    words = [f"--decoder-first-pipeline-num-layers {places // stages - first}"] if first else []
    return [*words, *([f"--decoder-last-pipeline-num-layers {places // stages - last}"] if last else [])]


def _torchtitan_shards(request: "EstimateRequest") -> list[str]:
    """Of what is no full shard over all replicas, which is torchtitan's default."""
    layout, strategy = request.layout, request.setup.strategy
    if strategy == "fsdp-grad-op":
        return ["--parallelism.fsdp_reshard_after_forward=never"]
    if strategy not in ("ddp", "fsdp-hybrid"):
        return []
    replicas = layout.data if strategy == "ddp" else layout.nodes
    words = [f"--parallelism.data_parallel_replicate_degree={replicas}"]
    return [*words, f"--parallelism.data_parallel_shard_degree={layout.data // replicas}"]


def _torchtitan_sizes(way: "Way") -> list[str]:
    """How it cuts the model, and its batch: by names that all releases since 0.1 have."""
    one = way.estimate.request
    layout, setup = one.layout, one.setup
    words = [*_torchtitan_shards(one), f"--parallelism.tensor_parallel_degree={layout.tensor}"]
    words += [f"--parallelism.context_parallel_degree={layout.context}"] if layout.context > 1 else []
    words += [f"--parallelism.expert_parallel_degree={layout.expert}"] if layout.expert > 1 else []
    words.append(f"--training.local_batch_size={setup.batch_size} --training.seq_len={setup.sequence_length}")
    words.append(f"--training.global_batch_size={way.estimate.samples_per_step}")
    return words


def torchtitan_words(way: "Way", config: tuple[str, str] | None) -> str:
    """As version 0.3 takes them; activation checkpointing is a word of its own at the end."""
    setup = way.estimate.request.setup
    words = [f"--module {config[0]} --config {config[1]}"] if config else []
    words += _torchtitan_sizes(way)
    if setup.compiled is not None:  # some of its configurations compile, most do not
        words.append("--compile.enable" if setup.compiled else "--compile.no-enable")
    kept = "full" if setup.checkpointing else "selective" if setup.selective else "none"
    words.append(f"activation-checkpoint:{kept}")
    return " ".join(words)


def torchtitan_notes(dtype: str, config: tuple[str, str] | None, *, has_files: bool = False) -> tuple[str, ...]:
    """What no argument says: whether linear layers are in fp8, as those of Llama's 405B are by its configuration.

    ``has_files``: of a release before 0.3, which is told to have them so.
    """
    has_fp8 = config is not None and config[1] == _IN_FP8
    if (dtype == "fp8") == has_fp8 or (has_files and not has_fp8):
        return ()
    named = 'converters = ["float8"]' if has_files else "Float8LinearConverter"
    how = f"without {named}, which that configuration has" if has_fp8 else f"with {named} among its converters"
    return (f"torchtitan: {how}",)


def old_torchtitan_words(way: "Way", config: tuple[str, str] | None, release: tuple[int, ...]) -> str:
    """As releases before 0.3 take them (torchtitan/config/job_config.py of 0.2, config_manager.py of 0.1)."""
    setup, is_first = way.estimate.request.setup, release < (0, 2)
    has_file = config is not None and config[1] in _TOML and (not is_first or config[0] == "llama3")
    file = f"models/{config[0]}/train_configs/{_TOML[config[1]]}.toml" if config and has_file else ""
    words = [f"--job.config_file torchtitan/{file}" if file else "beside a file of your own (--job.config_file)"]
    words += _torchtitan_sizes(way)
    if setup.compiled is not None:
        group, name = ("training", "compile") if is_first else ("compile", "enable")
        words.append(f"--{group}.{'' if setup.compiled else 'no-'}{name}")
    kept = "full" if setup.checkpointing else "selective" if setup.selective else "none"
    if way.estimate.request.dtype == "fp8" and not (file and config and config[1] == _IN_FP8):
        words.append(f"--model.converters={'' if is_first else 'quantize.linear.'}float8")  # docs/float8.md
    words.append(f"--activation_checkpoint.mode={kept}")
    words += ["--activation_checkpoint.selective_ac_option=op"] if kept == "selective" else []
    return " ".join(words)


def _narrow(setup: "TrainingSetup") -> dict[str, bool]:
    """DeepSpeed's words for weights, gradients and moments in 16 bits."""
    weights = {"bf16_master_weights_and_grads": True} if setup.parameter_bytes < 4 else {}
    return weights | ({"bf16_optimizer_states": True} if setup.moment_bytes == 2 or weights else {})


def zero_lines(way: "Way") -> tuple[str, ...]:
    """DeepSpeed's file for one of its stages; none for another way."""
    one = way.estimate.request
    if not shards_as_deepspeed(one.setup):
        return ()
    mixed = "bf16" if one.dtype == "fp8" else one.dtype
    told = {
        "zero_optimization": {"stage": int(one.setup.strategy[-1])},
        **({mixed: {"enabled": True, **_narrow(one.setup)}} if mixed in ("bf16", "fp16") else {}),
        "train_micro_batch_size_per_gpu": one.setup.batch_size,
        "gradient_accumulation_steps": one.accumulation,
    }
    return (f"deepspeed, as {ZERO_FILE}: {json.dumps(told)}",)
