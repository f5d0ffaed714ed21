"""The sections of a scaling study: speedup and efficiency, each run, cost, projection. Pure."""

from collections.abc import Iterator, Mapping

from raybench.documents.price import Price
from raybench.documents.study.cost import COSTED_SAMPLES, RowCost
from raybench.documents.study.result import StudyResult
from raybench.documents.study.scaling import FitCoefficients, ModeAnswer, ProjectedPoint, ScalingAnswer, ScalingRow
from raybench.documents.study.trial import TrialResult
from raybench.reports.model import Cell, Section
from raybench.reports.study.cells import (
    ESTIMATOR,
    NONE,
    Columns,
    grid_of,
    interval,
    loss,
    money,
    overhead,
    present,
    rate,
    ratio_share,
    seconds,
    share,
    text,
    times,
)
from raybench.reports.text import count_of, fixed, percent, printable
from raybench.units import format_seconds

_VERIFIED: Mapping[bool | None, str | None] = {True: "yes", False: "WRONG", None: None}
_BAND_TONES = {"poor": "bad", "fair": "warn"}


def scaling_sections(answer: ScalingAnswer, study: StudyResult) -> Iterator[Section]:
    """The tables of both modes, then one row a run."""
    for mode in answer.modes:
        if mode.rows:
            yield _scaling_section(mode)
            if answer.price and any(row.cost for row in mode.rows):
                yield _cost_section(mode, answer.price)
            if mode.projections:
                yield _projection_section(mode)
    if any(trial.measured for trial in study.trials):
        yield _runs_section(study)


def _scaling_section(mode: ModeAnswer) -> Section:
    columns: Columns[ScalingRow] = (
        ("nodes", lambda row: text(row.nodes, "strong")),
        ("ranks", lambda row: text(row.world_size)),
        ("batch a rank", lambda row: text(row.batch_size_per_rank)),
        ("time/step", lambda row: seconds(row.step_seconds, "strong")),
        ("samples/s", lambda row: rate(row.samples_per_s)),
        ("tokens/s", lambda row: rate(row.tokens_per_s)),
        ("speedup", lambda row: times(row.speedup)),
        ("ideal", lambda row: Cell(text=f"{row.nodes / mode.base_nodes:.2f}x")),
        ("efficiency", lambda row: ratio_share(row.efficiency)),
        ("95 % interval", lambda row: interval(row.efficiency, unit=" %", scale=100)),
        ("scaling", lambda row: text(row.band, _BAND_TONES.get(row.band.partition(" ")[0].rstrip(","), ""))),
        ("overhead", lambda row: overhead(row.overhead)),
        ("loss", lambda row: loss(row.loss)),
        ("validation loss", lambda row: loss(row.validation_loss)),
        ("accuracy", lambda row: share(row.validation_accuracy)),
    )
    kept = {"strong": "the global batch is the same", "weak": "the batch of a rank is the same"}[mode.mode]
    title = f"{mode.mode.capitalize()} scaling: {kept}"
    return Section(title=title, grid=present(columns, mode.rows, 4), notes=tuple(_scaling_notes(mode)))


def _scaling_notes(mode: ModeAnswer) -> Iterator[str]:
    yield from map(printable, mode.advice)
    for row in mode.rows:
        for cause in row.causes:
            yield printable(f"{count_of(row.nodes, 'node')}, likely: {cause}")
    if mode.amdahl_serial_share is not None:
        serial = mode.amdahl_serial_share
        limit = f"at most {1 / serial:.1f}x on any number of nodes" if serial > 1e-6 else "no limit seen"
        yield f"Amdahl: {percent(serial)} of the work of one node is serial, {limit}"
    if mode.fit:
        yield _fit_text(mode, mode.fit)
    yield ESTIMATOR


def _fit_text(mode: ModeAnswer, fit: FitCoefficients) -> str:
    work = "work/n" if mode.mode == "strong" else "work"
    knee = mode.knee_nodes
    where = f"from {count_of(knee, 'node')} on" if knee else "nowhere up to 100000 nodes"
    return (
        f"alpha-beta fit: t(n) = {work} + latency log2(n) + transfer 2(n-1)/n with work {format_seconds(fit.work)}, "
        f"latency {format_seconds(fit.latency)}, transfer {format_seconds(fit.transfer)}; off by at most "
        f"{percent(fit.worst_relative_error)} where measured. Knee (half the ideal throughput): {where}"
    )


def _cost_section(mode: ModeAnswer, price: Price) -> Section:
    currency = printable(price.currency)
    columns: Columns[tuple[ScalingRow, RowCost]] = (
        ("nodes", lambda one: text(one[0].nodes, "strong")),
        ("samples/s", lambda one: rate(one[0].samples_per_s)),
        ("tokens/s", lambda one: rate(one[0].tokens_per_s)),
        ("efficiency", lambda one: ratio_share(one[0].efficiency)),
        ("time for 10K samples", lambda one: seconds(one[1].hours_of_10000_samples * 3600)),
        ("cost of them", lambda one: money(one[1].of_10000_samples, currency)),
        ("cost per 1K samples", lambda one: money(one[1].per_1k_samples, currency)),
        ("time an epoch", lambda one: _of_epoch(one[1], _hours(one[1].hours_per_epoch))),
        ("cost of it", lambda one: _of_epoch(one[1], money(one[1].per_epoch, currency))),
        ("per million tokens", lambda one: money(one[1].per_million_tokens, currency)),
        ("per hour", lambda one: money(one[1].per_hour, currency)),
    )
    note = f"a node costs {price.per_node_hour:g} {price.currency} an hour ({price.source})"
    rows = [(row, row.cost) for row in mode.rows if row.cost]
    return Section(title=f"Cost, {mode.mode} scaling", grid=present(columns, rows, 2), notes=(printable(note),))


def _projection_section(mode: ModeAnswer) -> Section:
    columns: Columns[ProjectedPoint] = (
        ("nodes", lambda one: text(one.nodes, "strong")),
        ("time/step", lambda one: seconds(one.step_seconds)),
        ("90 % of fits", lambda one: Cell(
            text=f"{format_seconds(one.low_seconds)} to {format_seconds(one.high_seconds)}")),
        ("speedup", lambda one: Cell(text=f"{fixed(one.speedup)}x")),
        ("ideal", lambda one: Cell(text=f"{one.nodes / mode.base_nodes:g}x")),
        ("efficiency", lambda one: share(one.efficiency)),
        ("", lambda _: Cell(text="PROJECTION", tone="warn")),
    )  # fmt: skip
    ahead = [one for one in mode.projections if one.is_projection]
    notes = tuple(dict.fromkeys(printable(one.caveat) for one in ahead))
    return Section(title=f"PROJECTION, {mode.mode} scaling: not measured", grid=grid_of(columns, ahead), notes=notes)


def _hours(value: float | None) -> Cell:
    return NONE if value is None else seconds(value * 3600)


def _of_epoch(cost: RowCost, cell: Cell) -> Cell:
    """An epoch of as many samples as the columns beside it need no columns of its own."""
    return NONE if cost.epoch_samples == COSTED_SAMPLES else cell


def _runs_section(study: StudyResult) -> Section:
    samples = study.settings.costed_samples
    columns: Columns[TrialResult] = (
        ("run", lambda trial: text(trial.run or trial.trial.folder)),
        ("configuration", lambda trial: text(_configuration(trial))),
        ("ranks", lambda trial: text(trial.world_size)),
        ("nodes", lambda trial: text(len(trial.nodes))),
        ("whole run (s)", lambda trial: _number(trial.seconds)),
        ("time/epoch (s)", lambda trial: _number(_epoch_seconds(trial, samples))),
        ("loss", lambda trial: loss(trial.measured[0].loss)),
        ("validation loss", lambda trial: loss(trial.measured[0].validation_loss)),
        ("accuracy", lambda trial: share(trial.measured[0].validation_accuracy)),
        ("matches single process", lambda trial: text(_VERIFIED[trial.measured[0].verified])),
    )
    measured = sorted((trial for trial in study.trials if trial.measured), key=lambda one: one.world_size)
    learned = next((one.measured[0].data for one in measured if one.measured[0].data), None)
    note = (
        f"an epoch: {samples} samples at the run's own throughput; loss: of the last training step, "
        f"{f'on {printable(learned)}' if learned else 'random data'}"
    )
    return Section(title="Benchmark results", grid=present(columns, measured, 4), notes=(note,))


def _configuration(trial: TrialResult) -> str:
    ranks = count_of(trial.world_size, "rank")
    batch = trial.measured[0].batch_size_per_rank
    return f"{ranks}, {count_of(len(trial.nodes), 'node')}" + (f", batch {batch}" if batch else "")


def _epoch_seconds(trial: TrialResult, samples: int) -> float | None:
    per_second = trial.measured[0].samples_per_s
    return samples / per_second if per_second else None


def _number(value: float | None) -> Cell:
    return NONE if value is None else Cell(text=fixed(value, 9))
