"""An estimate on one screen: whether it fits, what decides that, how long a step takes, what it costs. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from raybench.documents.estimate import CostEstimate, EstimateReport, MemoryParts
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.estimates.estimate import (
    between,
    epoch_time,
    estimate_tables,
    in_gib,
    measured_notes,
    open_notes,
    other_programs_in_short,
    own_run_notes,
)
from raybench.reports.model import Block, Cell, Grid, Report, Table, notes_of
from raybench.reports.text import count_of
from raybench.units import format_seconds, short_number

_FULL = "every figure with its parts, its formula and its source: --full"
Row = tuple[str, str]


def estimate_screen(estimate: EstimateReport, asked: Asked) -> Report:
    """A line a figure; formulas, parts and sources are in the whole report."""
    rows = tuple((Cell(text=name), Cell(text=value)) for name, value in _rows(estimate))
    memory = estimate.memory
    nearest = () if memory.nearest_peak is None else (*memory.nearest_options, f"({in_gib(memory.nearest_peak)})")
    blocks: tuple[Block, ...] = (
        *notes_of([f"nearest that fits: {' '.join(nearest)}"] if nearest else [], tone="strong"),
        Table(grid=Grid(headings=("figure", "value"), rows=rows), text_columns=2),
        *notes_of(
            list(own_run_notes(estimate.own_runs, estimate.uncorrected_step_seconds, in_short=True)), tone="info"
        ),
        *notes_of([f"unknown: {reason}" for reason in estimate.unknown], tone="warn"),
        *open_notes(estimate),
        *notes_of(other_programs_in_short(estimate.other_programs), tone="info"),
        *notes_of([estimate.taken] if estimate.taken else [], tone="info"),
        *notes_of(list(measured_notes(estimate.measured)), tone="info"),
        *notes_of([_FULL], tone="info"),
    )
    return replace(estimate_tables(estimate, asked), blocks=blocks)


def _rows(estimate: EstimateReport) -> Iterator[Row]:
    samples = f"{count_of(estimate.batch_size, 'sample')} of {estimate.sequence_length:,} tokens"
    yield "a micro-batch", f"{samples}, {estimate.samples_per_step:,} a step over all ranks"
    yield from _memory(estimate.memory)
    yield from _time(estimate)
    if estimate.cost:
        yield from _cost(estimate.cost)
    model, trained = estimate.model, estimate.model.trainable_parameters
    exact = f"{model.parameters:,} parameters"
    short = f"{short_number(model.parameters)} parameters, {short_number(trained)} trained"
    counted = exact if trained == model.parameters else short
    yield "model", f"{counted}, {model.flops_per_token / 1e9:.2f} GFLOP a token"


def _memory(memory: MemoryParts) -> Iterator[Row]:
    goes = memory.gradients_come_and_go
    gradients = () if goes else (("gradients", memory.gradients),)
    parts = (("weights", memory.parameters), *gradients, ("optimizer", memory.optimizer_state))
    yield "memory that stays", ", ".join(f"{name} {size / 2**30:,.1f}" for name, size in parts) + " GiB"
    if memory.fullest_moment is not None and memory.fullest_moment_bytes is not None:
        told = f"{in_gib(memory.fullest_moment_bytes)}{' with gradients' if goes else ''}"
        yield "comes and goes", f"{told}, most at: {memory.fullest_moment}"
    if memory.device_bytes is None:  # else the verdict has it
        least = memory.peak if memory.least_peak is None else memory.least_peak
        yield "needed of a GPU", " to ".join(dict.fromkeys(map(in_gib, (least, memory.peak))))


def _time(estimate: EstimateReport) -> Iterator[Row]:
    sent = estimate.communication
    alone = "unknown" if sent.seconds is None else format_seconds(sent.seconds)
    for name, pair in (
        ("step", estimate.step_seconds),
        ("computation", estimate.computation_seconds),
        ("pipeline bubble", estimate.pipeline_bubble_seconds),
    ):
        if pair is not None:
            yield name, " to ".join(map(format_seconds, pair))
        if name == "step":
            yield from _epoch(estimate)
    if estimate.tokens_per_second is not None:
        counted = estimate.counted_tokens_per_second
        without = "" if counted is None else f", without padding {between(counted)}"
        yield "tokens/s", between(estimate.tokens_per_second) + without
    if estimate.mfu is not None:
        masked = ", scores counted that a causal mask drops" if estimate.mfu[1] > 1 else ""
        yield "MFU", f"{estimate.mfu[0]:.1%} to {estimate.mfu[1]:.1%}{masked}"
    yield "communication", f"{sent.wire_bytes_per_rank / 1e9:.3f} GB sent a rank and step, alone {alone}"


def _epoch(estimate: EstimateReport) -> Iterator[Row]:
    """Time and cost of it: before what there may be no room for, as it was asked for."""
    if estimate.epoch_seconds is None:
        return
    cost = estimate.cost
    paid = f", {between(cost.per_epoch)} {cost.currency}" if cost and cost.per_epoch else ""
    yield "an epoch", f"{epoch_time(estimate.epoch_seconds)}{paid}"


def _cost(cost: CostEstimate) -> Iterator[Row]:
    yield "all nodes, an hour", f"{cost.per_hour:.2f} {cost.currency}"
    yield "a million tokens", f"{between(cost.per_million_tokens)} {cost.currency}"
