"""A side as a baseline that is kept, and back. Pure."""

import math
from collections.abc import Mapping, Sequence

from raybench.comparison.same_losses import asked_of, decides_of
from raybench.comparison.side import JUDGED, NOT_JUDGED, FigureKey, Side, SideFigure, each_once, label_of
from raybench.documents.comparison.baseline import ANSWERED, BaselineFigure, BaselineLosses, RunsBaseline
from raybench.documents.run.same_loss import Curve
from raybench.errors import UsageError

LEAST_RUNS = 3  # with the run that is checked, their spread has two degrees of freedom


def baseline_of_runs(side: Side) -> RunsBaseline:
    """The figures that all of its runs have. Raises UsageError for too few runs, and where they have none in common."""
    count = len(side.run_ids)
    if count < LEAST_RUNS:
        raise UsageError(
            f"a baseline rests on the spread between runs: name {LEAST_RUNS} or more of the same configuration, "
            f"or a folder of them; {side.name} has {count}"
        )
    kept = {key: one for key, one in side.figures.items() if one.results == count and not one.problem}
    figures = tuple(_kept(key, one) for key, one in kept.items())
    if not side.figures:
        raise UsageError(
            f"{side.name} has verdicts and nothing that was measured, as a preflight without tests: a baseline is made "
            "of times and rates, which a preflight has from --level 2 on; compare holds checks beside each other"
        )
    if not figures:
        raise UsageError(f"the runs of {side.name} have no figure that all of them measured; were they the same?")
    return RunsBaseline(
        kind=side.kind,
        run_ids=side.run_ids,
        started_at=side.started_at,
        machine=side.machine,
        configuration=side.configuration,
        environment=side.environment,
        figures=figures,
        outcomes=side.outcomes,
        not_judged=tuple(name for name, words in side.checks.items() if JUDGED not in words),
        judged=tuple(name for name, words in side.checks.items() if words == {JUDGED}),
        checks={name: tuple(word for word in ANSWERED if word in words) for name, words in side.checks.items()},
        omitted=(*side.gaps, *(f"{label_of(key)}: {one.problem}" for key, one in side.figures.items() if one.problem)),
        losses=tuple(_losses(label, one) for label, curves in side.curves.items() for one in curves),
    )


def _kept(key: FigureKey, one: SideFigure) -> BaselineFigure:
    levels = iter(one.by_launch.levels)
    return BaselineFigure(
        benchmark=key.benchmark,
        parameters=key.parameters,
        point=key.point,
        quantity=key.quantity,
        unit=one.unit,
        is_better=one.is_better,
        is_mean=one.is_mean,
        allowed=one.allowed,
        order=one.order,
        levels=tuple(tuple(math.exp(next(levels)) for _ in run) for run in one.runs),
        samples=one.runs,
        stolen=one.stolen if len(one.stolen) == len(one.runs) else (),
        verified=one.verified,
        limits=one.limits,
        is_capped=one.is_capped,
        lost=one.lost if len(one.lost) == len(one.runs) else (),
    )


def _losses(label: str, one: Curve) -> BaselineLosses:
    return BaselineLosses(
        label=label,
        asked=asked_of(one.key),
        decides=decides_of(one.key),
        dtype=one.dtype,
        first=one.first,
        last=one.last,
        validation=one.validation,
        has_lost_validation=one.has_lost_validation,
    )


def baseline_side(name: str, kept: RunsBaseline) -> Side:
    """The baseline as a side; a launch of which no samples were kept has one, its level."""
    return Side(
        name=name,
        kind=kept.kind,
        run_ids=kept.run_ids,
        started_at=kept.started_at,
        machine=kept.machine,
        configuration=kept.configuration,
        environment=kept.environment,
        outcomes=kept.outcomes,
        checks=_checks(kept),
        figures=each_once(map(_figure, kept.figures)),
        curves=_curves(name, kept.losses),
        gaps=tuple(f"it leaves out a figure: {one}" for one in kept.omitted),
    )


def _checks(kept: RunsBaseline) -> Mapping[str, frozenset[str]]:
    """How far each check was answered; of a baseline from before that was kept, what all or none of its runs judged."""
    if kept.checks:
        return {name: frozenset(words) for name, words in kept.checks.items()}
    older = (kept.not_judged, NOT_JUDGED), (kept.judged, JUDGED)
    return {name: frozenset([word]) for names, word in older for name in names}


def _figure(one: BaselineFigure) -> tuple[FigureKey, SideFigure]:
    key = FigureKey(benchmark=one.benchmark, parameters=one.parameters, point=one.point, quantity=one.quantity)
    runs = one.samples or tuple(tuple(((level,),) for level in launches) for launches in one.levels)
    return key, SideFigure(
        unit=one.unit,
        runs=runs,
        is_better=one.is_better,
        is_mean=one.is_mean,
        allowed=one.allowed,
        order=one.order,
        stolen=one.stolen,
        lost=one.lost,
        verified=one.verified,
        limits=one.limits,
        is_capped=one.is_capped,
    )


def _curves(name: str, kept: Sequence[BaselineLosses]) -> Mapping[str, tuple[Curve, ...]]:
    found: dict[str, tuple[Curve, ...]] = {}
    for one in kept:
        before = found.get(one.label, ())
        curve = Curve(
            name=f"{one.label} of run {len(before) + 1} of {name}",
            key=(one.asked, tuple(sorted(one.decides.items()))),
            dtype=one.dtype,
            first=one.first,
            last=one.last,
            validation=one.validation,
            has_lost_validation=one.has_lost_validation,
        )
        found[one.label] = (*before, curve)
    return found
