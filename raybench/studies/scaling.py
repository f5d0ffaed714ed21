"""What do more nodes bring? Speedup, efficiency, fits, the knee, a projection and the cost of each size. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from raybench.errors import UsageError
from raybench.performance_model.cost import Price
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
from raybench.studies.compare import Ratio
from raybench.studies.costs import Costing
from raybench.studies.design import Study, Variant
from raybench.studies.outcome import Outcome
from raybench.studies.scaling_causes import likely_causes
from raybench.studies.training_rows import TrainingRow, throughput_ratio, training_rows, usable

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
    return Variant(name=name, arguments=arguments, facts={"nodes": nodes, "modes": list(modes)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """One number of nodes. ``speedup`` and ``efficiency`` are of throughput, against the fewest nodes."""

    nodes: int
    row: TrainingRow
    speedup: Ratio | None
    efficiency: Ratio | None
    band: str
    causes: tuple[str, ...]
    cost: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {
            "nodes": self.nodes,
            **self.row.to_json(),
            "speedup": asdict(self.speedup) if self.speedup else None,
            "efficiency": asdict(self.efficiency) if self.efficiency else None,
            "band": self.band,
            "causes": list(self.causes),
            "cost": self.cost,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeAnswer:
    """Strong or weak scaling. ``fit`` and what follows from it are None with fewer than three numbers of nodes."""

    mode: Scaling
    base_nodes: int
    rows: tuple[ScalingRow, ...]
    amdahl_serial_share: float | None
    fit: ScalingFit | None
    projections: tuple[Projection, ...]
    advice: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {
            "mode": self.mode,
            "base_nodes": self.base_nodes,
            "advice": list(self.advice),
            "rows": [row.to_json() for row in self.rows],
            "amdahl_serial_share": self.amdahl_serial_share,
            "fit": asdict(self.fit) if self.fit else None,
            "knee_nodes": self.fit.knee() if self.fit else None,
            "knee_efficiency": KNEE_EFFICIENCY,
            "projections": [
                {**asdict(one), "is_projection": one.is_projection, **self._relative(one)} for one in self.projections
            ],
        }

    def _relative(self, projection: Projection) -> dict[str, float]:
        """Speedup and efficiency against the fewest nodes measured, as the rows have them."""
        assert self.fit is not None
        speedup = self.fit.speedup(projection.nodes, self.base_nodes)
        return {"speedup": speedup, "efficiency": speedup * self.base_nodes / projection.nodes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingAnswer:
    """Both modes, as far as they were asked for."""

    modes: tuple[ModeAnswer, ...]
    price: Price | None
    remarks: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """None: poor scaling is an answer."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {
            "bands": [{"at_least": share, "name": name} for share, name in BANDS],
            "price": asdict(self.price) if self.price else None,
            "modes": [mode.to_json() for mode in self.modes],
        }


def answer_scaling(study: Study, outcomes: Sequence[Outcome], costing: Costing | None = None) -> ScalingAnswer:
    """Analyse each mode on its own."""
    costing = costing or Costing()
    rows = {row.variant: row for row in training_rows(study, outcomes, costing)}
    asked = [mode for mode in MODES if any(mode in variant.facts["modes"] for variant in study.variants)]
    modes = [_mode(mode, study, rows, outcomes) for mode in asked]
    remarks = [f"{row.variant}: {row.failed}" for row in rows.values() if row.failed]
    remarks += [remark for mode in modes for remark in _mode_remarks(mode)]
    return ScalingAnswer(modes=tuple(modes), price=costing.price, remarks=tuple(remarks))


def _mode(mode: Scaling, study: Study, rows: dict[str, TrainingRow], outcomes: Sequence[Outcome]) -> ModeAnswer:
    done = [variant for variant in study.variants if not rows[variant.name].failed]
    members = [variant for variant in done if mode in variant.facts["modes"]]
    if not members:
        return ModeAnswer(mode=mode, base_nodes=0, rows=(), amdahl_serial_share=None, fit=None, projections=())
    base = members[0]
    points = [_point(variant, outcomes) for variant in members]
    fit = fit_scaling(points, mode) if len(points) >= LEAST_POINTS else None
    farthest = max(point.nodes for point in points)
    wanted = [nodes for nodes in PROJECTED_NODES if nodes > farthest]
    scaled = tuple(_row(variant, base, rows, outcomes) for variant in members)
    return ModeAnswer(
        mode=mode,
        base_nodes=base.facts["nodes"],
        rows=scaled,
        amdahl_serial_share=amdahl_serial_share(points) if mode == "strong" else None,
        fit=fit,
        projections=project(points, mode, wanted) if fit else (),
        advice=tuple(scaling_advice(scaled)),
    )


def _point(variant: Variant, outcomes: Sequence[Outcome]) -> ScalingPoint:
    """Mean step times of a variant, one a trial."""
    mine = [outcome for outcome in usable(outcomes) if outcome.trial.variant == variant.name]
    times = tuple(outcome.measured[0].seconds for outcome in mine)
    hidden = [outcome.measured[0].hidden_seconds or 0.0 for outcome in mine]
    return ScalingPoint(nodes=variant.facts["nodes"], samples_seconds=times, hidden_seconds=median(hidden))


def _row(variant: Variant, base: Variant, rows: dict[str, TrainingRow], outcomes: Sequence[Outcome]) -> ScalingRow:
    row = rows[variant.name]
    nodes, more = variant.facts["nodes"], variant.facts["nodes"] / base.facts["nodes"]
    speedup = throughput_ratio(variant.name, base.name, outcomes)
    efficiency = speedup.over(more) if speedup else None
    band = band_of(efficiency) if efficiency and variant is not base else "baseline" if variant is base else "unknown"
    emulated = any(outcome.emulated for outcome in outcomes)
    poor = efficiency is not None and efficiency.value < BANDS[1][0]
    return ScalingRow(
        nodes=nodes,
        row=row,
        speedup=speedup,
        efficiency=efficiency,
        band=band,
        causes=tuple(likely_causes(row, rows[base.name], emulated=emulated)) if poor else (),
        cost=row.cost,
    )


def scaling_advice(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """How many nodes to take: the most that scale well, and the cheapest for each sample."""
    rated = [row for row in rows if row.efficiency and row.row.samples_per_s]
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
    costs = {row.nodes: row.cost["per_1k_samples"] for row in rows if row.cost}
    cheapest = min(rows, key=lambda row: costs[row.nodes])
    fastest = max(rows, key=lambda row: row.row.samples_per_s or 0.0)
    yield f"cheapest for each sample: {_nodes(cheapest)}"
    if fastest is not cheapest and fastest.speedup and cheapest.speedup:
        faster = (fastest.row.samples_per_s or 0.0) / (cheapest.row.samples_per_s or 1.0)  # of the rows
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
