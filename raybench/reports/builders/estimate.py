"""An estimate for a terminal: whether it fits, what a step takes, sends and costs. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.estimate import CostEstimate, EstimateReport, MemoryParts
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Facts, Heading, Report, notes_of
from raybench.reports.text import count_of
from raybench.units import format_seconds

_PARTS = ("parameters", "gradients", "optimizer_state", "buffers", "activations", "logits", "peak")


def estimate_tables(estimate: EstimateReport, _: Asked) -> Report:
    """The report. Its verdict is whether it fits, where that is known."""
    ranks = f"{count_of(estimate.world_size, 'rank')} on {count_of(estimate.nodes, 'node')}"
    gpu = f", {estimate.gpu}" if estimate.gpu else ""
    name = f"raybench estimate, nothing was measured: {estimate.model.name}, {estimate.strategy}, {ranks}{gpu}"
    return Report(
        name=name,
        title=name,
        verdict=estimate.verdict or "",
        reason=_fit(estimate.memory) if estimate.verdict else "",
        lead="",
        when="",
        blocks=tuple(_blocks(estimate)),
    )


def _fit(memory: MemoryParts) -> str:
    limit = "" if memory.device_bytes is None else f" of {_gib(memory.device_bytes)}"
    largest = "" if memory.largest_batch_size is None else f"; largest batch size {memory.largest_batch_size}"
    return f"{'it fits' if memory.fits else 'it does not fit'}: {_gib(memory.peak)}{limit} of a GPU{largest}"


def _blocks(estimate: EstimateReport) -> Iterator[Block]:
    for title, pairs in (
        ("Time", _time(estimate)),
        ("Communication of a rank and step", _communication(estimate)),
        ("Memory of a GPU", _memory(estimate.memory)),
        ("Cost", _cost(estimate.cost) if estimate.cost else ()),
        ("From", estimate.basis.items()),
    ):
        if known := tuple(pairs):
            yield Heading(text=title)
            yield Facts(pairs=known)
    yield from notes_of([f"unknown: {reason}" for reason in estimate.unknown], tone="warn")


def _time(estimate: EstimateReport) -> Iterator[tuple[str, str]]:
    model = estimate.model
    trained = model.trainable_parameters
    yield "parameters", f"{model.parameters:,}" + ("" if trained == model.parameters else f", {trained:,} trained")
    yield "operations per token", f"{model.flops_per_token / 1e9:.2f} GFLOP"
    if estimate.step_seconds:
        yield "step", " to ".join(map(format_seconds, estimate.step_seconds))
    for name, pair in (("tokens/s", estimate.tokens_per_second), ("samples/s", estimate.samples_per_second)):
        if pair:
            yield name, _between(pair)
    if estimate.mfu:
        yield "MFU", f"{estimate.mfu[0]:.1%} to {estimate.mfu[1]:.1%}"


def _communication(estimate: EstimateReport) -> Iterator[tuple[str, str]]:
    found = estimate.communication
    for one in found.messages:
        over = f"over {count_of(one.ranks, 'rank')}, {count_of(one.nodes, 'node')}"
        yield f"{one.operation} ({one.phase})", f"{one.count} x {one.message_bytes / 1e6:,.2f} MB {over}"
    yield "sent", f"{found.wire_bytes_per_rank / 1e9:.3f} GB"
    yield "time of it alone", "unknown" if found.seconds is None else format_seconds(found.seconds)


def _memory(memory: MemoryParts) -> Iterator[tuple[str, str]]:
    sizes = (getattr(memory, name) for name in _PARTS)
    yield from ((name.replace("_", " "), _gib(size)) for name, size in zip(_PARTS, sizes, strict=True) if size)


def _cost(cost: CostEstimate) -> Iterator[tuple[str, str]]:
    yield "all nodes, an hour", f"{cost.per_hour:.2f} {cost.currency} ({cost.source})"
    yield "1000 samples", f"{_between(cost.per_1k_samples)} {cost.currency}"
    yield "a million tokens", f"{_between(cost.per_million_tokens)} {cost.currency}"
    if cost.per_epoch:
        yield "an epoch", f"{_between(cost.per_epoch)} {cost.currency}"


def _between(values: Sequence[float | None]) -> str:
    return " to ".join(
        "unknown" if value is None else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in values
    )


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
