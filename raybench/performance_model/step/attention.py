"""What attention takes by the kernel that computes it: instructions of the GPU's own or an older one's, and masks."""

from raybench.hardware.gpus import Gpu
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

# FlashAttention-2 has 70 % of an A100's peak and 35 % of an H100's (Shah et al. 2024, FlashAttention-3, section 1): its
# instructions are Ampere's. Hoppers and AMD's of such a peak have the same gap; data-centre Blackwells run them no
# faster than an H100: Qwen3 4B by FlashAttention-2 on eight B200 (github.com/PrimeIntellect-ai/prime-rl, BENCHMARKS.md)
# has 66,040 and 26,390 tokens/s with 16,384 and 65,536 tokens, which is 318 TFLOP/s in attention alone; an H100 has 292
# by the fit.
# Where nobody says whose instructions a kernel uses (FlashAttention-3's, cuDNN's and Transformer Engine's are the GPU's
# own), its time is between the two.
AMPERE_INSTRUCTIONS_SHARE = 0.5
_HOPPER_TFLOPS, _BLACKWELLS = 989.4, ("B200", "B300", "GB200", "GB300")
FASTEST_WITHOUT_GAP_TFLOPS = 400.0
# How much longer than FlashAttention-2 for each score PyTorch's memory-efficient kernel takes, which is the one that
# takes a mask (and skips no scores). Mistral-7B by LoRA had 3247 and 2483 tokens/s without and with one at 4096 tokens,
# 3083 and 1918 at 8192 (github.com/huggingface/transformers, issue 30461): 2.62 times at both lengths. In fp32 it is
# the kernel without a mask as well (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: flash takes 16 bits alone).
_MASKED_TIMES = 2.62
# GPUs on which PyTorch asks cuDNN first, which takes a mask in 16 bits and has their own instructions: in its 2.9.0, in
# NVIDIA's containers of that time, and from 2.11 on, whose wheels have cuDNN 9.15.1 (the same file,
# check_prefer_cudnn_attention; pytorch/pytorch pull request 162073, huggingface/transformers 48163). On a B200 the
# other kernel takes 20 times as long (unslothai/unsloth pull request 8021). Qwen2.5 of 14B and 32B on 64 GB200, all
# samples with a mask, in a container of September 2025 (github.com/idriscnrs/Democratizing-LLM-FT, logs/out) takes 0.53
# to 0.57 of the step with the other kernel by the fit, 72B on 64 H100 0.78 to 0.82.
_BY_CUDNN = frozenset({"H100", "H800", "H200", "GH200", "B100", "B200", "B300", "GB200", "GB300"})
_LOSSES_OF_TRANSFORMERS = (
    "transformers",
    "transformers-whole",
    "transformers-kept",
    "narrow",
    "fused-fp32",
    "chunked-fp32",
)
CAUSAL_SHARE = 0.5  # of the scores, where blocks that the mask drops are skipped


def is_before_flash(gpu: Gpu | None) -> bool:
    """Whether a GPU is older than FlashAttention-2 and PyTorch's kernel of it: those without units for bf16.

    Both need Ampere (sm80 in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
    """
    return gpu is not None and gpu.peak_tflops("bf16") is None


def older_share(gpu: Gpu, peak: float) -> float | None:
    """Of a GPU's peak, TFLOP/s, what Ampere's instructions have; None where they are its own."""
    if peak <= FASTEST_WITHOUT_GAP_TFLOPS:
        return None
    is_newer = gpu.name.startswith(_BLACKWELLS)
    return AMPERE_INSTRUCTIONS_SHARE * (_HOPPER_TFLOPS / peak if is_newer else 1.0)


def masks_natively(gpu: Gpu, setup: TrainingSetup) -> bool:
    """Whether attention with a mask may be by the GPU's own instructions: where cuDNN is asked first, in 16 bits."""
    return gpu.name.split()[0] in _BY_CUDNN and setup.compute_bytes < FP32_BYTES


def is_by_older_instructions(gpu: Gpu, setup: TrainingSetup) -> bool:
    """Whether no kernel for its attention has a newer GPU's own instructions."""
    is_masked = bool(setup.masked_attention) and not masks_natively(gpu, setup)
    return setup.whole_attention or is_masked or not setup.flash_attention


def attention_times(gpu: Gpu, setup: TrainingSetup, older: float | None) -> tuple[float, float]:
    """How often the time of attention by a GPU's own instructions it takes, and how much of that is not known.

    ``older``: the share of the peak that Ampere's instructions have, where they are not its own.
    """
    masked = _masked_times(setup) if setup.masked_attention else 1.0
    if older is None:
        return masked, 0.0
    slowest = masked / older
    if is_by_older_instructions(gpu, setup):
        return slowest, 0.0
    if setup.native_attention is None:
        return (1 + slowest) / 2, (slowest - 1) / 2
    return (1.0 if setup.native_attention else slowest), 0.0


def _masked_times(setup: TrainingSetup) -> float:
    return _MASKED_TIMES if setup.compute_bytes < FP32_BYTES else 1.0


def may_be_masked(setup: TrainingSetup) -> bool:
    """Whether samples of a micro-batch may be padded to one length, and attention be given a mask for it.

    As transformers does where it is PyTorch's attention, of several samples that are not packed; nothing says which.
    """
    theirs = setup.kernels == "plain" and setup.loss in _LOSSES_OF_TRANSFORMERS
    is_fixed = setup.whole_attention or not setup.flash_attention or bool(setup.compiled)
    return theirs and setup.batch_size > 1 and not is_fixed and setup.masked_attention is None


def masked_more(gpu: Gpu, setup: TrainingSetup, older: float | None, slow: float) -> float:
    """How often more the time of attention one with a mask takes: of all scores, by the kernel that takes one."""
    if not may_be_masked(setup):
        return 0.0
    by_cudnn = older is not None and bool(setup.native_attention) and masks_natively(gpu, setup)
    times = 1.0 if by_cudnn else _masked_times(setup) / (older or 1.0)
    return times / CAUSAL_SHARE - slow
