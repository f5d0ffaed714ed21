"""The records of all ranks to one point of the result. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from raybench.benchmarks.messages.combine import operation_seconds
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.exposure.profile import profile_of
from raybench.benchmarks.training.models.shapes import flop_per_sample
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import PHASES, TrainingRecord, Validation, differences
from raybench.benchmarks.training.straggler import LEAST_STEPS, stragglers, undecided
from raybench.documents.run.communication import Communication
from raybench.documents.run.facts import TrainingFacts, typed
from raybench.documents.run.training.memory_growth import MemoryGrowth
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.straggler import Straggler
from raybench.documents.run.training.validation import ValidationPoint
from raybench.hardware.gpus import find_gpu, unknown_reason
from raybench.stats import median, order_interval
from raybench.timeline.growth import growth_by_step

Launch = Mapping[int, TrainingRecord]


def training_point(
    launches: Sequence[Launch], spec: BenchmarkSpec, world_size: int, cut: Launch | None = None
) -> TrainingPoint:
    """One point from every rank's record, ``launches[launch][rank]``.

    The ranks of a launch have equally many steps. ``cut``: a further launch that was cut, and counts in no figure.
    """
    options: TrainingOptions = spec.options
    records = [record for launch in launches for _, record in sorted(launch.items())]
    first = records[0]
    steps = tuple(map(_step_seconds, launches))
    verified, check = _checked(launches)
    found, reason = _stragglers(launches)
    blind = _undecided(launches) if reason is None and not found else None
    peak, why = _peak(first)
    phases = _phases(records)
    communication = _communication(launches, spec.name)
    if "gradient_sync" not in phases and communication.best_exposed is not None:
        waiting = min(max(communication.best_exposed, 0.0), phases.get("backward", 0.0))
        phases |= {"gradient_sync": waiting, "backward": phases.get("backward", 0.0) - waiting}
    return TrainingPoint(
        label=first.label,
        world_size=world_size,
        launches=steps,
        rank_seconds=_rank_seconds(launches),
        batch_size=options.batch_size * options.accumulate,
        tokens_per_sample=typed(TrainingFacts, first.facts).tokens_per_sample,
        flop_per_sample=flop_per_sample(options, spec.name),
        phases={name: phases[name] for name in PHASES if name in phases},
        losses=_losses(launches[0]),
        validation=tuple(map(_validation, first.validations)),
        memory=_memory(records),
        utilization=_utilization(records),
        communication=communication,
        facts=dict(first.facts),
        verified=verified,
        check=check,
        stragglers=found,
        straggler_reason=reason or blind,
        straggler_undecided=blind is not None,
        peak_tflops=peak,
        peak_reason=why,
        steps_asked=options.steps * len(launches),
        complete=not any(record.interim for record in records),
        cut_seconds=_step_seconds(cut) if cut else (),
        rank_step_seconds=tuple(spread for launch in launches for spread in _rank_step_seconds(launch)),
        memory_growth=tuple(_memory_growth(launches)),
        profile=profile_of(
            {rank: one.exposure.division for rank, one in launches[0].items() if one.exposure.division is not None}
        ),
    )


def _validation(one: Validation) -> ValidationPoint:
    """JSON has no NaN: a loss that is not a number is none."""
    loss = one.loss if isfinite(one.loss) else None
    return ValidationPoint(step=one.step, epoch=one.epoch, loss=loss, accuracy=one.accuracy, samples=one.samples)


def _step_seconds(launch: Launch) -> tuple[float, ...]:
    return operation_seconds([launch[rank].stamps for rank in sorted(launch)])


def _rank_step_seconds(launch: Launch) -> Iterator[tuple[float, float]]:
    """The fastest and the slowest rank's own time of each step, from the end of the step before on that rank."""
    steps = (
        [after - before for before, after in zip((0.0, *record.stamps), record.stamps, strict=False)]
        for record in launch.values()
    )
    yield from ((min(seconds), max(seconds)) for seconds in zip(*steps, strict=True))


def _rank_seconds(launches: Sequence[Launch]) -> tuple[float, ...]:
    """Each rank's own mean step."""
    return tuple(
        sum(launch[rank].stamps[-1] for launch in launches) / sum(len(launch[rank].stamps) for launch in launches)
        for rank in sorted(launches[0])
    )


def _losses(launch: Launch) -> tuple[float, ...]:
    """The mean over ranks of each step's loss."""
    return tuple(sum(step) / len(step) for step in zip(*(record.losses for record in launch.values()), strict=True))


def _phases(records: Sequence[TrainingRecord]) -> dict[str, float]:
    """Mean seconds of each phase a step, over ranks and steps: they add up to the mean step of the ranks."""
    names = {name for record in records for name in record.phases}
    return {
        name: sum(sum(record.phases.get(name, ())) for record in records) / sum(len(one.stamps) for one in records)
        for name in names
    }


def _memory(records: Sequence[TrainingRecord]) -> dict[str, Any]:
    """The largest peak and the mean of the means, over ranks."""
    merged: dict[str, Any] = {}
    for name, value in records[0].memory.items():
        values = [record.memory[name] for record in records]
        if isinstance(value, str):
            merged[name] = value
        else:
            numbers = [float(one) for one in values]
            merged[name] = sum(numbers) / len(numbers) if name.startswith("mean") else max(numbers)
    return merged


def _memory_growth(launches: Sequence[Launch]) -> Iterator[MemoryGrowth]:
    """Of the first launch, where it grew in all of them."""
    for rank in sorted(launches[0]):
        records = [launch[rank] for launch in launches]
        grown = [growth_by_step(rank, str(one.memory["kind"]), one.held_bytes, one.free_bytes) for one in records]
        if grown[0] is not None and all(grown):
            yield grown[0]


def _utilization(records: Sequence[TrainingRecord]) -> dict[str, float | None]:
    result: dict[str, float | None] = {}
    for name in records[0].utilization:
        values = [value for record in records if (value := record.utilization[name]) is not None]
        result[name] = sum(values) / len(values) if values else None
    return result


def _peak(record: TrainingRecord) -> tuple[float | None, str | None]:
    """The peak that an MFU is of, or why there is none."""
    facts = typed(TrainingFacts, record.facts)
    name, dtype = facts.gpu, facts.dtype or ""
    if name is None:
        return None, "a CPU has no peak in the hardware table"
    gpu = find_gpu(name)
    if gpu is None:
        return None, unknown_reason(name)
    if dtype == "float8":
        return None, "only the linear layers run in float8: no one peak is the right one"
    peak = gpu.peak_tflops(dtype)
    return peak, None if peak else f"the hardware table has no {dtype} peak for {gpu.name}"


def _checked(launches: Sequence[Launch]) -> tuple[bool | None, dict[str, Any]]:
    """Rank 0's comparison of each launch with the reference: the worst counts."""
    checks = [launch[min(launch)].check for launch in launches]
    found = [value for check in checks if (value := differences(check)) is not None]
    first = checks[0]
    report = {
        "max_relative_difference": max(found, default=None),
        "tolerance": first.tolerance,
        "losses": list(first.losses),
        "expected_losses": list(first.expected_losses),
        "gradient_norms": list(first.gradient_norms),
        "expected_gradient_norms": list(first.expected_gradient_norms),
        "reason": first.reason,
    }
    return (max(found) <= first.tolerance if found else None), report


def _stragglers(launches: Sequence[Launch]) -> tuple[tuple[Straggler, ...], str | None]:
    """Ranks that every launch names, and why nobody could be named where that is so."""
    if not all(_tells_waiting(record) for launch in launches for record in launch.values()):
        return (), "nothing tells the ranks' own time from their waiting"
    if len(launches[0]) < 3:
        return (), "with fewer than three ranks nobody is the odd one out"
    if any(len(record.stamps) < LEAST_STEPS for launch in launches for record in launch.values()):
        return (), f"it takes {LEAST_STEPS} steps or more; raise --steps"
    found = [stragglers(*own_and_wait(launch), pieces_of(launch)) for launch in launches]
    common = set.intersection(*({one.rank for one in launch} for launch in found))
    return tuple(one for one in found[0] if one.rank in common), None


def _undecided(launches: Sequence[Launch]) -> str | None:
    """Why it is open whether a rank that took far longer in every launch holds up the rest."""
    reasons = [undecided(own_and_wait(launch)[0]) for launch in launches]
    return reasons[0] if all(reasons) else None


def _tells_waiting(record: TrainingRecord) -> bool:
    return "gradient_sync" in record.phases or bool(record.collectives)


def own_and_wait(launch: Launch) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """Each rank's own seconds and waiting seconds by step.

    Replicas wait in gradient sync. Shards wait in all their collectives: on a CPU, where these block, the rest of the
    step is the rank's own; on a GPU, where computation goes on beside them, all but what they take longer than those of
    the rank that waits least.
    """
    if any(record.collectives for record in launch.values()):
        return _of_shards(launch)
    own: dict[int, list[float]] = {}
    wait: dict[int, list[float]] = {}
    for rank, record in launch.items():
        wait[rank] = list(record.phases["gradient_sync"])
        others = [values for name, values in record.phases.items() if name != "gradient_sync"]
        own[rank] = [sum(step) for step in zip(*others, strict=True)]
    return own, wait


def pieces_of(launch: Launch) -> dict[int, list[tuple[float, ...]]] | None:
    """Each rank's own seconds by step, piece by piece; None where a step is not known in pieces.

    Of replicas the phases but gradient sync, of shards what is between collectives.
    """
    if not any(record.collectives for record in launch.values()):
        return {
            rank: list(zip(*(values for name, values in record.phases.items() if name != "gradient_sync"), strict=True))
            for rank, record in launch.items()
        }
    if not all(record.pieces for record in launch.values()):
        return None
    return {rank: list(record.pieces) for rank, record in launch.items()}


def _of_shards(launch: Launch) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    least = [min(step) for step in zip(*(record.collectives for record in launch.values()), strict=True)]
    own, wait = {}, {}
    for rank, record in launch.items():
        hidden = least if typed(TrainingFacts, record.facts).gpu else [0.0] * len(least)
        wait[rank] = [seconds - floor for seconds, floor in zip(record.collectives, hidden, strict=True)]
        steps = [sum(phases) for phases in zip(*record.phases.values(), strict=True)]
        own[rank] = [step - waiting for step, waiting in zip(steps, wait[rank], strict=True)]
    return own, wait


def _communication(launches: Sequence[Launch], strategy: str) -> Communication:
    """The estimators' answers: the slowest rank decides a step, medians over launches and ranks elsewhere."""
    exposures = [record.exposure for launch in launches for record in launch.values()]

    def middle(name: str) -> float | None:
        values = [value for one in exposures if (value := getattr(one, name)) is not None]
        return median(values) if values else None

    communication, overlap = middle("communication"), middle("overlap")
    differenced, pairs = _differenced(launches)
    partial = strategy == "fsdp"  # parameters are gathered with and without synchronisation
    exposed = {
        "profiler": None if communication is None or overlap is None else communication - overlap,
        "replay": middle("replayed"),
        "differencing_of_gradients_only" if partial else "differencing": differenced,
    }
    return Communication(
        exposed=exposed,
        total=communication,
        computation=middle("computation"),
        overlap=overlap,
        idle=middle("idle"),
        isolated=middle("isolated"),
        wire_bytes=middle("wire_bytes"),
        expected_bytes=typed(TrainingFacts, next(iter(launches[0].values())).facts).expected_wire_bytes,
        operations=exposures[0].operations,
        remarks=tuple(dict.fromkeys(remark for one in exposures for remark in one.remarks)),
        pairs=len(pairs) or None,
        interval=order_interval(pairs),
    )


def _differenced(launches: Sequence[Launch]) -> tuple[float | None, list[float]]:
    """Median step with synchronisation less that without, the slowest rank deciding each; and that of each pair."""
    found, each = [], []
    for launch in launches:
        exposures = [record.exposure for record in launch.values()]
        if not all(one.synchronised and one.unsynchronised for one in exposures):
            continue
        slowest = [
            [max(step) for step in zip(*(getattr(one, name) for one in exposures), strict=True)]
            for name in ("synchronised", "unsynchronised")
        ]
        found.append(median(slowest[0]) - median(slowest[1]))
        each += [mine - without for mine, without in zip(*slowest, strict=True)]
    return (median(found) if found else None), each
