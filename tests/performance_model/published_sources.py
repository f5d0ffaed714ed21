"""What the program or the script of a published source has, of what no column of the tables says."""

import csv
from functools import cache
from typing import Any

from raybench.performance_model.setup.adapters import FrozenInputs
from tests.performance_model.published_run import FOLDER

# Of the adapters, as their scripts have it by default.
_WITH_DROPOUT = (
    "backpropagate",
    "MLPerf v5.0",
    "MLPerf v5.0 FP8_ACT",
    "LitGPT",
    "LitGPT threads",
    "ROCm-blogs",
    "fms-acceleration",
    "fsdp_qlora",
    "fsdp_qlora 2024-01",
    "VectorLM",
    "RTX 8000 LoRA sweep",
    *("FlagPerf", "GLM-4", "lit-llama", "universal-llm-trainer", "MLPerf v4.1", "DLRover ATorch"),
    *("Vertex OpenLLaMA", "llama-cookbook 41", "llama-cookbook 41 outputs kept", "alpaca-lora", "Chinese-Vicuna"),
    *("TRL 824", "llama-cookbook issue 835"),
)
_JOINED = ("LitGPT", "LitGPT threads", "lightning-thunder", "lit-llama", "MLPerf v5.0", "MLPerf v5.0 FP8_ACT")
# Under FSDP's first form with transformers' reentrant checkpointing, adapters wrapped on their own as peft does:
# the sources, and of which methods (PEFT's scripts take it for QLoRA only).
_HOLDS_INPUTS: dict[str, tuple[str, ...]] = {"fms-acceleration": ("lora", "qlora"), "PEFT": ("qlora",)}
# With bitsandbytes before 0.43.2 (July 2024); fsdp_qlora's scripts of January 2024 checkpointed without reentry.
_KEEP_FROZEN_INPUTS = (
    *("LitGPT", "LLaMA-Factory", "fsdp_qlora", "ROCm-blogs", "ms-swift"),
    *("Vertex OpenLLaMA", "TRL 824"),
)
_HOLD_FROZEN_INPUTS = ("fsdp_qlora 2024-01",)
# Sharded by fully_shard; all others by FullyShardedDataParallel or DeepSpeed.
_FSDP2 = (
    *("torchtitan", "torchao", "torchtune", "torchtune threads", "KempnerForge", "NeMo", "OLMo-core", "MaxText"),
    *("SmolLM3 FSDP2 blog", "prime-rl benchmarks"),
    *("cluster-bench", "AWS torchtitan", "torchtitan threads", "lightning-thunder threads", "pith-train thread"),
    *("prime-rl docs", "OLMo-core commits", "AMD MAD torchtune on MI350X", "torchtune README, optimization flags"),
    *("ezpz agpt-2b across machines", "TP benchmarking tool (Qwen3-32B, TP 8)", "IDRIS fine-tuning"),
    "TRL chunked loss",
    "torchtitan pulls of 2024 and 2025",
)
# Whose configurations have layers captured as CUDA graphs.
_CAPTURED = (
    "MLPerf v5 by CUDA graphs",
    *(f"MLPerf v5.1 8B {name}" for name in ("Florida", "HPE", "Oracle", "Verda")),
)
# Over tensor ranks by PyTorch's DTensor, whose tables say DDP: its strategies but DeepSpeed's.
_DTENSORS = ("TP benchmarking tool (Qwen3-32B, TP 8)",)
# Quantized bases that are prepared by peft, which casts what is not packed to fp32 (prepare_model_for_kbit_training).
_CAST_UP = ("Vertex OpenLLaMA", "TRL 824", "alpaca-lora", "Chinese-Vicuna", "backpropagate")
# A base that was loaded without a type, and sharded in fp32.
_WIDE_BASE = ("llama-recipes on RTX 3090", "llama-cookbook 41", "llama-cookbook 41 outputs kept")
# Loops of their own over transformers' model, which does not know that its blocks are computed again.
_KEEP_OUTPUTS = ("DLRover ATorch", "llama-cookbook 41 outputs kept")
# Models that were made before DeepSpeed was told of them: the script says so, and of the first its memory.
# In fp8 those whose weights are gathered in it, as their thread says.
_DEFAULT_BUCKETS = ("gpjt liger",)  # its ds_config.json names no size
_BUCKET_TIMES = {"DeepSpeed threads": 4.5}  # of DeepSpeed 0.3, October 2020
_GATHER_TO_SAVE = ("FastChat 693",)  # transformers 4.28
_WITH_LOOSE_EXPERTS = ("dbrx",)  # no linear layers, which bitsandbytes packs alone
_INNER_8BIT = ("MLPerf v5.0 FP8_ACT",)  # FP8_ACT=1 of its configurations: activation_func_fp8_input_store
_GATHER_8BIT = ("lightning-thunder threads",)
_WITHOUT_ZERO_INIT = ("chenyaofo", "gpjt", "gpjt liger")
# transformers from 4.40.0 (April 2024) to the summer gave sdpa a mask whether a sample was padded or not.
# From 4.53 (June 2025) until 5 it does where a loop of its own gives it none, without a cache: it looks there for
# packed samples, and finds one (src/transformers/masking_utils.py, find_packed_sequence_indices).
# The last two replace samples that are padded by random tokens and leave their mask, and pad to the full length.
_MASKED = (
    *("chenyaofo", "gpjt", "gpjt liger", "SmolLM3 FSDP2 blog"),
    *("universal-llm-trainer", "unsloth-lora-bench", "IDRIS fine-tuning"),
)
# Loops of their own that train adapters, in fp32 as peft makes them, over a base in 16 bits without autocast.
_WITHOUT_AUTOCAST = (
    *("universal-llm-trainer", "unsloth-lora-bench", "llama-cookbook issue 835"),
    "RTX 8000 LoRA sweep",
)
# PyTorch's attention of heads that share keys, on Turing: its math kernel.
_BY_MATH = ("RTX 8000 LoRA sweep",)
# By their scripts (examples/llama/train_llama3_8b_h100_fp8.sh; model_config.yaml of each functional test).
_OVERLAPPED = ("Megatron-LM examples", "Megatron-LM golden values")
_NOT_MASKED = ("LLaMA-Factory", "fms-acceleration")  # by flash-attn, which takes lengths


def by_source(row: dict[str, str]) -> dict[str, Any]:
    """What its source's program or script has, of what no column says."""
    return {
        "gradient_buffers": row["strategy"] == "zero1" and row["source"] in _of_megatron_core(),
        "holds_inputs": _holds_inputs(row),
        "frozen_inputs": _frozen_inputs(row["source"]),
        "adapter_dropout": row["source"] in _WITH_DROPOUT,
        "autocast": not (row["source"] in _WITHOUT_AUTOCAST and row["strategy"] == "ddp" and row["kernels"] != "fused"),
        "graph_holds_weights": row["source"] in _WITHOUT_ZERO_INIT and row["strategy"] == "zero3",
        "gathers_to_save": row["source"] in _GATHER_TO_SAVE,
        "packs_experts": row["model"] not in _WITH_LOOSE_EXPERTS,
        "default_bucket": row["source"] in _DEFAULT_BUCKETS and row["strategy"] == "zero3",
        "bucket_times": _BUCKET_TIMES.get(row["source"], 1.0),
        "dtensors": True if row["source"] in _DTENSORS else None,
        "gathers_8bit": row["source"] in _GATHER_8BIT and row["dtype"] == "fp8",
        "has_8bit_inner": row["source"] in _INNER_8BIT,
        "keeps_outputs": row["source"] in _KEEP_OUTPUTS and row["strategy"] == "fsdp",
        "base_bytes": 4 if row["source"] in _WIDE_BASE else 0,
        "joined_projections": row["source"] in _JOINED,
        "masked_attention": True
        if row["source"] in _MASKED and row["kernels"] != "fused"
        else False
        if row["source"] in _NOT_MASKED
        else None,
        "math_attention": row["source"] in _BY_MATH,
        "captured": True if row["source"] in _CAPTURED else None,
    }


def is_fsdp2(source: str) -> bool:
    """Whether its shards are those of fully_shard."""
    return source in _FSDP2


def is_cast_up(source: str) -> bool:
    """Whether what a quantized base does not pack is cast to fp32."""
    return source in _CAST_UP


def overlaps(source: str) -> bool:
    """Whether its program is told to send gradients and weights beside computation."""
    return source in _overlap()


def is_of_auto_buckets(source: str) -> bool:
    """Whether its program has transformers set the size of ZeRO-3's buckets."""
    return source in _of_auto_buckets()


@cache
def _of_megatron_core() -> frozenset[str]:
    """Sources whose program is Megatron-LM or Megatron-Bridge."""
    with (FOLDER / "programs.csv").open() as file:
        rows = csv.DictReader(file)
        return frozenset(row["source"] for row in rows if row["program"] in ("megatron-lm", "megatron-bridge"))


@cache
def _of_auto_buckets() -> frozenset[str]:
    """Sources whose program has transformers set the size of ZeRO-3's buckets."""
    with (FOLDER / "programs.csv").open() as file:
        rows = csv.DictReader(file)
        return frozenset(row["source"] for row in rows if row["program"] in ("llama-factory", "axolotl", "ms-swift"))


@cache
def _overlap() -> frozenset[str]:
    """Sources whose program is told to send gradients and weights beside computation.

    Those of Megatron-Bridge and NeMo, by their recipes, and of Megatron-LM by the scripts that they name.
    """
    with (FOLDER / "programs.csv").open() as file:
        bridges = [row["source"] for row in csv.DictReader(file) if row["program"] == "megatron-bridge"]
    return frozenset((*bridges, *_OVERLAPPED))


def _holds_inputs(row: dict[str, str]) -> bool:
    methods = _HOLDS_INPUTS.get(row["source"], ())
    checkpoints = row["strategy"] == "fsdp" and row["checkpointing"] == "full"
    return checkpoints and row["method"].startswith(methods)  # nothing starts with an empty tuple


def _frozen_inputs(source: str) -> FrozenInputs:
    if source in _HOLD_FROZEN_INPUTS:
        return "held"
    return "kept" if source in _KEEP_FROZEN_INPUTS else "dropped"
