"""Studies, fabric tests and preflights as sides. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from raybench.comparison.run_side import ALLOWED, ALLOWED_EMULATED, counted
from raybench.comparison.side import (
    TWICE,
    WRONG_DATA,
    Better,
    FigureKey,
    Side,
    SideFigure,
    blocks_of,
    each_once,
    label_of,
)
from raybench.comparison.troubles import worst_by_name
from raybench.documents.fabric import FabricReport, FabricTest
from raybench.documents.preflight import PreflightHost, PreflightReport
from raybench.documents.run.same_loss import BOUNDS, Curve
from raybench.documents.study.result import StudyResult
from raybench.documents.study.trial import Measured, TrialResult

# Two tests of a path in one direction, of a second each; nothing published, and perftest's own figures agree within it.
ALLOWED_OF_PATH = 0.10


_OfTrial = tuple[TrialResult, Measured, float]


def study_side(name: str, study: StudyResult) -> Side:
    """A study: each of its trials is a run of its variant."""
    figures: dict[FigureKey, list[_OfTrial]] = {}
    trained = list(_trained(name, study))
    for trial in study.trials:
        for measured in trial.measured if trial.status == "complete" and not trial.wrong else ():
            for key, value in _of_trial(study, trial, measured):
                figures.setdefault(key, []).append((trial, measured, value))
    return Side(
        name=name,
        kind="study",
        run_ids=(study.study_id,),
        started_at=study.started_at or "",
        machine=_machine_of(study),
        configuration={
            "kind": study.kind,
            "workload": " ".join(study.workload),
            "repeats": str(study.repeats),
            **{f"variant {one.name}": " ".join(one.arguments) or "-" for one in study.variants},
        },
        environment=dict(study.environment.versions),
        outcomes={"verdict": study.conclusion.verdict, "status": study.status},
        troubles=worst_by_name(list(_of_variants(study))),
        figures={key: _of_trials(key, found, emulated=bool(study.emulated)) for key, found in figures.items()},
        losses=dict.fromkeys((label for label, _ in trained), ()),
        curves={label: tuple(one for of, one in trained if of == label and one) for label, one in trained if one},
        gaps=(*_without_figures(study, figures), *_without_losses(trained)),
    )


def _trained(name: str, study: StudyResult) -> Iterator[tuple[str, Curve | None]]:
    """The ends of the losses of all that was measured, by variant; None where they cannot be judged.

    So of a loss that is no number, of a type whose rounding is not known, and of what is no training. Those with the
    same key were asked for alike, the seed too, and have to reach the same.
    """
    for trial in study.trials:
        for one in trial.measured if trial.status == "complete" and not trial.wrong else ():
            yield f"{trial.trial.variant}, {one.label}", _curve(name, study, trial, one)


def _curve(name: str, study: StudyResult, trial: TrialResult, one: Measured) -> Curve | None:
    if one.first_loss is None or one.loss is None or one.dtype not in BOUNDS:
        return None
    decides = {
        "ranks": trial.world_size,
        "parameters": one.parameters,
        "dtype": one.dtype,
        "data": one.data,
        "batch size a rank": one.batch_size_per_rank,
    }  # not the steps, which are those of all launches, further ones too; losses are those of the first
    return Curve(
        name=f"{trial.trial.variant}, {one.label} of {name}",
        key=(_asked(study, trial.trial.variant), tuple(sorted(decides.items()))),
        dtype=one.dtype,
        first=one.first_loss,
        last=one.loss,
        validation=one.validation_loss,
    )


def _without_figures(study: StudyResult, figures: Mapping[FigureKey, list[_OfTrial]]) -> Iterator[str]:
    """Figures that some of the trials alone have that could have them."""
    for key, found in figures.items():
        variant = found[0][0].trial.variant
        able = [one for one in study.trials if one.trial.variant == variant and one.status == "complete"]
        having = {trial.trial.number for trial, *_ in found}
        lack = sum(not one.wrong and one.trial.number not in having for one in able)
        if lack:
            yield f"{lack} of {len(able)} trials have no {label_of(key)}"


def _without_losses(trained: Sequence[tuple[str, Curve | None]]) -> Iterator[str]:
    """Trainings of which some trials alone have losses that can be judged."""
    known, lack = (Counter(of for of, one in trained if (one is None) is is_lack) for is_lack in (False, True))
    for label in known:
        if lack[label]:
            both = known[label] + lack[label]
            yield f"{lack[label]} of {both} trials have no losses of {label} that can be judged"


def _of_variants(study: StudyResult) -> Iterator[tuple[str, str]]:
    """Variants of which a trial is not complete, has wrong data or is not there."""
    for one in study.trials:
        if one.status != "complete" or one.wrong:
            yield f"variant {one.trial.variant}", "fail" if one.wrong else one.status
    planned = Counter(name for block in study.order for name in block)
    planned.subtract(one.trial.variant for one in study.trials)
    yield from ((f"variant {name}", "missing") for name, count in planned.items() if count > 0)


def _machine_of(study: StudyResult) -> Mapping[str, str]:
    done = [trial for trial in study.trials if trial.measured]
    sizes = dict.fromkeys(f"{trial.node_count} x {trial.world_size}" for trial in done)
    return {
        "nodes x ranks": ", ".join(sizes) or "unknown",
        "backend": ", ".join(dict.fromkeys(trial.backend for trial in done)) or "unknown",
        "emulated": "unknown" if study.emulated is None else str(study.emulated),
    }


def _of_trial(study: StudyResult, trial: TrialResult, one: Measured) -> Iterator[tuple[FigureKey, float]]:
    key = FigureKey(
        benchmark=f"{study.kind} {trial.trial.variant}", parameters=_asked(study, trial.trial.variant), point=one.label
    )
    yield key, one.seconds
    if one.memory_bytes:
        yield replace(key, quantity="peak memory"), float(one.memory_bytes)


def _asked(study: StudyResult, variant: str) -> str:
    """What the trials of a variant were started with."""
    arguments = [" ".join(one.arguments) for one in study.variants if one.name == variant]
    return json.dumps({"workload": " ".join(study.workload), "arguments": " ".join(arguments)}, sort_keys=True)


def _of_trials(key: FigureKey, found: list[_OfTrial], *, emulated: bool) -> SideFigure:
    unit = "bytes" if key.quantity == "peak memory" else "s"
    verified = {measured.verified for _, measured, _ in found}
    return SideFigure(
        unit=unit,
        runs=tuple((((value,),),) for *_, value in found),
        allowed=ALLOWED_EMULATED if emulated and unit == "s" else ALLOWED,
        problem=WRONG_DATA if False in verified else TWICE if _is_there_twice(found) else "",
        verified=True if verified == {True} else None,
    )


def _is_there_twice(found: list[_OfTrial]) -> bool:
    """Whether a trial has it twice, or a trial is."""
    trials = Counter((trial.trial.number, trial.trial.block, trial.trial.variant) for trial, *_ in found)
    return max(trials.values()) > 1


def fabric_side(name: str, report: FabricReport) -> Side:
    """A fabric test: each direction of a path, and what it judged."""
    return Side(
        name=name,
        kind="fabric test",
        run_ids=(report.run_id,),
        started_at=report.started_at,
        machine={
            "hosts": " ".join(sorted(host.name for host in report.hosts)),
            "tool": report.tool,
            "unit": report.unit,
            "emulated": str(report.emulated),
        },
        configuration={key: str(value) for key, value in report.settings.items()},
        environment={
            f"{host.name} {port.rail} {port.device}": f"{port.rate}, {port.state}"
            for host in report.hosts
            for port in host.ports
        },
        outcomes={
            "verdict": report.verdict,
            "status": report.status,
            **worst_by_name(list(_verdicts_of_fabric(report))),
        },
        figures=each_once(_of_paths(report)),
    )


def _verdicts_of_fabric(report: FabricReport) -> Iterator[tuple[str, str]]:
    yield from ((f"host {host.name}", host.verdict) for host in report.hosts)
    yield from ((" ".join(("path", test.rail, *test.path)), test.verdict) for test in report.pairs)


def _of_paths(report: FabricReport) -> Iterator[tuple[FigureKey, SideFigure]]:
    unit, kind = report.unit, "latency" if report.unit == "us" else "bandwidth"
    for order, test in enumerate(report.pairs):
        if test.value:
            figure = counted(test.value, unit, "lower" if unit == "us" else "higher", allowed=ALLOWED_OF_PATH)
            yield _key_of(test, kind), replace(figure, order=order)


def _key_of(test: FabricTest, kind: str) -> FigureKey:
    source, destination = test.path
    return FigureKey(
        benchmark=f"{test.check} {test.rail}",
        parameters=f"{test.source.device} {test.destination.device}",
        point=f"{source} -> {destination}",
        quantity=kind,
    )


def preflight_side(name: str, report: PreflightReport) -> Side:
    """A preflight: the verdict of each check of each host, and the figures of active tests."""
    return Side(
        name=name,
        kind="preflight",
        run_ids=(name,),
        started_at=report.started_at,
        machine={"hosts": " ".join(sorted(host.host for host in report.hosts))},
        configuration={"level": str(report.level)},
        outcomes={"verdict": report.verdict, "status": report.status, **worst_by_name(list(_verdicts(report)))},
        figures=each_once(pair for host in report.hosts for pair in _of_host(host)),
    )


def _verdicts(report: PreflightReport) -> Iterator[tuple[str, str]]:
    for host in report.hosts:
        for check in host.checks:
            yield f"{host.host} {check.check}", check.verdict


def _of_host(host: PreflightHost) -> Iterator[tuple[FigureKey, SideFigure]]:
    """Samples of active tests; of what is in a unit of time less is better, of every rate more."""
    for one in host.tests:
        samples = tuple(sample for sample in one.samples if sample > 0)
        stalled = len(one.samples) - len(samples)
        if one.status == "ok" and samples:
            key = FigureKey(
                benchmark=one.test, parameters=one.setting, point=f"{host.host} {one.name}".strip(), quantity="test"
            )
            problem = WRONG_DATA if one.wrong else f"{stalled} of {len(one.samples)} samples are 0" if stalled else ""
            runs = ((blocks_of(samples),),)
            yield (
                key,
                SideFigure(unit=one.unit, runs=runs, is_better=_better(one.unit), allowed=ALLOWED, problem=problem),
            )


def _better(unit: str) -> Better:
    if unit in ("s", "ms", "us", "ns"):
        return "lower"
    return "higher" if "/s" in unit else ""
