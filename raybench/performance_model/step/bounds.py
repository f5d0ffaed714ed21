"""Bounds of a step's time: the fastest and the slowest computation, with the communication beside it."""

from dataclasses import replace

from raybench.performance_model.communication import StepSeconds, Traffic, step_seconds
from raybench.performance_model.layout import Network
from raybench.performance_model.parallel.part import bubble_share, local_setup, part_of, stage_imbalance
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import Efficiency, expected_efficiency
from raybench.performance_model.step.links import networks_of
from raybench.performance_model.step.offload import offload_seconds
from raybench.performance_model.step.spreads import is_overlapped, sends_after
from raybench.performance_model.step.work import attention_again, products_again

# How much faster fp8 makes matrix products, with the casts around them, where shares of the 16-bit peak are given:
# torchtitan with torchao's float8 about 1.4 (Llama 3.1 8B), Transformer Engine up to 1.9; the peaks' ratio is 2.
FP8_GAINS = (1.3, 1.9)


def peak_tflops(request: EstimateRequest) -> float | None:
    """The GPU's peak for the type; for fp8 that of bf16, to which ``FP8_GAINS`` apply. None: no GPU, or no units."""
    if request.gpu is None or request.gpu.peak_tflops(request.dtype) is None:
        return None
    return request.gpu.peak_tflops("bf16" if request.dtype == "fp8" else request.dtype)


def model_flops_per_token(request: EstimateRequest) -> float:
    """Operations of the model per token, without recomputation, as MFU counts them."""
    model, setup = request.model, request.setup
    if setup.lora_rank:
        return model.lora_flops_per_token(setup.sequence_length, setup.lora_rank, setup.lora_targets)
    return model.flops_per_token(setup.sequence_length)


def computation_of(request: EstimateRequest) -> Efficiency:
    """The efficiency of the computation: as given, or as published trainings of such a size reach."""
    if request.efficiency is not None:
        return request.efficiency
    layout = request.layout
    part, setup = part_of(request.model, layout), local_setup(request.setup, layout)
    return expected_efficiency(
        request.gpu,
        part,
        setup,
        power_watts=request.power_watts,
        dtype=request.dtype,
        timing=request.program.timing if request.program else request.timing,
    )


def step_bounds(
    request: EstimateRequest, traffic: Traffic, peak_tflops: float | None
) -> tuple[StepSeconds | None, StepSeconds | None]:
    """The step with the fastest computation and links, and with the slowest."""
    networks = networks_of(request)
    if peak_tflops is None or networks is None:
        return None, None
    return _steps(request, traffic, peak_tflops, networks)


def fitted_steps(
    request: EstimateRequest, traffic: Traffic, peak_tflops: float | None
) -> tuple[tuple[StepSeconds, StepSeconds], ...]:
    """The step with computation as fast as the fit has it, once for each network that it may have.

    Each pair has the fewest operations and the most. Empty where nothing is known of the links or the peak.
    """
    networks = networks_of(request)
    if peak_tflops is None or networks is None:
        return ()
    middle = replace(request, efficiency=computation_of(request).middle)
    return tuple(_steps(middle, traffic, peak_tflops, (network, network)) for network in dict.fromkeys(networks))


def _steps(
    request: EstimateRequest, traffic: Traffic, peak_tflops: float, networks: tuple[Network, Network]
) -> tuple[StepSeconds, StepSeconds]:
    least, most = peak_seconds(request, peak_tflops)
    efficiency = computation_of(request)
    moved = offload_seconds(request)  # beside the computation, or before and after it
    work = max(efficiency.micro_batch_seconds(least)[0], moved), efficiency.micro_batch_seconds(most)[1] + moved
    share, times = forward_share(request.setup), request.accumulation
    bubble = bubble_share(request.layout, times)
    beside, after = beside_share(request), sends_after(request.setup)
    shortest, longest = (
        step_seconds(one * times, traffic, network, forward_share=share, bubble=bubble, beside=beside, after=after)
        for one, network in zip(work, networks, strict=True)
    )
    return shortest, longest


def beside_share(request: EstimateRequest) -> float:
    """Share of each pass beside which a program sends for sure what it may: that of the last micro-batch, if told to.

    Gradients are added up until then, and weights are gathered once (Megatron-LM, core/distributed).
    """
    return 1 / request.accumulation if is_overlapped(request.setup) else 0.0


def peak_seconds(request: EstimateRequest, peak_tflops: float) -> tuple[float, float]:
    """Seconds of a micro-batch's operations at the peak: of the fewest, and of the most on the rank with most."""
    layout, setup = request.layout, local_setup(request.setup, request.layout)
    least, most = (
        setup.tokens * flops / layout.cut_of_a_token / (peak_tflops * 1e12)
        for flops in _executed_flops_per_token(request)
    )
    return least, most * stage_imbalance(request.model, layout)


def _executed_flops_per_token(request: EstimateRequest) -> tuple[float, float]:
    """Operations per token that are executed, recomputation included: fewest and most.

    In fp8, with an efficiency that does not include its gain, as many as would take as long in bf16. When a sequence is
    cut over c ranks, the causal mask gives the last one (2 c - 1) / c times the average attention, unless the parts are
    balanced (Brandon et al. 2023): Megatron-LM and NeMo do so (a cut sequence with fused kernels), and some programs.
    """
    model, setup, length = request.model, request.setup, request.setup.sequence_length
    share = setup.recomputed_share if setup.checkpointing else 1.0
    again = model.hardware_flops_per_token(length, recompute=share) - model.flops_per_token(length)
    attention = model.attention_flops_per_token(length)
    if not setup.checkpointing:
        again = (again - attention / 3) * products_again(model, setup) + attention_again(setup) * attention / 3
    flops = model_flops_per_token(request) + again
    attended = attention * (1 + attention_again(setup) / 3)
    gains = FP8_GAINS if request.dtype == "fp8" and not computation_of(request).in_fp8 else (1.0, 1.0)
    deals = setup.kernels == "fused" or (request.program is not None and request.program.deals_sequences)
    ranks = 1 if deals else request.layout.context
    products = flops - attended
    return attended + products / gains[1], attended * (2 * ranks - 1) / ranks + products / gains[0]


def forward_share(setup: TrainingSetup) -> float:
    """The forward pass's share of the computation: 2 of 6 operations per weight, 2 of 4 with a frozen base.

    Recomputation adds 2 to the backward pass.
    """
    return 2 / ((4 if setup.lora_rank else 6) + 2 * setup.recomputed)
