"""A study's result (raybench.study-result/1) as tables and sentences, for every kind of report. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from raybench.documents.price import Price
from raybench.documents.run.same_loss import LossAgreement
from raybench.documents.study.cost import RowCost
from raybench.documents.study.network import NetworkAnswer, NetworkRow, Proof, Speedup
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.result import StudyResult
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.scaling import ScalingAnswer
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.sweep import LinearFit, PowerFit, SweepAnswer
from raybench.documents.study.trial import TrialResult
from raybench.reports.model import Cell, Section
from raybench.reports.study.cells import (
    ESTIMATOR,
    NONE,
    Columns,
    gb_per_second,
    grid_of,
    interval,
    loss,
    memory,
    money,
    overhead,
    present,
    rate,
    seconds,
    share,
    text,
    times,
)
from raybench.reports.study.scaling import scaling_sections
from raybench.reports.text import count_of, percent, printable
from raybench.units import format_seconds

_PROOF_TONES = {"proved": "", "unproven": "warn", "refuted": "bad"}
_VERDICT_TONES = {"ok": "", "warning": "warn", "unknown": "warn", "incomplete": "warn", "critical": "bad"}
_SAME = {"same": ("yes", ""), "different": ("NO", "bad"), "unknown": ("unknown", "warn")}
_STATUS_TONES = {"complete": "", "partial": "warn", "failed": "bad", "missing": "bad"}


def study_sections(study: StudyResult) -> tuple[Section, ...]:
    """The tables of a study, the answer's first."""
    losses = tuple(_loss_section(study.losses)) if study.losses else ()
    return (*_answer_sections(study), *losses)


def _answer_sections(study: StudyResult) -> Iterator[Section]:
    answer = study.answer
    if isinstance(answer, NetworkAnswer):
        yield from _network_sections(answer, study.settings.costed_samples)
    elif isinstance(answer, ScalingAnswer):
        yield from scaling_sections(answer, study)
    elif isinstance(answer, StrategyAnswer):
        yield _strategy_section(answer, study.kind)
    else:
        yield _sweep_section(answer, study.kind)


def _loss_section(losses: Sequence[LossAgreement]) -> Iterator[Section]:
    """Whether variants that train the same thing reach the same loss."""
    columns: Columns[LossAgreement] = (
        ("configurations", lambda one: text(", ".join(one.last_losses), "strong")),
        ("last loss", lambda one: text(_between(one.last_losses.values()))),
        ("validation loss", lambda one: text(_between(one.validation_losses.values()))),
        ("apart at first", lambda one: share(one.first_apart)),
        ("apart at last", lambda one: share(one.last_apart)),
        ("bound", lambda one: share(one.bound)),
        ("the same", lambda one: text(*_SAME[one.verdict])),
    )
    notes = tuple(printable(one.text) for one in losses)
    yield Section(title="The same loss", grid=present(columns, losses, 2), notes=notes)


def _between(losses: Iterable[float]) -> str | None:
    known = sorted({f"{one:.4f}" for one in losses}, key=float)
    return " to ".join(dict.fromkeys((known[0], known[-1]))) if known else None


def study_title(study: StudyResult) -> str:
    """``study network network-2026...: 2 variants x 5 repeats of 'raybench train --model tiny'``."""
    plan = f"{count_of(len(study.variants), 'variant')} x {count_of(study.repeats, 'repeat')}"
    return printable(f"raybench study {study.study_id}: {plan} of 'raybench {' '.join(study.workload)}'")


def order_text(study: StudyResult) -> str:
    """How the trials were ordered, and the first blocks of it."""
    blocks = "; ".join(", ".join(block) for block in study.order[:2])
    more = "; ..." if len(study.order) > 2 else ""
    how = "order: random in each repeat, every second one the one before it backwards"
    return printable(f"{how} (seed {study.seed}): {blocks}{more}")


def emulated_study_notice(study: StudyResult) -> str | None:
    """The sentence that no reader of emulated figures may miss."""
    if not study.emulated:
        return None
    return "EMULATED: the nodes are processes of one machine. These figures say nothing about a network."


def trial_section(study: StudyResult) -> Section:
    """Every trial in the order of doing."""
    columns: Columns[TrialResult] = (
        ("trial", lambda trial: text(trial.trial.folder)),
        ("repeat", lambda trial: text(trial.trial.block + 1)),
        ("status", lambda trial: text(trial.status, _STATUS_TONES.get(trial.status, "bad"))),
        ("verdict", lambda trial: text(trial.verdict, _VERDICT_TONES.get(str(trial.verdict), ""))),
        ("time", lambda trial: seconds(trial.measured[0].seconds) if trial.measured else NONE),
        ("ranks", lambda trial: text(trial.world_size or None)),
        ("network", lambda trial: text(f"{trial.network}" if trial.backend == "nccl" else f"TCP ({trial.backend})")
         if trial.measured else NONE),
        ("whole run", lambda trial: seconds(trial.seconds)),
        ("reason", lambda trial: text(trial.reason or _found(trial))),
    )  # fmt: skip
    return Section(title="Trials, in the order of doing", grid=grid_of(columns, study.trials))


def _found(trial: TrialResult) -> str | None:
    """Why a complete trial's verdict is not ok."""
    return None if trial.verdict in (None, "ok") else trial.verdict_reason


def _network_sections(answer: NetworkAnswer, epoch_samples: int) -> Iterator[Section]:
    proofs = answer.proofs
    columns: Columns[NetworkRow] = (
        ("network", lambda row: text(row.network, "strong")),
        ("used", lambda row: _proof(proofs[row.network])),
        ("workload", lambda row: text(row.label)),
        ("repeats", lambda row: text(row.blocks)),
        ("time", lambda row: seconds(row.seconds, "strong")),
        ("samples/s", lambda row: rate(row.samples_per_s)),
        ("tokens/s", lambda row: rate(row.tokens_per_s)),
        ("busbw (GB/s)", lambda row: gb_per_second(row.busbw_gb_per_s)),
        ("gradient sync", lambda row: seconds(row.exposed_seconds)),
        ("overhead", lambda row: overhead(row.overhead)),
        ("cost per 1K samples", lambda row: _cost(row.cost, answer.price)),
    )
    seen = tuple(f"{name}: {proof.verdict}, {proof.seen} ({proof.basis})" for name, proof in proofs.items())
    yield Section(title="Networks", grid=present(columns, answer.rows, 3), notes=tuple(map(printable, seen)))
    if answer.speedups:
        yield _speedup_section(answer)
        yield _metric_section(answer, epoch_samples)


def _proof(proof: Proof) -> Cell:
    return text(proof.verdict, _PROOF_TONES[proof.verdict])


def _speedup_section(answer: NetworkAnswer) -> Section:
    columns: Columns[Speedup] = (
        ("network", lambda row: text(row.network, "strong")),
        ("workload", lambda row: text(row.label)),
        ("speedup", lambda row: times(row.ratio)),
        ("95 % interval", lambda row: interval(row.ratio)),
        ("of gradient sync", lambda row: times(row.exposed_ratio)),
        ("at most", lambda row: NONE if row.ceiling is None else Cell(text=f"{row.ceiling:.2f}x")),
        ("against itself", lambda row: Cell(text=f"{row.self_ratio:.2f}x")),
    )
    low, high = answer.expected
    notes = [f"{row.network}, {row.label}: {row.verdict}" for row in answer.speedups]
    notes.append(
        f"worth it: more than {answer.worth_it_above:g}x; usual for RDMA over TCP: {low:g}x to {high:g}x. 'at "
        "most': what a network that takes no time would give. 'against itself': how far one network's repeats differ"
    )
    notes.append(ESTIMATOR)
    title = f"Speedup over {printable(answer.baseline)}"
    return Section(title=title, grid=present(columns, answer.speedups, 3), notes=tuple(map(printable, notes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """A row of the table of metrics: by network its figure, and what it gains over the first."""

    name: str
    figures: Mapping[str, Cell]
    ratios: Mapping[str, Ratio | None]


def _metric_section(answer: NetworkAnswer, epoch_samples: int) -> Section:
    """A row a metric, a column a network, and what each gains over the first."""
    names = list(dict.fromkeys(row.network for row in answer.rows))
    rows = [row for label in _labels(answer) for row in _metrics(label, answer, epoch_samples)]
    columns: list[tuple[str, Callable[[_Metric], Cell]]] = [("metric", lambda row: text(row.name, "strong"))]
    for name in names:
        columns.append((name, partial(_metric_figure, name)))
        if name != answer.baseline:
            columns.append((f"{name} speedup", partial(_metric_gain, name)))
    low, high = answer.expected
    note = f"expected of RDMA over TCP: {low:g}x to {high:g}x"
    return Section(title="Metric by metric", grid=grid_of(columns, rows), notes=(note,))


def _metric_figure(network: str, metric: _Metric) -> Cell:
    return metric.figures.get(network, NONE)


def _metric_gain(network: str, metric: _Metric) -> Cell:
    return times(metric.ratios.get(network))


def _labels(answer: NetworkAnswer) -> list[str]:
    return list(dict.fromkeys(row.label for row in answer.rows))


def _metrics(label: str, answer: NetworkAnswer, epoch_samples: int) -> Iterator[_Metric]:
    rows = [row for row in answer.rows if row.label == label]
    speedups = [row for row in answer.speedups if row.label == label]
    whole: Mapping[str, Ratio | None] = {row.network: row.ratio for row in speedups}
    waited = {row.network: row.exposed_ratio for row in speedups}
    kinds: tuple[tuple[str, Callable[[NetworkRow], float | None], Callable[[float], Cell], Any], ...] = (
        ("throughput (samples/s)", lambda row: row.samples_per_s, rate, whole),
        ("busbw (GB/s)", lambda row: row.busbw_gb_per_s, gb_per_second, whole),
        ("gradient sync", lambda row: row.exposed_seconds, seconds, waited),
        ("time", lambda row: row.seconds, seconds, whole),
        (
            f"time of {epoch_samples} samples",
            lambda row: row.samples_per_s,
            lambda value: seconds(epoch_samples / value),
            whole,
        ),
    )
    prefix = f"{label}: " if len(_labels(answer)) > 1 else ""
    for name, figure, cell, ratios in kinds:
        known = {row.network: cell(value) for row in rows if (value := figure(row))}
        if known:
            yield _Metric(name=prefix + name, figures=known, ratios=ratios)


def _cost(cost: RowCost | None, price: Price | None) -> Cell:
    return NONE if cost is None else money(cost.per_1k_samples, printable(price.currency if price else ""))


def _training_columns(price: Price | None, ratios: Mapping[str, Ratio]) -> Columns[TrainingRow]:
    return (
        ("configuration", lambda row: text(row.variant, "strong")),
        ("workload", lambda row: text(row.label)),
        ("parameters", _parameters),
        ("ranks", lambda row: text(row.world_size or None)),
        ("batch a rank", lambda row: text(row.batch_size_per_rank)),
        ("time/step", lambda row: seconds(row.step_seconds)),
        ("between repeats", lambda row: share(row.spread)),
        ("samples/s", lambda row: rate(row.samples_per_s, "strong")),
        ("tokens/s", lambda row: rate(row.tokens_per_s)),
        ("of the fastest", lambda row: times(ratios.get(row.variant))),
        ("95 % interval", lambda row: interval(ratios.get(row.variant))),
        ("TFLOP/s a rank", _tflops),
        ("MFU", lambda row: share(row.mfu)),
        ("peak memory", lambda row: memory(row.memory_bytes, row.memory_kind)),
        ("overhead", lambda row: overhead(row.overhead)),
        ("cost per 1K samples", lambda row: _cost(row.cost, price)),
        ("loss", lambda row: loss(row.loss)),
        ("validation loss", lambda row: loss(row.validation_loss)),
        ("accuracy", lambda row: share(row.validation_accuracy)),
        ("not measured", lambda row: text(row.failed, "bad")),
    )


def _parameters(row: TrainingRow) -> Cell:
    return NONE if not row.parameters else Cell(text=f"{row.parameters / 1e6:.4g} M")


def _tflops(row: TrainingRow) -> Cell:
    return NONE if row.tflop_per_s_per_rank is None else Cell(text=f"{row.tflop_per_s_per_rank:.3g}")


def _strategy_section(answer: StrategyAnswer, kind: str) -> Section:
    columns = _training_columns(answer.price, answer.ratios)
    warning = "" if answer.certain else "likely (the intervals do not decide; raise --repeats) "
    advice = f"{warning}use {answer.recommended}: {answer.why}" if answer.recommended else answer.why
    title = {"communication": "Communication", "precision": "Precision"}.get(kind, "Strategies")
    return Section(title=title, grid=present(columns, answer.rows), notes=(printable(advice), ESTIMATOR))


def _sweep_section(answer: SweepAnswer, kind: str) -> Section:
    title = {"batch-size": "Batch sizes", "model-size": "Models"}[kind]
    notes = [f"use {answer.recommended}: {answer.why}" if answer.recommended else answer.why]
    notes += [f"most samples a second: {answer.best}"] if answer.best else []
    notes += [_fit_text(answer.fit)] if answer.fit else []
    columns = _training_columns(answer.price, {})
    return Section(title=title, grid=present(columns, answer.rows), notes=tuple(map(printable, notes)))


def _fit_text(fit: LinearFit | PowerFit) -> str:
    off = f"off by at most {percent(fit.worst_relative_error)} where measured"
    if isinstance(fit, PowerFit):
        return f"fit: time/step grows as parameters^{fit.exponent:.2f}; {off}"
    half = f"; half of the throughput of an endless batch at {fit.half_batch:.3g}" if fit.half_batch else ""
    return (
        f"fit: time/step = {format_seconds(fit.fixed_seconds)} + {format_seconds(fit.each_seconds)} a sample "
        f"of a rank{half}; {off}"
    )
