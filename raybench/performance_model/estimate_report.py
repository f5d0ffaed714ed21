"""An estimate as its document and as lines of text, each figure with its formula."""

from collections.abc import Iterator
from typing import Any

from raybench.documents.estimate import (
    CommunicationEstimate,
    CostEstimate,
    EfficiencyRange,
    EstimateReport,
    MemoryParts,
    MessageVolume,
    ModelSize,
)
from raybench.performance_model.communication import Message
from raybench.performance_model.cost import Cost
from raybench.performance_model.estimate import Estimate, model_flops_per_token
from raybench.units import format_seconds

Pair = tuple[float, float] | None

# name -> the formula that a figure comes from; docs/methods.md, "Estimates", derives them
FORMULAS = {
    "parameters": "exact, by shape",
    "flops_per_token": "6 (N - lookups) + 12 layers heads head_size sequence; LoRA: 4 N + 6 N_lora + attention",
    "wire_bytes": "S 2(n-1)/n an all_reduce, S (n-1)/n an all_gather or reduce_scatter",
    "communication": "sum over collectives of latency + wire bytes / bandwidth",
    "memory": "parameters + gradients + optimizer state + the fullest moment of a step + 5 % of it + context",
    "step": "compute = tokens x operations / (peak x efficiency); least hides what it can, most hides nothing",
    "mfu": "tokens/s x operations per token / (ranks x peak)",
    "cost": "nodes x price x amount / rate",
}


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
        step_seconds=estimate.step_seconds,
        tokens_per_second=estimate.tokens_per_second,
        samples_per_second=_samples(estimate),
        mfu=estimate.mfu,
        efficiency=EfficiencyRange(range=request.efficiency, source=request.efficiency_source),
        cost=_cost(estimate),
        formulas=FORMULAS,
        basis=dict(request.basis),
        unknown=estimate.unknown,
    )


def _memory(estimate: Estimate) -> MemoryParts:
    parts: dict[str, Any] = dict(estimate.memory.parts())
    return MemoryParts(
        **parts,
        fullest_moment=estimate.memory.fullest_moment,
        device_bytes=estimate.request.memory_bytes,
        fits=estimate.fits,
        largest_batch_size=estimate.largest_batch,
    )


def _communication(estimate: Estimate) -> CommunicationEstimate:
    alone = estimate.communication_seconds
    return CommunicationEstimate(
        collectives_per_step=estimate.traffic.count,
        message_bytes=estimate.traffic.message_bytes,
        wire_bytes_per_rank=estimate.traffic.wire_bytes,
        seconds=alone,
        exposed_seconds=(estimate.fastest.exposed_least, alone) if estimate.fastest and alone is not None else None,
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
    return CostEstimate(
        currency=price.currency,
        per_hour=costs[0].per_hour,
        per_1k_samples=tuple(cost.per_1k_samples for cost in costs),
        per_million_tokens=tuple(cost.per_million_tokens for cost in costs),
        per_epoch=tuple(cost.per_epoch(samples) for cost in costs) if samples else None,
        source=price.source,
    )


def estimate_lines(estimate: Estimate) -> Iterator[str]:
    """The estimate for people: what, how much, by which formula."""
    request, layout = estimate.request, estimate.request.layout
    where = f"{layout.world_size} ranks on {layout.nodes} node{'s' if layout.nodes > 1 else ''}"
    gpu = f", {request.gpu.name}" if request.gpu else ""
    yield f"# estimate, nothing was measured: {request.model.name}, {request.setup.strategy}, {where}{gpu}"
    yield from _section("model", _model_rows(estimate))
    yield from _section("communication, a step and rank", _communication_rows(estimate))
    yield from _section("memory of a GPU", _memory_rows(estimate))
    yield from _section("time", _time_rows(estimate))
    yield from _section("cost", _cost_rows(estimate))
    for name, text in request.basis.items():
        yield f"# {name}: {text}"
    for reason in estimate.unknown:
        yield f"# unknown: {reason}"


Row = tuple[str, str, str]


def _section(title: str, rows: Iterator[Row]) -> Iterator[str]:
    listed = list(rows)
    if not listed:
        return
    yield f"\n{title}"
    for name, value, formula in listed:
        yield f"  {name:<26} {value:<28} {formula}".rstrip()


def _model_rows(estimate: Estimate) -> Iterator[Row]:
    request = estimate.request
    trained = request.setup.trainable(request.model)
    share = "" if trained == request.model.parameters else f", {_count(trained)} trained"
    yield "parameters", _count(request.model.parameters) + share, FORMULAS["parameters"]
    yield "operations per token", f"{model_flops_per_token(request) / 1e9:.2f} GFLOP", FORMULAS["flops_per_token"]


def _communication_rows(estimate: Estimate) -> Iterator[Row]:
    for message in estimate.traffic.messages:
        name = f"{message.operation} ({message.phase})"
        value = f"{message.count} x {_bytes(message.message_bytes)}"
        yield name, value, f"over {message.group.ranks} ranks, {message.group.nodes} node(s)"
    yield "sent", _bytes(estimate.traffic.wire_bytes), FORMULAS["wire_bytes"]
    alone = estimate.communication_seconds
    yield "time of it alone", "unknown" if alone is None else format_seconds(alone), FORMULAS["communication"]


def _memory_rows(estimate: Estimate) -> Iterator[Row]:
    for name, size in estimate.memory.parts().items():
        if size:
            yield name.replace("_", " "), _gib(size), FORMULAS["memory"] if name == "peak" else ""
    yield "fullest moment", estimate.memory.fullest_moment, _gib(estimate.memory.dynamic) + " that come and go"
    limit = estimate.request.memory_bytes
    if limit is not None:
        verdict = "fits" if estimate.fits else "DOES NOT FIT"
        yield "verdict", f"{verdict} in {_gib(limit)}", f"largest batch size: {estimate.largest_batch}"


def _time_rows(estimate: Estimate) -> Iterator[Row]:
    alone = estimate.communication_seconds
    if estimate.step_seconds is None or estimate.fastest is None or estimate.slowest is None or alone is None:
        return
    low, high = estimate.request.efficiency
    yield "efficiency of computation", f"{low:.0%} to {high:.0%} of the peak", estimate.request.efficiency_source
    yield "computation", _seconds((estimate.fastest.compute, estimate.slowest.compute)), ""
    exposed = (estimate.fastest.exposed_least, alone)
    yield "exposed communication", _seconds(exposed), "between all hidden that can be, and none"
    yield "step", _seconds(estimate.step_seconds), FORMULAS["step"]
    yield "tokens/s", _numbers(estimate.tokens_per_second), ""
    yield "samples/s", _numbers(_samples(estimate)), "ranks x batch size x micro-batches / step"
    if estimate.mfu is not None:
        yield "MFU", f"{estimate.mfu[0]:.1%} to {estimate.mfu[1]:.1%}", FORMULAS["mfu"]


def _cost_rows(estimate: Estimate) -> Iterator[Row]:
    costs, price, samples = estimate.costs(), estimate.request.price, estimate.request.epoch_samples
    if costs is None or price is None:
        return
    yield "all nodes, an hour", f"{costs[0].per_hour:.2f} {price.currency}", price.source
    yield "1000 samples", _prices([cost.per_1k_samples for cost in costs], costs), FORMULAS["cost"]
    yield "a million tokens", _prices([cost.per_million_tokens for cost in costs], costs), ""
    if samples:
        yield f"an epoch of {samples} samples", _prices([cost.per_epoch(samples) for cost in costs], costs), ""


def _prices(values: list[float | None], costs: tuple[Cost, Cost]) -> str:
    return " to ".join("?" if value is None else f"{value:.4g}" for value in values) + f" {costs[0].price.currency}"


def _samples(estimate: Estimate) -> Pair:
    tokens, length = estimate.tokens_per_second, estimate.request.setup.sequence_length
    return None if tokens is None else (tokens[0] / length, tokens[1] / length)


def _seconds(pair: tuple[float, float]) -> str:
    return " to ".join(map(format_seconds, pair))


def _numbers(pair: Pair) -> str:
    return "" if pair is None else " to ".join(f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in pair)


def _count(number: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:.2f}{name}"
    return f"{number:.0f}"


def _bytes(size: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size:.0f} B"


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
