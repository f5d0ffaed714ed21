"""How a training is shown: step times, the summary by strategy, the phases of a step, communication. Pure."""

from collections.abc import Callable, Iterator, Sequence

from raybench.documents.run.advice.limit import limit_of
from raybench.documents.run.advice.next_run import training_advice
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.communication import BANDS_IN_WORDS, HIGH_OVERHEAD, MODERATE_OVERHEAD, UNKNOWN
from raybench.documents.run.same_loss import run_agreements
from raybench.documents.run.training.point import TrainingPoint
from raybench.reports.model import Cell, Section
from raybench.reports.text import fixed, percent, percent_beside, printable
from raybench.reports.workloads.cells import gibibytes, grid_of, megabytes, milliseconds, number, verdict
from raybench.reports.workloads.display import Json, Row, display_of_points, points_of
from raybench.reports.workloads.profile import profile_sections
from raybench.reports.workloads.training_summary import advice_of, summary_grid_of
from raybench.stats import deviation
from raybench.units import format_seconds

_GIB = 2**30
_MEMORY_IS = {"cuda": "memory of the device", "rss": "resident memory of the rank's process (RSS), no device's"}
_BAND_TONES = {"high": "bad", "moderate to high": "warn", "moderate": "warn"}


def _sections(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Section]:
    trained = [(one, point) for one in benchmarks for point in points_of([one], TrainingPoint)]
    if not trained:
        return
    points = [point for _, point in trained]
    yield Section(title="Training", grid=grid_of(_TRAINING, points), notes=tuple(_training_notes(trained)))
    advice = advice_of(points)
    losses = [one.text for one in run_agreements(benchmarks)]
    notes = tuple(map(printable, [*([advice] if advice else []), *losses]))
    yield Section(title="Training summary", grid=summary_grid_of(points), notes=notes)
    whole = [point for point in points if point.complete]
    if whole:
        yield Section(title="What limits a step", grid=grid_of(_LIMITS, whole))
    learned = [point for point in points if point.validation]
    if learned:
        yield Section(title="Learning", grid=grid_of(_LEARNING, learned), notes=tuple(_learning_notes(learned)))
    copies = any("copy" in point.phases for point in points)
    phases = [one for one in _PHASES if copies or one[0] != "copy to the device"]
    yield Section(title="Phases of a step", grid=grid_of(tuple(phases), points))
    if any(point.communication.best_exposed is not None for point in points):
        yield Section(title="Communication", grid=grid_of(_COMMUNICATION, points), notes=_communication_notes(points))
    yield from profile_sections(points)


def _training_notes(trained: Sequence[tuple[BenchmarkResult, TrainingPoint]]) -> Iterator[str]:
    for benchmark, point in trained:
        name = printable(point.label)
        if len(point.launches) > 1:
            means = [sum(launch) / len(launch) for launch in point.launches]
            mean = sum(means) / len(means)
            spread = deviation(means, mean)
            yield (
                f"{name}: {len(means)} launches, mean step {format_seconds(mean)}, stddev {format_seconds(spread)} "
                f"({percent(spread / mean)})"
            )
        if point.memory_kind == "rss":
            yield f"{name}: rss: the peak is the resident memory of the rank's process (RSS), and no device's"
        if point.mfu is None and point.peak_reason:
            yield f"{name}: no MFU: {printable(point.peak_reason)}"
        if point.gpu_utilization_reason:
            yield f"{name}: how busy the GPU was is unknown: {printable(point.gpu_utilization_reason)}"
        if point.verified is None:
            yield f"{name}: not compared with one process: {printable(point.check_reason or 'no reason given')}"
        if point.straggler_reason is None and not point.stragglers:
            yield f"{name}: no rank holds up the others"
        yield from (f"{name}: {printable(remark)}" for remark in point.communication.remarks)
        yield from (printable(warning) for warning in benchmark.warnings)
        if benchmark.reason:
            yield f"{name}: {printable(benchmark.reason)}"


def _learning_notes(points: Sequence[TrainingPoint]) -> Iterator[str]:
    for point in points:
        name, facts = printable(point.label), point.known_facts
        held = f"{facts.validation_samples} samples held out of {printable(facts.data or 'its data')}"
        yield f"{name}: {held}, {facts.training_samples} to train on; evaluated between timed steps"
        if facts.data_remark:
            yield f"{name}: {printable(facts.data_remark)}"
        if point.learns is False:
            yield f"{name}: the loss of what it was not trained on did not fall: nothing was learned that holds"


def _validation_loss(point: TrainingPoint) -> Cell:
    first, last = (point.validation[place].loss for place in (0, -1))
    text = " to ".join("not a number" if one is None else f"{one:.4f}" for one in (first, last))
    return Cell(text=text, tone="bad" if point.learns is False else "strong")


def _best_validation(point: TrainingPoint) -> Cell:
    best = point.best_validation
    return Cell(text="-" if best is None else f"{best.loss:.4f} after step {best.step}")


def _name(point: TrainingPoint) -> Cell:
    name = printable(point.label)
    return Cell(text=name) if point.complete else Cell(text=f"{name} (partial)", tone="warn")


def _communication_notes(points: Sequence[TrainingPoint]) -> tuple[str, ...]:
    notes = [f"overhead: exposed communication over the step; {BANDS_IN_WORDS}"]
    if any("differencing_of_gradients_only" in point.communication.exposed for point in points):
        notes.append("fsdp: differencing leaves out what gathering parameters costs; the profiler's figure counts")
    notes += [
        f"{printable(one.label)}: overhead unknown: {one.overhead_reason}" for one in points if one.overhead_reason
    ]
    return tuple(notes)


def _memory(point: TrainingPoint) -> Cell:
    peak = gibibytes(point.peak_allocated_bytes)
    return peak if point.memory_kind == "cuda" else Cell(text=f"{peak.text} rss")


def _mfu(point: TrainingPoint) -> Cell:
    return Cell(text=percent(point.mfu), tone="strong" if point.mfu is not None else "")


def _loss(point: TrainingPoint) -> Cell:
    return Cell(text=f"{point.losses[0]:.4f} to {point.losses[-1]:.4f}")


def _phase(name: str) -> Callable[[TrainingPoint], Cell]:
    def cell(point: TrainingPoint) -> Cell:
        seconds = point.phases.get(name)
        if seconds is None:
            return Cell(text="-")
        return Cell(text=f"{fixed(seconds * 1e3, 8)} ({percent(seconds / point.seconds.mean)})")

    return cell


def _exposed(name: str) -> Callable[[TrainingPoint], Cell]:
    def cell(point: TrainingPoint) -> Cell:
        exposed = point.communication.exposed
        if name == "differencing" and name not in exposed:
            name_there = "differencing_of_gradients_only"
            return milliseconds(exposed.get(name_there))
        return milliseconds(exposed.get(name))

    return cell


def _overhead(point: TrainingPoint) -> Cell:
    band = point.overhead_band
    if point.overhead is None or band == UNKNOWN:
        return Cell(text="-") if band is None else Cell(text=UNKNOWN, tone="warn")
    text = percent_beside(point.overhead, (MODERATE_OVERHEAD, HIGH_OVERHEAD))
    return Cell(text=f"{text} {band}", tone=_BAND_TONES.get(band or "", ""))


_TRAINING: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("step mean (ms)", lambda point: Cell(text=fixed(point.seconds.mean * 1e3, 8), tone="strong")),
    ("median", lambda point: milliseconds(point.seconds.median)),
    ("p95", lambda point: milliseconds(point.seconds.p95)),
    ("min", lambda point: milliseconds(point.seconds.min)),
    ("max", lambda point: milliseconds(point.seconds.max)),
    ("stddev", lambda point: milliseconds(point.seconds.stddev)),
    ("samples/s", lambda point: Cell(text=fixed(point.samples_per_s, 9), tone="strong")),
    ("tokens/s", lambda point: number(point.tokens_per_s)),
    ("TFLOP/s a rank", lambda point: Cell(text=f"{point.tflop_per_s_per_rank:.4g}")),
    ("MFU", _mfu),
    ("loss", _loss),
    ("peak (GiB)", _memory),
    ("matches single-process reference", lambda point: verdict(point.verified)),
)
_PHASES: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("data (ms)", _phase("data")),
    ("copy to the device", _phase("copy")),
    ("forward", _phase("forward")),
    ("backward", _phase("backward")),
    ("gradient sync", _phase("gradient_sync")),
    ("optimizer", _phase("optimizer")),
    ("cpu", lambda point: Cell(text=percent(point.cpu_utilization))),
    ("gpu", lambda point: Cell(text=percent(point.gpu_utilization))),
)
_LEARNING: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("training loss", _loss),
    ("validation loss", _validation_loss),
    ("least", _best_validation),
    ("accuracy", lambda point: Cell(text=percent(point.validation[-1].accuracy))),
    ("epochs", lambda point: Cell(text=f"{point.validation[-1].epoch:.2f}")),
    ("evaluations", lambda point: Cell(text=str(len(point.validation)))),
)
_LIMITS: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("limited by", lambda point: Cell(text=limit_of(point))),
    ("what to change", lambda point: Cell(text=printable("; ".join(training_advice(point))))),
)
_COMMUNICATION: tuple[tuple[str, Callable[[TrainingPoint], Cell]], ...] = (
    ("benchmark", _name),
    ("exposed by differencing (ms)", _exposed("differencing")),
    ("by profiler", _exposed("profiler")),
    ("by replay", _exposed("replay")),
    ("total", lambda point: milliseconds(point.communication.total)),
    ("computation", lambda point: milliseconds(point.communication.computation)),
    ("idle", lambda point: milliseconds(point.communication.idle)),
    ("MB per step", lambda point: number(megabytes(point.communication.wire_bytes))),
    ("formula", lambda point: number(megabytes(point.communication.expected_bytes))),
    ("overhead", _overhead),
)


def _row(point: TrainingPoint) -> Row:
    figures = f"{format_seconds(point.seconds.mean)} a step, {fixed(point.samples_per_s)} samples/s"
    wrong = f"WRONG: {printable(point.wrong)}" if point.wrong else ""
    waits = f"{point.overhead:.0%} waits for communication" if point.overhead is not None else ""
    done = f"{len(point.samples_seconds)} of {point.steps_asked} timed steps"
    return _name(point).text, figures, wrong or (waits if point.complete else done)


def _summary(point: TrainingPoint) -> Json:
    return {
        "steps": len(point.samples_seconds),
        "steps_asked": point.steps_asked,
        "complete": point.complete,
        "parameters": point.parameter_count,
        "step_time_ms": point.seconds.mean * 1e3,
        "min_step_time_ms": point.seconds.min * 1e3,
        "max_step_time_ms": point.seconds.max * 1e3,
        "samples_per_s": point.samples_per_s,
        "tokens_per_s": point.tokens_per_s,
        "tflop_per_s_per_rank": point.tflop_per_s_per_rank,
        "mfu": point.mfu,
        "overhead": point.overhead,
        "overhead_band": point.overhead_band,
        "memory": dict(point.memory) | {"is": _MEMORY_IS.get(str(point.memory_kind), "unknown")},
        "first_loss": point.losses[0],
        "final_loss": point.losses[-1],
        **({"validation_loss": point.validation[-1].loss} if point.validation else {}),
        "verified": point.verified,
    }


def _advice(benchmarks: Sequence[BenchmarkResult]) -> Iterator[str]:
    for point in points_of(benchmarks, TrainingPoint):
        if point.complete and not point.failed:
            yield printable(f"{point.label}: {'; '.join(training_advice(point))}")


DISPLAY = display_of_points(
    TrainingPoint,
    sections=_sections,
    advice=_advice,
    row=_row,
    summary=_summary,
    columns=("samples_per_s", "tokens_per_s", "mfu", "overhead"),
    plots="raybench.reports.plots.training:training_plots",
)
