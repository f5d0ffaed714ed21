"""Kernel launches of one micro-batch: how many blocks' worth a host has to start, in units of a dense block's.

Pure arithmetic over shapes. The host runs ahead of the GPU, so that a step takes as long as the longer of both
(``efficiency.py``, which has the seconds of one block's launches).
"""

from dataclasses import dataclass

from raybench.hardware.gpus import Gpu
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import ModelPart
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.spreads import TURING_GEFORCE

# Kernels of an eager block, forward and backward: those of a Llama by transformers, in whose units launches are.
# GPT-2's with flash attention has 57, or 99 with weights that autocast casts; a course's transformer, with norms,
# rotation and scores step by step, 167.
_USUAL_KERNELS = 125
_NORM_STEPS, _ROTATION_STEPS = 6, 5  # kernels of an RMSNorm, and of a rotation of q or of k, where each step is one
_SCORE_STEPS, _GELU_STEPS = 6, 8  # of stored scores: products, scale, mask, softmax, cast; of a formula
# Of an eager block that are left where a compiler fuses them. A course's block, of four samples of 128 tokens, takes
# 0.45 of the time forward and 0.65 forward and backward (github.com/damek/cs336-assignment2-systems,
# outputs/csv/2025-08-25_table1.1.2_compile.csv).
COMPILED_STARTS = 0.5
# Kernel launches of a block with experts, in units of a dense block's: routing, permutation, exchange over ranks and
# grouped products. Small micro-batches are slow however few operations they have: with 2.5 times the launches the
# middle of the bounds is nearest to 60 published trainings (tests/performance_model/parallel/experts_fit.py), 20 % off
# in the mean. Of 137 with those below beside it, 2 to 3 times is as near.
_EXPERTS_STARTS = 2.5
# Kernels more of such a block, forward and backward, as transformers' code of DeepSeek-V3 starts them and Qwen3's does
# not (a test counts them): of latent attention; of an expert for all tokens, with the sum of both; of a router that
# sorts scores with a bias, by groups, as the families have it that took over DeepSeek-V3's.
LATENT_KERNELS, SHARED_KERNELS, SORTING_KERNELS = 25, 22, 19
_SORTING = ("deepseek_v3", "kimi_k2", "glm4_moe", "glm4_moe_lite", "dots1")
# The share of those that is left where attention and routing are captured as CUDA graphs, as Megatron-Bridge's recipes
# do on GB200 and GB300 (src/megatron/bridge/perf_recipes/qwen/gb200/qwen3_moe.py, cuda_graph_scope): with it, its 18
# published trainings on them are nearest to the middle. The same of dense models where somebody says so:
# three of MLPerf's LoRA of Llama 2 70B (Oracle's of v5.0 on four GB200 and 64 B200, Cisco's of v5.1 on 64 H100, whose
# configurations have LAYER_CUDA_GRAPH=1) take 0.93, 0.70 and 0.93 of the middle with it, 0.65, 0.46 and 0.74 without.
_GRAPHED, _GRAPHED_SHARE = ("GB200", "GB300"), 0.15
# The same of a dense block whose ranks share each layer, start collectives in it and wait for each other's: of the fits
# with 1, 1.25, 1.5 and 2 the second is nearest to the 57 published rows of 15 sources, and to all others. A stage of a
# pipeline starts no more than a whole model (gdGPT's, of four layers, were told 1.2 to 1.6 times as long with 1.25).
_CUT_STARTS = 1.25
# The same where tensor ranks' tensors are PyTorch's DTensor's and no compiler runs before: each operation is dispatched
# in Python. One takes 0.34 ms (aten.addmm in 2023: pytorch/pytorch pull request 107305) down to 0.1 (2025: 159699,
# 166371), and a block of torchtitan's has some 130, forward and backward: seven products with their views and
# transposes, and two or four norms. Qwen3 32B over eight H100, one sample of 2048 (github.com/tohtana/benchmark_tp,
# README.md) takes 829 ms by DeepSpeed's AutoTP, 1354 by DTensor over transformers' model and 2028 by torchtitan: four
# and six times a dense block's.
_DTENSOR_STARTS = 5.0
# How long a host takes to launch a kernel, in units of one with A100. The cores of nodes with V100, T4 and older GPUs
# (Broadwell, Skylake) are slower than those of nodes with A100 (Rome), those of nodes with Hopper, Ada and Blackwell
# (Sapphire Rapids, Genoa) are faster, and so is the PyTorch of their years. With these factors the mean error of
# sources that are left out falls from 15.4 to 14.2 %, of families from 15.8 to 14.8; 1.5 on V100, or 0.6 on Hopper, is
# as good. AMD's: as with A100. Grace, NVIDIA's own CPU, is slower: of one model by one program in two layouts a layer
# takes 2.3 ms more than its operations on an H100 and 4.6 ms on GB200 (Megatron-LM, gpt3_7b_tp1_pp4_memory_speed and
# gpt3_7b_tp4_pp1_memory_speed). With 1.4 the mean error of six sources on GH200 and GB200 falls from 36 to 24 %; of one
# of them, a loop of its own (lai-proj), it rises.
_HOST_TIMES = {
    **dict.fromkeys(("P100", "V100", "V100S", "T4", "Quadro", "TITAN", *TURING_GEFORCE), 2.0),
    **dict.fromkeys(
        (
            *("L4", "L40", "L20", "L40S", "RTX 4080", "RTX 4080 SUPER", "RTX 4090", "RTX 4090 D", "RTX 5080"),
            *("RTX 4070", "RTX 4070 SUPER", "RTX 4070 Ti", "RTX 4070 Ti SUPER", "RTX 5070", "RTX 5070 Ti"),
            *("RTX 5090", "RTX 4000 Ada", "RTX 4500 Ada", "RTX 5000 Ada", "RTX 6000 Ada"),
            *("RTX PRO 6000 Blackwell", "RTX PRO 6000 Blackwell Server", "RTX PRO 6000 Blackwell Max-Q"),
        ),
        0.7,
    ),
    **dict.fromkeys(("H100", "H800", "H20", "H20-3e", "H200", "B100", "B200", "B300"), 0.7),
    **dict.fromkeys(("GH200", "GB200", "GB300"), 1.4),
}
# Kernel launches under DeepSpeed's ZeRO-3, whose hooks run before and after each module, in units of those without.
# Five published trainings of short sequences (Qwen), where launches take most of the time, take 1.3 to 1.9 times as
# long.
_HOOKED_STARTS = 2.0
# With one rank the hooks gather nothing (deepspeed/runtime/zero/partition_parameters.py, _no_gather_coalesced): two
# trainings of Qwen1.5-0.5B on an RTX 3090 (gpjt/fine-tune-2024-04) take 0.85 and 0.75 of the middle without any hooks.
_HOOKED_ALONE_STARTS = 1.25
# With a frozen base a backward pass launches neither the products of weights' gradients nor what adds them up: of some
# 110 kernels of an eager block of seven linear layers, forward and backward, 7 products, 9 sums and 4 of norms.
# Qwen's LoRA of 256 to 1024 tokens took 0.57 to 0.67 of what it was told without this.
_FROZEN_STARTS = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Blocks and layers with an adapter whose kernels are launched, in units of a dense one's on a usual host."""

    blocks: float
    adapted: float
    may_be_dispatched: float = 0.0  # blocks more, where DTensor may dispatch tensor ranks' operations
    is_dispatched: bool = False  # DTensor dispatches tensor ranks' operations
    is_fused: bool = False  # by a compiler, and counted so


def starts_of(gpu: Gpu, model: Transformer, setup: TrainingSetup, again: float) -> Starts:
    """Of one micro-batch. ``again``: the share of the forward pass that is done twice; a third of all is forward."""
    started = _HOST_TIMES.get(gpu.name, _HOST_TIMES.get(gpu.name.split()[0], 1.0)) * (1 + again / 3)
    dispatched = setup.has_dtensors if isinstance(model, ModelPart) and model.tensor_ranks > 1 else False
    without, with_it = (started * _blocks(gpu, model, setup, is_dispatched=said) for said in (False, True))
    targets = len(setup.lora_targets or model.linears()) if setup.lora_rank else 0
    left = _GRAPHED_SHARE if setup.captured else 1.0
    return Starts(
        blocks=with_it if dispatched else without,
        adapted=started * left * model.layers * targets,
        may_be_dispatched=with_it - without if dispatched is None else 0.0,
        is_dispatched=bool(dispatched),
        is_fused=bool(setup.compiled) and _has_no_hooks(model, setup),
    )


def _has_no_hooks(model: Transformer, setup: TrainingSetup) -> bool:
    """Whether nothing but the kernels of its blocks is started: alone or as replicas, whole, in plain PyTorch.

    Hooks of FSDP and ZeRO gather and reduce around each block, modules of fused kernels keep scales and buffers of
    their own, and ranks that share a layer or stages of a pipeline start sends and collectives: there the kernels are
    not what takes the time. A compiler leaves no such modules.
    """
    is_plain = setup.kernels == "plain" or bool(setup.compiled)
    return setup.strategy == "ddp" and is_plain and not isinstance(model, ModelPart) and not model.experts


def _kernels(model: Transformer, setup: TrainingSetup) -> float:
    """Of one eager block, forward and backward.

    Each linear layer has two products backward, each other kernel about two, and the gradients of weights are added up.
    """
    linears = len(model.linears())
    norms = (model.norms_per_layer + 2 * model.head_norms) * (_NORM_STEPS if model.norm == "rms" else 1)
    rotation = 0 if model.positions else 2 * _ROTATION_STEPS
    attention = (1 if setup.flash_attention else _SCORE_STEPS) + 3  # and what lays heads side by side
    activation = (_GELU_STEPS if model.formula_gelu else 1) + model.gated
    casts = (2 if model.biases else 1) * linears + 2 if setup.casts_weights else 0
    dropped = 3 if model.drops else 0
    forward = linears + norms + rotation + attention + activation + casts + dropped + 2  # two residual sums
    return 3 * forward + 2 * linears


def _blocks(gpu: Gpu, model: Transformer, setup: TrainingSetup, *, is_dispatched: bool) -> float:
    """Blocks whose kernels are started, in units of a dense one's."""
    is_shared = isinstance(model, ModelPart) and model.cuts_layers
    dense = _DTENSOR_STARTS if is_dispatched else _CUT_STARTS if is_shared else 1.0
    if _has_no_hooks(model, setup):
        dense = COMPILED_STARTS if setup.compiled else _kernels(model, setup) / _USUAL_KERNELS
    if setup.strategy == "zero3":
        dense *= _HOOKED_ALONE_STARTS if setup.gathers_nothing else _HOOKED_STARTS
    if setup.lora_rank:
        dense *= _FROZEN_STARTS
    dense *= _GRAPHED_SHARE if setup.captured else 1.0
    left = _GRAPHED_SHARE if captures_experts(gpu, setup) else 1.0
    experts = (_EXPERTS_STARTS + _more_kernels(model) / _USUAL_KERNELS) * left
    return sum(kind.layers * (experts if kind.experts else dense) for kind in model.kinds())


def captures_experts(gpu: Gpu, setup: TrainingSetup) -> bool:
    """Whether attention and routing of blocks with experts are taken to be captured as CUDA graphs."""
    return gpu.name in _GRAPHED and setup.kernels == "fused" if setup.captured is None else setup.captured


def _more_kernels(model: Transformer) -> int:
    """Of a block with experts, beside those of one with usual attention and nothing but a softmax of scores."""
    latent = LATENT_KERNELS if model.key_value_rank else 0
    shared = SHARED_KERNELS if model.shared_feedforward else 0
    return latent + shared + (SORTING_KERNELS if model.family in _SORTING else 0)
