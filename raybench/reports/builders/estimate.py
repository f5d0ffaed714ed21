"""An estimate for a terminal: whether it fits, what a step takes, sends and costs, by which formula. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.estimate import CostEstimate, EstimateReport, MemoryParts
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Cell, Choice, Facts, Grid, Heading, Report, Table, notes_of
from raybench.reports.text import count_of
from raybench.units import format_seconds

Row = tuple[str, str, str]  # what, how much, by which formula (its name) or on what basis
_PARTS = (
    "parameters", "gradients", "optimizer_state", "buffers", "activations", "logits", "optimizer_temporaries",
    "context", "fragmentation", "allocated", "peak",
)  # fmt: skip


def estimate_tables(estimate: EstimateReport, _: Asked) -> Report:
    """The report. Its verdict is whether it fits, where that is known."""
    ranks = f"{count_of(estimate.world_size, 'rank')} on {count_of(estimate.nodes, 'node')}"
    gpu = f", {estimate.gpu}" if estimate.gpu else ""
    ways = ", ".join([estimate.strategy, *_cuts(estimate)])
    name = f"raybench estimate, nothing was measured: {estimate.model.name}, {ways}, {ranks}{gpu}"
    return Report(
        name=name,
        title=name,
        verdict=estimate.verdict or "",
        reason=_fit(estimate.memory) if estimate.verdict else "",
        lead="",
        when="",
        blocks=tuple(_blocks(estimate)),
    )


def _cuts(estimate: EstimateReport) -> Iterator[str]:
    """``TP 4``, ``PP 8 x 2``: as people write it."""
    for name, ranks in (
        ("TP", estimate.tensor_parallel),
        ("CP", estimate.context_parallel),
        ("PP", estimate.pipeline_parallel),
        ("EP", estimate.expert_parallel),
    ):
        if ranks > 1:
            chunks = estimate.virtual_stages if name == "PP" else 1
            yield f"{name} {ranks}" + (f" x {chunks}" if chunks > 1 else "")


def _fit(memory: MemoryParts) -> str:
    least = memory.peak if memory.least_peak is None else memory.least_peak
    has = "" if memory.device_bytes is None else f", a GPU has {_gib(memory.device_bytes)}"
    between = _gib(memory.peak) if least == memory.peak else f"{_gib(least)} to {_gib(memory.peak)}"
    if memory.fits:
        largest = "" if memory.largest_batch_size is None else f"; largest batch size {memory.largest_batch_size}"
        return f"it fits: {between}{has}{largest}"
    if memory.fits is None:
        return (
            f"it may fit: {_gib(least)} with fused kernels and a chunked loss, {_gib(memory.peak)} with PyTorch's own"
            f"{has}; say --kernels and --loss{_nearest(memory, '; fits in any case')}"
        )
    nothing = "; nothing that was tried makes it fit: take a smaller model, a shorter sequence or a larger GPU"
    return f"it does not fit: {between}{has}{_nearest(memory, '; nearest that fits') or nothing}"


def _nearest(memory: MemoryParts, lead: str) -> str:
    if memory.nearest_peak is None:
        return ""
    return f"{lead}: {' '.join(memory.nearest_options)} ({_gib(memory.nearest_peak)})"


def _blocks(estimate: EstimateReport) -> Iterator[Block]:
    for title, rows in (
        ("Model", _model(estimate)),
        ("Communication of a rank and step", _communication(estimate)),
        ("Memory of a GPU", _memory(estimate)),
        ("Time", _time(estimate)),
        ("Cost", _cost(estimate.cost) if estimate.cost else ()),
    ):
        if listed := tuple((name, value, estimate.formulas.get(origin, origin)) for name, value, origin in rows):
            yield Heading(text=title)
            yield Choice(forms=tuple(_forms(listed)))
    if estimate.basis:
        yield Heading(text="From")
        yield Facts(pairs=tuple(estimate.basis.items()))
    yield from notes_of([f"unknown: {reason}" for reason in estimate.unknown], tone="warn")


def _forms(rows: Sequence[Row]) -> Iterator[tuple[Block, ...]]:
    """A table, or where it is too wide, a line a figure: no formula is left out."""
    cells = tuple(tuple(Cell(text=text) for text in row) for row in rows)
    yield (Table(grid=Grid(headings=("figure", "value", "from"), rows=cells), text_columns=3),)
    yield (Facts(pairs=tuple((name, "; ".join(filter(None, (value, origin)))) for name, value, origin in rows)),)


def _model(estimate: EstimateReport) -> Iterator[Row]:
    model = estimate.model
    trained = model.trainable_parameters
    share = "" if trained == model.parameters else f", {trained:,} trained"
    yield "parameters", f"{model.parameters:,}{share}", "parameters"
    yield "operations per token", f"{model.flops_per_token / 1e9:.2f} GFLOP", "flops_per_token"


def _communication(estimate: EstimateReport) -> Iterator[Row]:
    found = estimate.communication
    for one in found.messages:
        over = f"over {count_of(one.ranks, 'rank')}, {count_of(one.nodes, 'node')}"
        yield f"{one.operation} ({one.phase})", f"{one.count} x {one.message_bytes / 1e6:,.2f} MB", over
    yield "sent", f"{found.wire_bytes_per_rank / 1e9:.3f} GB", "wire_bytes"
    alone = "unknown" if found.seconds is None else format_seconds(found.seconds)
    yield "time of it alone", alone, "communication"


def _memory(estimate: EstimateReport) -> Iterator[Row]:
    memory = estimate.memory
    for name in _PARTS:
        if size := getattr(memory, name):
            yield name.replace("_", " "), _gib(size), "memory" if name == "peak" else ""
    if memory.fullest_moment is not None:
        held = memory.fullest_moment_bytes
        yield "fullest moment", memory.fullest_moment, "" if held is None else f"{_gib(held)} that come and go"


def _time(estimate: EstimateReport) -> Iterator[Row]:
    if estimate.step_seconds is None:
        return
    low, high = estimate.efficiency.range
    yield "efficiency of computation", f"{low:.0%} to {high:.0%} of the peak", estimate.efficiency.source
    for name, pair, formula in (
        ("computation", estimate.computation_seconds, ""),
        ("exposed communication", estimate.communication.exposed_seconds, "between all hidden that can be, and none"),
        ("pipeline bubble", estimate.pipeline_bubble_seconds, "bubble"),
        ("step", estimate.step_seconds, "step"),
    ):
        if pair is not None:
            yield name, " to ".join(map(format_seconds, pair)), formula
    if estimate.tokens_per_second is not None:
        yield "tokens/s", _between(estimate.tokens_per_second), ""
    if estimate.samples_per_second is not None:
        yield "samples/s", _between(estimate.samples_per_second), "ranks x batch size x micro-batches / step"
    if estimate.mfu is not None:
        yield "MFU", f"{estimate.mfu[0]:.1%} to {estimate.mfu[1]:.1%}", "mfu"


def _cost(cost: CostEstimate) -> Iterator[Row]:
    yield "all nodes, an hour", f"{cost.per_hour:.2f} {cost.currency}", cost.source
    yield "1000 samples", f"{_between(cost.per_1k_samples)} {cost.currency}", "cost"
    yield "a million tokens", f"{_between(cost.per_million_tokens)} {cost.currency}", ""
    if cost.per_epoch:
        samples = "" if cost.epoch_samples is None else f" of {cost.epoch_samples} samples"
        yield f"an epoch{samples}", f"{_between(cost.per_epoch)} {cost.currency}", ""


def _between(values: Sequence[float | None]) -> str:
    return " to ".join(
        "unknown" if value is None else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in values
    )


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
