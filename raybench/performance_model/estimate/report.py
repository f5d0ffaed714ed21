"""An estimate as its document, with the formula of each figure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raybench.documents.estimate import (
    CommunicationEstimate,
    CostEstimate,
    EfficiencyRange,
    EstimateReport,
    MemoryParts,
    MessageVolume,
    ModelSize,
    OwnRunTold,
)
from raybench.performance_model.communication import Message
from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.unknown import advice_on, caveats_of, unsaid_of, unsaid_of_memory
from raybench.performance_model.request.own_runs import OwnRun, by_others
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import most_taken, what_is_taken
from raybench.performance_model.step.bounds import model_flops_per_token
from raybench.performance_model.step.update import one_thread_seconds

Pair = tuple[float, float] | None

# name -> the formula that a figure comes from; docs/methods.md, "Estimates", derives them
FORMULAS = {
    "parameters": "exact, by shape",
    "flops_per_token": "6 (N - lookups) + 12 layers heads head_size sequence; LoRA: 4 N + 6 N_lora + attention",
    "wire_bytes": "S 2(n-1)/n an all_reduce, S (n-1)/n an all_gather or reduce_scatter",
    "communication": "sum over collectives of latency + wire bytes / bandwidth",
    "memory": "parameters + gradients that stay + optimizer state + a step's fullest moment + fragmentation + context",
    "step": "compute = tokens x operations / (peak x efficiency); least hides what it can, most hides nothing",
    "mfu": "tokens/s x operations per token / (ranks x peak); scores that a causal mask drops count as well",
    "cost": "nodes x price x amount / rate",
}
_PRESSED = {"slowest step": "a quarter longer: blocks that wait for streams fill the GPU, are let go and taken anew"}
_OFFLOADED = "all cores of a node update; with one thread a rank, as torchrun starts it, {:.0f} s: set OMP_NUM_THREADS"
_SHOWN = (
    "up to {:.2f} GiB: gathered weights wait until their stream is through; PyTorch's allocator lets go of them before "
    "an allocation fails"
)
_BUBBLE = {"bubble": "(stages - 1) / (virtual stages x micro-batches) of computation and waiting"}


def estimate_report(estimate: Estimate) -> EstimateReport:
    """The estimate as its document: seconds, bytes, ranges of low and high, None where unknown."""
    request = estimate.request
    return EstimateReport(
        model=ModelSize(
            name=request.model.name,
            parameters=request.model.parameters,
            trainable_parameters=request.setup.trainable(request.model),
            flops_per_token=model_flops_per_token(request),
        ),
        world_size=request.layout.world_size,
        nodes=request.layout.nodes,
        strategy=request.setup.strategy,
        batch_size=request.setup.batch_size,
        sequence_length=request.setup.sequence_length,
        samples_per_step=estimate.samples_per_step,
        gpu=request.gpu.name if request.gpu else None,
        communication=_communication(estimate),
        memory=_memory(estimate),
        computation_seconds=estimate.computation_seconds,
        step_seconds=estimate.step_seconds,
        tokens_per_second=estimate.tokens_per_second,
        samples_per_second=_samples(estimate),
        mfu=estimate.mfu,
        efficiency=EfficiencyRange(range=estimate.step.efficiency_range, source=estimate.step.efficiency.source),
        cost=_cost(estimate),
        formulas=FORMULAS | (_BUBBLE if request.layout.pipeline > 1 else {}),
        basis=dict(request.basis)
        | dict(what_is_taken(request))
        | (_PRESSED if estimate.step.is_pressed else {})
        | _offloaded(request)
        | _shown_by_driver(estimate),
        unknown=estimate.unknown,
        data_parallel=request.layout.data,
        tensor_parallel=request.layout.tensor,
        pipeline_parallel=request.layout.pipeline,
        virtual_stages=request.layout.virtual_stages,
        context_parallel=request.layout.context,
        expert_parallel=request.layout.expert,
        pipeline_bubble_seconds=_bubble(estimate),
        advice=(*advice_on(request), *caveats_of(request)),
        not_said=_not_said(estimate) if estimate.step_seconds else (),
        counted_tokens_per_second=_counted(estimate),
        expert_tensor_parallel=request.layout.expert_cut,
        program=request.program.asked if request.program else None,
        taken=most_taken(request) or None,
        own_runs=own_runs_told(request.own_runs),
        epoch_samples=request.epoch_samples,
        epoch_seconds=_epoch(estimate),
    )


def _not_said(estimate: Estimate) -> tuple[str, ...]:
    request = estimate.request
    again = () if estimate.recomputed is None else ("--activation-checkpointing",)
    return (*again, *unsaid_of(request), *unsaid_of_memory(request))


def own_runs_told(runs: Sequence[OwnRun]) -> tuple[OwnRunTold, ...]:
    """Runs of one's own by which an estimate is corrected."""
    return tuple(
        OwnRunTold(
            text=one.text,
            step_seconds=one.seconds,
            told_seconds=one.told[0].seconds,
            is_odd=one.is_odd,
            by_others_seconds=otherwise,
        )
        for one, otherwise in zip(runs, by_others(runs), strict=True)
    )


def _offloaded(request: EstimateRequest) -> dict[str, str]:
    seconds = one_thread_seconds(request.model, request.setup, request.layout)
    return {"optimizer on the CPU": _OFFLOADED.format(seconds)} if seconds else {}


def _shown_by_driver(estimate: Estimate) -> dict[str, str]:
    """What nvidia-smi comes to show where that is more than is needed: shards are gathered on other streams."""
    setup, memory, limit = estimate.request.setup, estimate.memory, estimate.request.memory_bytes
    if limit is None or not estimate.fits or not setup.on_streams:
        return {}
    shown = memory.reserved_on_streams(limit) + memory.context
    return {"memory that nvidia-smi may show": _SHOWN.format(shown / 2**30)} if shown > estimate.peak else {}


def _memory(estimate: Estimate) -> MemoryParts:
    parts: dict[str, Any] = estimate.memory.parts() | {"peak": estimate.peak}
    fits, nearest = estimate.fits, None if estimate.fits else estimate.nearest
    batch = estimate.request.setup.batch_size
    largest = estimate.largest_batch  # estimated: said only where it does not contradict what was measured
    is_told = largest is not None and (fits is None or fits is (largest.sure >= batch))
    lean = largest if is_told and largest is not None and largest.lean > largest.sure else None
    return MemoryParts(
        **parts,
        fullest_moment=estimate.memory.fullest_moment,
        fullest_moment_bytes=estimate.memory.dynamic,
        device_bytes=estimate.request.memory_bytes,
        fits=fits,
        largest_batch_size=largest.sure if is_told and largest is not None else None,
        lean_batch_size=lean.lean if lean else None,
        lean_is=lean.lean_is if lean else "",
        least_peak=estimate.least_peak,
        least_needed=estimate.least_needed,
        experts_left_by=estimate.request.experts_left_by if fits is None else "",
        likely_peak=estimate.likely_peak,
        nearest_options=nearest.options if nearest else (),
        nearest_peak=nearest.run.peak if nearest else None,
        recomputed_peak=estimate.recomputed.peak if fits is None and estimate.recomputed else None,
        other_device_bytes=estimate.request.other_sizes if estimate.hangs_on_size else (),
    )


def _communication(estimate: Estimate) -> CommunicationEstimate:
    alone, fastest = estimate.communication_seconds, estimate.step.fastest
    return CommunicationEstimate(
        collectives_per_step=estimate.traffic.count,
        message_bytes=estimate.traffic.message_bytes,
        wire_bytes_per_rank=estimate.traffic.wire_bytes,
        seconds=alone,
        exposed_seconds=(fastest.exposed_least, alone) if fastest and alone is not None else None,
        messages=tuple(map(_message, estimate.traffic.messages)),
    )


def _message(message: Message) -> MessageVolume:
    return MessageVolume(
        operation=message.operation,
        phase=message.phase,
        message_bytes=message.message_bytes,
        count=message.count,
        ranks=message.group.ranks,
        nodes=message.group.nodes,
    )


def _cost(estimate: Estimate) -> CostEstimate | None:
    costs, price, samples = estimate.costs(), estimate.request.price, estimate.request.epoch_samples
    if costs is None or price is None:
        return None
    share = estimate.request.counted_share
    return CostEstimate(
        currency=price.currency,
        per_hour=costs[0].per_hour,
        per_1k_samples=tuple(cost.per_1k_samples for cost in costs),
        per_million_tokens=tuple(
            replace(cost, tokens_per_second=cost.tokens_per_second * share).per_million_tokens for cost in costs
        ),
        per_epoch=tuple(cost.per_epoch(samples * estimate.request.samples_share) for cost in costs)
        if samples
        else None,
        epoch_samples=samples,
        source=price.source,
    )


def _samples(estimate: Estimate) -> Pair:
    tokens, length = estimate.tokens_per_second, estimate.request.setup.sequence_length
    return None if tokens is None else (tokens[0] / length, tokens[1] / length)


def _epoch(estimate: Estimate) -> Pair:
    """Seconds of an epoch; of packed samples as many sequences as they fill."""
    samples, rates = estimate.request.epoch_samples, _samples(estimate)
    if samples is None or rates is None:
        return None
    sequences = samples * estimate.request.samples_share
    return sequences / rates[1], sequences / rates[0]


def _counted(estimate: Estimate) -> Pair:
    tokens, share = estimate.tokens_per_second, estimate.request.counted_share
    return None if tokens is None or share == 1 else (tokens[0] * share, tokens[1] * share)


def _bubble(estimate: Estimate) -> Pair:
    """What stages idle: of the shortest step no more than its share, where messages are faster than likely."""
    fastest, slowest, step = estimate.step.fastest, estimate.step.slowest, estimate.step_seconds
    if fastest is None or slowest is None or step is None or estimate.request.layout.pipeline == 1:
        return None
    return min(1.0, step[0] / fastest.least) * fastest.least_bubble, slowest.bubble
