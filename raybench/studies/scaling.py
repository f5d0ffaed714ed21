"""What do more nodes bring? Speedup, efficiency, fits, the knee, a projection and the cost of each size. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import msgspec

from raybench.documents.study.plan import Study, Variant, VariantFacts
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.scaling import (
    Band,
    FitCoefficients,
    ModeAnswer,
    ProjectedPoint,
    ScalingAnswer,
    ScalingRow,
)
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError
from raybench.performance_model.projection import (
    KNEE_EFFICIENCY,
    LEAST_POINTS,
    Projection,
    Scaling,
    ScalingFit,
    ScalingPoint,
    amdahl_serial_share,
    fit_scaling,
    project,
)
from raybench.stats import median
from raybench.studies.costs import Costing
from raybench.studies.goals import goal_advice
from raybench.studies.scaling_causes import likely_causes
from raybench.studies.training_rows import throughput_ratio, training_rows, usable

MODES: tuple[Scaling, ...] = ("strong", "weak")
BANDS = ((0.90, "excellent"), (0.75, "good"), (0.70, "fair"), (0.0, "poor"))  # shares of the ideal throughput
PROJECTED_NODES = (8, 16, 32, 64, 128, 256, 512, 1000)
_DEFAULT_BATCH = 8


def scaling_variants(nodes: Sequence[int], modes: Sequence[Scaling], batch_size: int | None) -> tuple[Variant, ...]:
    """A variant for each number of nodes and mode; the smallest is the base of both modes.

    ``batch_size`` is that of a rank on the fewest nodes. Strong scaling keeps the global batch, so a rank's shrinks as
    nodes are added. Raises UsageError where it does not divide, or for numbers of nodes that cannot be compared.
    """
    counts = sorted(set(nodes))
    if len(counts) < 2 or counts[0] < 1:
        raise UsageError("scaling needs at least two different numbers of nodes from 1, such as --nodes 1,2,4")
    base = counts[0]
    least = math.lcm(*(count // math.gcd(count, base) for count in counts)) if "strong" in modes else 1
    batch = batch_size if batch_size is not None else math.lcm(_DEFAULT_BATCH, least)
    if batch < 1:
        raise UsageError(f"--batch-size is {batch}; it must be at least 1")
    if batch % least:
        raise UsageError(
            f"--batch-size {batch} cannot be spread over {', '.join(map(str, counts))} nodes with one global batch; "
            f"give a multiple of {least}, such as {-(-batch // least) * least}, or --mode weak"
        )
    variants = [_variant(base, tuple(modes), batch)]
    for count in counts[1:]:
        sizes = {"strong": batch * base // count, "weak": batch}
        variants += [_variant(count, (mode,), sizes[mode]) for mode in modes]
    return tuple(variants)


def _variant(nodes: int, modes: tuple[Scaling, ...], batch: int) -> Variant:
    name = f"{'-'.join(modes) if len(modes) == 1 else 'base'}-{nodes}"
    arguments = ("--nodes", str(nodes), "--batch-size", str(batch))
    return Variant(name=name, arguments=arguments, facts=VariantFacts(nodes=nodes, modes=modes))


def answer_scaling(study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None) -> ScalingAnswer:
    """Analyse each mode on its own."""
    costing = costing or Costing()
    rows = {row.variant: row for row in training_rows(study, outcomes, costing)}
    asked = [mode for mode in MODES if any(mode in variant.facts.modes for variant in study.variants)]
    modes = [_with_goal(_mode(mode, study, rows, outcomes), costing) for mode in asked]
    remarks = [f"{row.variant}: {row.failed}" for row in rows.values() if row.failed]
    remarks += [remark for mode in modes for remark in _mode_remarks(mode)]
    bands = tuple(Band(at_least=share, name=name) for share, name in BANDS)
    return ScalingAnswer(bands=bands, modes=tuple(modes), price=costing.price, remarks=tuple(remarks))


def _with_goal(answer: ModeAnswer, costing: Costing) -> ModeAnswer:
    told = tuple(goal_advice(answer.rows, answer.projections, costing, answer.base_nodes))
    return msgspec.structs.replace(answer, advice=(*answer.advice, *told)) if told else answer


def _mode(mode: Scaling, study: Study, rows: dict[str, TrainingRow], outcomes: Sequence[TrialResult]) -> ModeAnswer:
    done = [variant for variant in study.variants if not rows[variant.name].failed]
    members = [variant for variant in done if mode in variant.facts.modes]
    if not members:
        return _mode_answer(mode, 0, (), None, None)
    base, base_nodes = members[0], _node_count(members[0])
    points = [_point(variant, outcomes) for variant in members]
    fit = fit_scaling(points, mode) if len(points) >= LEAST_POINTS else None
    farthest = max(point.nodes for point in points)
    wanted = [nodes for nodes in PROJECTED_NODES if nodes > farthest]
    scaled = tuple(_row(variant, base, rows, outcomes) for variant in members)
    serial = amdahl_serial_share(points) if mode == "strong" else None
    projected = [_projected(one, fit, base_nodes) for one in project(points, mode, wanted)] if fit else []
    return _mode_answer(mode, base_nodes, scaled, serial, fit, projected)


def _mode_answer(
    mode: Scaling,
    base_nodes: int,
    rows: tuple[ScalingRow, ...],
    serial_share: float | None,
    fit: ScalingFit | None,
    projected: Sequence[ProjectedPoint] = (),
) -> ModeAnswer:
    return ModeAnswer(
        mode=mode,
        base_nodes=base_nodes,
        advice=tuple(scaling_advice(rows)),
        rows=rows,
        amdahl_serial_share=serial_share,
        fit=FitCoefficients(**asdict(fit)) if fit else None,
        knee_nodes=fit.knee() if fit else None,
        knee_efficiency=KNEE_EFFICIENCY,
        projections=tuple(projected),
    )


def _projected(projection: Projection, fit: ScalingFit, base_nodes: int) -> ProjectedPoint:
    """With speedup and efficiency against the fewest nodes measured, as the rows have them."""
    speedup = fit.speedup(projection.nodes, base_nodes)
    relative = {"speedup": speedup, "efficiency": speedup * base_nodes / projection.nodes}
    return ProjectedPoint(**asdict(projection) | {"is_projection": projection.is_projection} | relative)


def _node_count(variant: Variant) -> int:
    """Of a variant of scaling; a plan without it is refused when it is read."""
    assert variant.facts.nodes is not None
    return variant.facts.nodes


def _point(variant: Variant, outcomes: Sequence[TrialResult]) -> ScalingPoint:
    """Mean step times of a variant, one a trial."""
    mine = [outcome for outcome in usable(outcomes) if outcome.trial.variant == variant.name]
    times = tuple(outcome.measured[0].seconds for outcome in mine)
    hidden = [outcome.measured[0].hidden_seconds or 0.0 for outcome in mine]
    return ScalingPoint(nodes=_node_count(variant), samples_seconds=times, hidden_seconds=median(hidden))


def _row(variant: Variant, base: Variant, rows: dict[str, TrainingRow], outcomes: Sequence[TrialResult]) -> ScalingRow:
    row = rows[variant.name]
    nodes = _node_count(variant)
    speedup = throughput_ratio(variant.name, base.name, outcomes)
    efficiency = speedup.over(nodes / _node_count(base)) if speedup else None
    band = band_of(efficiency) if efficiency and variant is not base else "baseline" if variant is base else "unknown"
    emulated = any(outcome.emulated for outcome in outcomes)
    poor = efficiency is not None and efficiency.value < BANDS[1][0]
    return ScalingRow(
        **msgspec.structs.asdict(row),
        nodes=nodes,
        speedup=speedup,
        efficiency=efficiency,
        band=band,
        causes=tuple(likely_causes(row, rows[base.name], emulated=emulated)) if poor else (),
    )


def scaling_advice(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """How many nodes to take: the most that scale well, and the cheapest for each sample."""
    rated = [row for row in rows if row.efficiency and row.samples_per_s]
    if len(rated) < 2:
        return
    good = [row for row in rated if row.efficiency and row.efficiency.value >= BANDS[1][0]]
    most = max(good, key=lambda row: row.nodes)
    share = most.efficiency.value if most.efficiency else 1.0
    sure = most.efficiency is not None and most.efficiency.side_of(BANDS[1][0]) == "above"
    if most is rated[0]:
        sure = all(row.efficiency and row.efficiency.side_of(BANDS[1][0]) == "below" for row in rated[1:])
    likely = "" if sure else "likely (the interval does not decide) "
    if most is rated[0]:
        yield f"{likely}use {_nodes(most)}: no more of them reach {BANDS[1][0]:.0%} of the ideal throughput"
    else:
        yield f"{likely}use {_nodes(most)}: the most measured with at least {BANDS[1][0]:.0%} efficiency ({share:.0%})"
    priced = [row for row in rated if row.cost]
    if priced:
        yield from _cheapest(priced)


def _cheapest(rows: Sequence[ScalingRow]) -> Iterator[str]:
    costs = {row.nodes: row.cost.per_1k_samples or 0.0 for row in rows if row.cost}
    cheapest = min(rows, key=lambda row: costs[row.nodes])
    fastest = max(rows, key=lambda row: row.samples_per_s or 0.0)
    yield f"cheapest for each sample: {_nodes(cheapest)}"
    if fastest is not cheapest and fastest.speedup and cheapest.speedup:
        faster = (fastest.samples_per_s or 0.0) / (cheapest.samples_per_s or 1.0)  # of the rows
        least = costs[cheapest.nodes]
        price = f" for {costs[fastest.nodes] / least - 1:.0%} more a sample" if least else ""
        yield f"fastest: {_nodes(fastest)}, {faster:.2f}x as fast{price}"


def _nodes(row: ScalingRow) -> str:
    return f"{row.nodes} node{'s' if row.nodes > 1 else ''}"


def band_of(efficiency: Ratio) -> str:
    """The band that the whole interval lies in, or ``good to fair`` where it lies in several."""
    if efficiency.low is None or efficiency.high is None:
        return f"{_band(efficiency.value)}, inconclusive"
    best, least = _band(efficiency.high), _band(efficiency.low)
    return best if best == least else f"{best} to {least}"


def _band(share: float) -> str:
    return next(name for limit, name in BANDS if share >= limit)


def _mode_remarks(answer: ModeAnswer) -> list[str]:
    remarks = []
    if any(row.efficiency and row.efficiency.low and row.efficiency.low > 1 for row in answer.rows):
        remarks.append(
            f"{answer.mode} scaling is better than ideal somewhere: caches hold more as each rank gets less, or "
            "something slowed the base down"
        )
    if answer.fit and answer.fit.worst_relative_error > 0.1:
        remarks.append(
            f"the {answer.mode} scaling fit is off by up to {answer.fit.worst_relative_error:.0%} where measured: "
            "do not trust its projection"
        )
    if answer.fit and not answer.fit.work:
        remarks.append(
            f"the {answer.mode} scaling fit finds communication only and no work: steps grow faster with the nodes "
            "than any share of work explains; something else slows them (other jobs, too few processors)"
        )
    if answer.rows and len(answer.rows) < LEAST_POINTS:
        counts = f"{len(answer.rows)} number{'s' if len(answer.rows) > 1 else ''} of nodes"
        remarks.append(
            f"no fit and no projection of {answer.mode} scaling from {counts}: they need {LEAST_POINTS} at least, such "
            "as --nodes 1,2,4"
        )
    return remarks
