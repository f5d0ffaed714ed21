"""A run (``result.json``), or several, as one side: every time that was sampled, and what else has a direction. Pure.

``ALLOWED``: by which share two launches of the same thing may differ, where only one of them was measured. Published
repeats on one machine type differ by 0.3 to 3 % at large messages; smaller ones by tens of percent from launch to
launch (measured with gloo up to 4 MiB). Emulated nodes share one machine with whatever else runs there: twelve runs of
the same all_reduce took from 0.7 to 14.5 ms, neighbours in time up to three times as long as each other.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raybench.comparison.disturbed import disturbance_of
from raybench.comparison.environment import environment_of, facts_of_ranks, text_of
from raybench.comparison.joined import joined_side
from raybench.comparison.side import (
    JUDGED,
    NOT_JUDGED,
    OPEN,
    SUSPECT,
    WRONG_DATA,
    Better,
    FigureKey,
    Launch,
    Side,
    SideFigure,
    blocks_of,
    each_once,
)
from raybench.comparison.troubles import gaps_of, troubles_of
from raybench.documents.run.benchmark import BenchmarkResult, MeasuredWorkload
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.documents.run.figures import FiguresPoint
from raybench.documents.run.machine_use import stolen_share, stolen_shares
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.documents.run.same_loss import Curve, curve_of, is_judged
from raybench.documents.run.standalone import StandaloneResult
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.verdict import BASELINE, Check, all_checks
from raybench.expectations.baseline import shape_of
from raybench.more_launches import is_long
from raybench.stability import point_label
from raybench.stats import median
from raybench.units import exact_bytes, format_bytes

ALLOWED = 0.03
ALLOWED_SHORT = 0.30
ALLOWED_EMULATED = 2.0
_WATCHING = frozenset(
    {"output_dir", "timeout", "address", "master_port", "log_limit", "keep_warm", "baseline", "agent", "isolate"}
)  # settings of a run by which nothing is measured
_PLANNED = "repeats"
_BESIDE_LOSS = frozenset({"profile", "data_workers"})  # options that change no sum
Found = Iterator[tuple[FigureKey, SideFigure]]


def run_side(name: str, results: Sequence[RunResult]) -> Side:
    """The runs of one side, at least one; where they do not agree on something, it has all of their values."""
    return joined_side(name, [_launched_again(_of_run(name, result), result) for result in results])


def _launched_again(side: Side, result: RunResult) -> Side:
    """With those figures named that have more launches than were planned."""
    planned = result.config.get(_PLANNED)
    if not isinstance(planned, int):
        return side
    return replace(
        side, figures={key: replace(one, again=len(one.launches) > planned) for key, one in side.figures.items()}
    )


def _of_run(name: str, result: RunResult) -> Side:
    return Side(
        name=name,
        kind="run",
        run_ids=(result.run_id,),
        started_at=result.started_at,
        machine={key: text_of(value) for key, value in shape_of(result.cluster).items()},
        configuration=dict(_flat(result.config)),
        environment=environment_of(result),
        outcomes={"verdict": result.conclusion.verdict, "status": result.status},
        troubles=troubles_of(result),
        figures=each_once(_figures(result.benchmarks, emulated=result.cluster.emulated)),
        losses=_losses(result.benchmarks),
        curves=_curves(name, result.benchmarks),
        gaps=tuple(gaps_of(result.benchmarks)),
        checks=_checks(all_checks(result)),
        disturbance=disturbance_of(result.benchmarks, result.cluster),
    )


def _checks(checks: Sequence[Check]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for one in checks:
        is_open = one.undecided or one.name == BASELINE
        word = JUDGED if one.outcome != "not judged" else SUSPECT if one.hosts else OPEN if is_open else NOT_JUDGED
        found.setdefault(one.name, set()).add(word)
    return {name: frozenset(words) for name, words in found.items()}


def _losses(benchmarks: Sequence[BenchmarkResult]) -> Mapping[str, tuple[float, ...]]:
    trained = [one for benchmark in benchmarks for one in benchmark.workload if isinstance(one, TrainingPoint)]
    return {one.label: one.losses for one in trained if one.failed is None}


def _curves(name: str, benchmarks: Sequence[BenchmarkResult]) -> Mapping[str, tuple[Curve, ...]]:
    """Two with the same key have to reach the same loss: every option, the seed too, and what decides it besides."""
    found = {}
    for benchmark in benchmarks:
        options = {option: value for option, value in benchmark.parameters.items() if option not in _BESIDE_LOSS}
        for one in benchmark.workload:
            if isinstance(one, TrainingPoint) and one.complete and is_judged(one.losses, one.known_facts.dtype):
                curve = curve_of(one)
                key = (json.dumps(options, sort_keys=True), curve.key)
                found[one.label] = (replace(curve, name=f"{one.label} of {name}", key=key),)
    return found


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif prefix or name not in _WATCHING:
            yield prefix + name, text_of(value)


def standalone_side(name: str, result: StandaloneResult) -> Side:
    """What ranks measured under torchrun: of the machine it says no more than ranks and backend."""
    known = {"ranks": result.world_size, "backend": result.backend}
    return Side(
        name=name,
        kind="torchrun",
        run_ids=(name,),
        machine={key: str(value) for key, value in known.items() if value is not None},
        environment=facts_of_ranks(result),
        outcomes={"status": result.status},
        troubles=troubles_of(result),
        figures=each_once(_figures(result.benchmarks, emulated=False)),
        losses=_losses(result.benchmarks),
        curves=_curves(name, result.benchmarks),
        gaps=tuple(gaps_of(result.benchmarks)),
    )


def _figures(benchmarks: Sequence[BenchmarkResult], *, emulated: bool) -> Found:
    for benchmark in benchmarks:
        stolen, lost = stolen_share(benchmark.machine_use), stolen_shares(benchmark.machine_use)
        for order, point in enumerate(benchmark.points):
            if point.samples_seconds:
                key, figure = _of_point(benchmark, point, order, emulated=emulated)
                yield key, replace(figure, stolen=(stolen,), lost=(_lost(lost, point.launches),))
        for order, one in enumerate(benchmark.workload):
            if one.failed is None:
                for key, figure in _of_workload(benchmark, one, order, emulated=emulated):
                    launches = one.launches if isinstance(one, TrainingPoint) else ()
                    known = replace(figure, stolen=(stolen,), lost=(_lost(lost, launches),))
                    yield key, known if figure.unit == "s" else figure


def _lost(lost: Mapping[int, tuple[float, ...]], launches: Sequence[Sequence[object]]) -> tuple[tuple[float, ...], ...]:
    """Of each launch that has samples; none where it is not known of one of them."""
    measured = [number for number, launch in enumerate(launches) if any(launch)]
    return tuple(lost[number] for number in measured) if all(number in lost for number in measured) else ()


def parameters_text(benchmark: BenchmarkResult) -> str:
    """The parameters of a benchmark as one text, whatever their order."""
    return json.dumps(dict(benchmark.parameters), sort_keys=True)


def _of_point(benchmark: BenchmarkResult, point: Point, order: int, *, emulated: bool) -> tuple[FigureKey, SideFigure]:
    launches = tuple(launch if len(launch) > 1 else _cut(launch) for launch in point.launches if any(launch))
    figure = SideFigure(
        unit="s",
        runs=(launches,),
        allowed=ALLOWED_EMULATED if emulated else ALLOWED if is_long(point) else ALLOWED_SHORT,
        order=order,
        problem=_problem(point, launches),
        verified=point.verified,
    )
    label = point_label(point).replace(format_bytes(point.message_bytes), exact_bytes(point.message_bytes))
    return _key(benchmark, label), figure


def _problem(point: Point, launches: Sequence[Launch]) -> str:
    if point.wrong_elements or point.verified is False:
        return WRONG_DATA
    timeless = any(block and median(block) <= 0 for launch in launches for block in launch)
    return "neighbouring samples of 0 s" if timeless else ""


def _cut(launch: Launch) -> Launch:
    return blocks_of(launch[0]) if launch else ()


def _key(benchmark: BenchmarkResult, point: str, quantity: str = "time") -> FigureKey:
    return FigureKey(
        benchmark=benchmark.label,
        parameters=parameters_text(benchmark),
        point=point,
        quantity=quantity,
    )


def _of_workload(benchmark: BenchmarkResult, one: MeasuredWorkload, order: int, *, emulated: bool) -> Found:
    allowed = ALLOWED_EMULATED if emulated else ALLOWED
    match one:
        case TrainingPoint():
            found = _of_training(one, allowed)
        case MemoryPoint():
            found = _of_memory(one)
        case CheckpointPoint():
            found = _of_checkpoint(one)
        case FiguresPoint():
            found = _of_samples(one, allowed)
    for quantity, figure in found:
        yield _key(benchmark, one.label, quantity), replace(figure, order=order, verified=one.verified)


Quantities = Iterator[tuple[str, SideFigure]]


def _of_training(one: TrainingPoint, allowed: float) -> Quantities:
    problem = one.wrong or ("" if one.complete else "not complete")
    launches = tuple(blocks_of(launch) for launch in one.launches if launch)
    yield "step", SideFigure(unit="s", runs=(launches,), is_mean=True, allowed=allowed, problem=problem)
    if one.peak_memory_bytes:
        yield "peak memory", counted(one.peak_memory_bytes, "bytes", "lower", allowed=ALLOWED)
    if one.overhead:
        yield "overhead", counted(one.overhead, "", "")


def _of_memory(one: MemoryPoint) -> Quantities:
    if one.complete and one.largest_batch:
        figure = counted(one.largest_batch, "", "higher")
        yield "largest batch", replace(figure, limits=(one.limit_bytes,), is_capped=one.reached_most)
    for use in one.uses:
        if use.peak:
            yield f"peak memory, batch {use.batch_size}", counted(use.peak, "bytes", "lower", allowed=ALLOWED)


def _of_checkpoint(one: CheckpointPoint) -> Quantities:
    problem = one.wrong or ("" if one.complete else "not complete")
    for quantity, samples in (
        ("blocked", one.blocked_seconds),
        ("durable", one.durable_seconds),
        ("load", one.load_seconds),
    ):
        if samples:
            runs = ((blocks_of(samples),),)
            yield quantity, SideFigure(unit="s", runs=runs, allowed=ALLOWED_SHORT, problem=problem)


def _of_samples(one: FiguresPoint, allowed: float) -> Quantities:
    if one.samples_seconds:
        runs = ((blocks_of(one.samples_seconds),),)
        yield "time", SideFigure(unit="s", runs=runs, allowed=allowed, problem=one.wrong or "")
    for figure in one.figures:
        if figure.value is not None and figure.value > 0:
            yield figure.name, counted(figure.value, figure.unit, "")


def counted(value: float, unit: str, is_better: Better, *, allowed: float = 0.0) -> SideFigure:
    """A figure that is known once a run, with no samples of its own."""
    return SideFigure(unit=unit, runs=((((float(value),),),),), is_better=is_better, allowed=allowed)
