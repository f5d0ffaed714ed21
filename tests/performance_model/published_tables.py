"""Published training runs in raybench's own columns (``published/others.csv``), as the estimate's requests."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from raybench.hardware.gpus import Gpu, gpu_for
from raybench.performance_model.estimate.heaviest import heaviest
from raybench.performance_model.estimate.request import EstimateRequest
from raybench.performance_model.layout import Layout, Network
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import FrozenInputs, Packing, TrainingSetup
from tests.performance_model.published_run import FOLDER, PublishedRun

_NVLINK_SHARE, _NIC_SHARE, _PCIE_GB_PER_S = 0.80, 0.92, 25.0
_KEEPING = (
    "zero1",
    "zero2",
    "zero3",
)  # whose gradients stay from step to step, as ``raybench estimate`` has them
_CUTS = ("tensor", "pipeline", "virtual_stages", "context", "expert")
# Share of the blocks whose forward pass is done twice.
_RECOMPUTED = {"none": 0.0, "full": 1.0, "every-second": 0.5, "every-third": 1 / 3, "selective": 0.0, "core_attn": 0.0}
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
# Of what no column has: experts over a packed base are of 2024, when they were linear layers, or above.
_SAID_OF_ALL = frozenset({"packs_experts"})
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
_PACKINGS: dict[str, Packing] = {"qlora-single": "nf4-single", "qlora-gptq": "gptq", "qlora-8bit": "8bit"}
_SAID = {"yes": True, "no": False}
_GPT = {"gated": False, "norm": "layer", "biases": True, "tied": True}
_FORMS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-tied": {"tied": True},
    "qwen": {"qkv_biases": True},
    "gelu": {"gated": False, "norm": "layer", "biases": True},
    "gelu-one-stream": {"gated": False, "norm": "layer", "biases": True, "parallel": True},
    "gpt-long": {**_GPT, "positions": 8192},
    "gpt-by-hand": {**_GPT, "tied": False, "positions": 1024, "drops": True, "formula_gelu": True},
    "gelu-parallel": {"gated": False, "norm": "layer", "biases": True, "norms_per_layer": 1},
    "gelu-parallel-bare": {"gated": False, "norm": "layer"},
    "gpt": {**_GPT, "positions": 2048},
    "gpt-1024": {**_GPT, "positions": 1024},
    "gpt-1024-dropped": {**_GPT, "positions": 1024, "drops": True},
    "gpt-dropped": {**_GPT, "positions": 2048, "drops": True},
    "gpt2-dropped": {**_GPT, "positions": 1024, "drops": True, "formula_gelu": True},
    "gptj": {"gated": False, "norm": "layer", "norms_per_layer": 1, "parallel": True, "formula_gelu": True},
    "gelu-tied": {"gated": False, "norm": "layer", "biases": True, "tied": True},
    "mpt": {"gated": False, "norm": "layer", "tied": True},
    "ungated": {"gated": False},
    "ungated-tied": {"gated": False, "tied": True},
    "ungated-norms": {"gated": False, "head_norms": True},
    "norms": {"head_norms": True},
    "norms-tied": {"head_norms": True, "tied": True},
    "norms-projection": {"head_norms": True, "head_norm_weights": "projection"},
    "gemma-2": {"norms_per_layer": 4},
    "gemma-2-tied": {"norms_per_layer": 4, "tied": True, "caps_scores": True, "caps_logits": True},
    "gpt-bare": {"gated": False, "norm": "layer", "tied": True, "positions": 2048},
    "llama-dropped": {"drops": True},
    "gpt-untied": {"gated": False, "norm": "layer", "biases": True, "positions": 2048},
    "gpt-untied-dropped": {"gated": False, "norm": "layer", "biases": True, "positions": 1024, "drops": True},
    "ungated-tied-positions": {"gated": False, "tied": True, "positions": 1024},
    "qwen-tied": {"qkv_biases": True, "tied": True},
    "megatron": {"tied": True, "biases": True, "positions": 8192, "drops": True},  # what its script does not name
    "megatron-untied": {"gated": False, "norm": "layer", "biases": True, "positions": 8192, "drops": True},
    "gpt-rotary-dropped": {**_GPT, "drops": True},
}


def other_runs() -> Iterator[PublishedRun]:
    """All rows, in order: of models that are whole, that may be cut, of memory alone, and as their sources ask them."""
    for name in ("others.csv", "cut.csv", "memory.csv", "unseen.csv", "blind_memory.csv"):
        yield from runs_of(FOLDER / name)


def runs_of(table: Path) -> Iterator[PublishedRun]:
    """The rows of a table."""
    models = _models()
    with table.open() as file:
        for row in csv.DictReader(file):
            yield _run(row, models[row["model"]])


def _models() -> dict[str, Transformer]:
    with (FOLDER / "models.csv").open() as file:
        return {row["name"]: _model(row) for row in csv.DictReader(file)}


def _model(row: dict[str, str]) -> Transformer:
    sizes = {name: int(row[name]) for name in row if name not in ("name", "form") and row[name]}
    return Transformer(name=row["name"], **sizes, **_FORMS[row["form"]])


def _run(row: dict[str, str], model: Transformer) -> PublishedRun:
    gpu = gpu_for(row["gpu"])
    ranks, rate = int(row["ranks"]), row["tokens_per_second_per_gpu"]
    memory, device = row["memory_gib"], row["device_gib"]
    return PublishedRun(
        name=" ".join(row[name] for name in ("model", "gpu", "ranks", "method", "sequence_length", "batch_size")),
        source=row["source"],
        request=EstimateRequest(
            model=model,
            setup=_setup(row),
            layout=Layout(
                world_size=ranks,
                ranks_per_node=min(ranks, int(row["ranks_per_node"])),
                **{name: int(row.get(name) or 1) for name in _CUTS},
            ),
            network=_network(gpu, row["fabric_gbit"]),
            dtype=row["dtype"] or "bf16",
            accumulation=int(row["accumulation"]),
            reduce_bytes=int(row["reduce_bytes"]),
            gpu=gpu,
            memory_bytes=int(float(device) * 2**30) if device else gpu.memory_bytes,
            said=_SAID_OF_ALL | ({"default_bucket"} if row["source"] in _of_auto_buckets() else frozenset()),
            kernels_known=bool(row["kernels"]),
            streams_known=bool(row["kernels"]),
            loss_known=bool(row["loss"]),
            power_watts=float(row["power_watts"]) if row["power_watts"] else None,
        ),
        parameters=model.parameters,
        tokens_per_second=float(rate) * ranks if rate else None,
        memory_bytes=float(memory) * 2**30 if memory else None,
        memory_is=row["memory_is"],
        fits=row["fits"] == "yes" if row["fits"] else None,
    )


def _network(gpu: Gpu, fabric_gbit: str) -> Network:
    within = gpu.board_gb_per_s or _PCIE_GB_PER_S
    fabric = _NIC_SHARE * float(fabric_gbit) / 8 if fabric_gbit else None
    return Network(node_gb_per_s=_NVLINK_SHARE * within, fabric_gb_per_s=fabric)


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


def _setup(row: dict[str, str]) -> TrainingSetup:
    share = _RECOMPUTED[row["checkpointing"]]
    setup = TrainingSetup(
        batch_size=int(row["batch_size"]),
        sequence_length=int(row["sequence_length"]),
        strategy=row["strategy"],  # type: ignore[arg-type]  # checked by the class
        optimizer=row["optimizer"].removesuffix("-fused"),  # type: ignore[arg-type]
        parameter_bytes=int(row["parameter_bytes"]),
        checkpointing=share > 0,
        recomputed_share=share or 1.0,
        recompute_modules=("core_attn",) if row["checkpointing"] == "core_attn" else (),
        selective=row["checkpointing"] == "selective",
        gradient_bytes=int(row["reduce_bytes"]),
        reduce_bytes=int(row["reduce_bytes"]),
        whole_gradients=row["gradients"] == "whole",
        optimizer_weights=row["weights"] == "optimizer",
        gradient_buffers=row["strategy"] == "zero1" and row["source"] in _of_megatron_core(),
        holds_inputs=_holds_inputs(row),
        frozen_inputs=_frozen_inputs(row["source"]),
        adapter_dropout=row["source"] in _WITH_DROPOUT,
        autocast=not (row["source"] in _WITHOUT_AUTOCAST and row["strategy"] == "ddp" and row["kernels"] != "fused"),
        graph_holds_weights=row["source"] in _WITHOUT_ZERO_INIT and row["strategy"] == "zero3",
        gathers_to_save=row["source"] in _GATHER_TO_SAVE,
        packs_experts=row["model"] not in _WITH_LOOSE_EXPERTS,
        default_bucket=row["source"] in _DEFAULT_BUCKETS and row["strategy"] == "zero3",
        bucket_times=_BUCKET_TIMES.get(row["source"], 1.0),
        dtensors=True if row["source"] in _DTENSORS else None,
        gathers_8bit=row["source"] in _GATHER_8BIT and row["dtype"] == "fp8",
        has_8bit_inner=row["source"] in _INNER_8BIT,
        keeps_outputs=row["source"] in _KEEP_OUTPUTS and row["strategy"] == "fsdp",
        base_bytes=4 if row["source"] in _WIDE_BASE else 0,
        joined_projections=row["source"] in _JOINED,
        masked_attention=True
        if row["source"] in _MASKED and row["kernels"] != "fused"
        else False
        if row["source"] in _NOT_MASKED
        else None,
        offload="none" if row["offload"] in ("", "activations") else row["offload"],  # type: ignore[arg-type]
        offloads_activations=row["offload"] == "activations",
        flash_attention=row["flash_attention"] == "yes",
        math_attention=row["source"] in _BY_MATH,
        fused_optimizer=row["optimizer"].endswith("-fused"),
        gradients_kept=int(row["accumulation"]) > 1 or (row["strategy"] in _KEEPING and int(row["ranks"]) > 1),
        lora_rank=int(row["lora_rank"] or 0),
        lora_targets=tuple(row["lora_targets"].split()),
        quantized=row["method"].startswith("qlora"),
        packing=_PACKINGS.get(row["method"], "nf4"),
        compute_bytes=int(row["compute_bytes"] or 2),
        native_attention=row["native_attention"] == "yes" if row["native_attention"] else None,
        compiled=row["compiled"] == "yes" if row["compiled"] else None,
        captured=True if row["source"] in _CAPTURED else None,
    )
    if row["kernels"] in ("plain", "fused"):
        setup = replace(setup, kernels=row["kernels"])  # type: ignore[arg-type]
    if row["kernels"] == "lean":
        setup = replace(setup, kernels="fused", keeps_least=True)
    if row["loss"]:
        setup = replace(setup, loss=row["loss"])  # type: ignore[arg-type]
    setup = heaviest(setup, kernels_known=bool(row["kernels"]), loss_known=bool(row["loss"]))
    return replace(
        setup,
        on_streams=setup.is_sharded and row["source"] not in _FSDP2,
        wide_scores=setup.wide_scores and not setup.math_attention,
        upcast=setup.upcast or (setup.quantized and row["source"] in _CAST_UP),
        sequence_parallel=_SAID.get(row.get("sequence_parallel", "")),
        overlaps=True if row["strategy"] == "zero1" and row["source"] in _overlap() and not row["lora_rank"] else None,
        moment_bytes=int(row.get("moment_bytes") or 0),
    )
