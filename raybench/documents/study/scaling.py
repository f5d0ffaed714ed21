"""The answer to a scaling study: speedup and efficiency of each number of nodes, the fit, and its projection."""

from typing import Annotated

from msgspec import Meta

from raybench.documents.part import FieldwisePart
from raybench.documents.plain import Json
from raybench.documents.study.answer import NOTHING, Answer, Headline
from raybench.documents.study.plan import ScalingMode
from raybench.documents.study.ratio import Positive, Ratio
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.trial import Amount

_Nodes = Annotated[int, Meta(ge=1)]


class Band(FieldwisePart, frozen=True, kw_only=True):
    """The word for shares of the ideal throughput from ``at_least`` on."""

    at_least: float
    name: str


class ScalingRow(TrainingRow, frozen=True, kw_only=True):
    """One number of nodes. ``speedup`` and ``efficiency`` are of throughput, against the fewest nodes."""

    nodes: _Nodes
    speedup: Ratio | None
    efficiency: Ratio | None
    band: str
    causes: tuple[str, ...]

    def contradiction(self) -> str | None:
        """Whether a row whose speedup is known has an efficiency, and what both are of."""
        if (self.speedup is None) != (self.efficiency is None):
            return "a speedup without an efficiency, or the other way round"
        if self.speedup is not None and not self.samples_per_s:
            return "a speedup without a throughput"
        return super().contradiction()

    def to_json(self) -> Json:
        """The number of nodes first."""
        return {"nodes": self.nodes} | super().to_json()


class FitCoefficients(FieldwisePart, frozen=True, kw_only=True):
    """alpha-beta fit: ``work`` of one node, ``latency`` a tree level, ``transfer`` of one message, seconds."""

    scaling: ScalingMode
    work: Amount
    latency: Amount
    transfer: Amount
    worst_relative_error: Amount
    around: bool = False  # latency of a node on a ring, instead of a tree level


class ProjectedPoint(FieldwisePart, frozen=True, kw_only=True):
    """A number of nodes of the fit's projection; ``low`` and ``high``: 90 % of plausible fits, seconds.

    ``speedup`` and ``efficiency`` are against the fewest nodes measured, as the rows have them.
    """

    nodes: _Nodes
    step_seconds: Positive
    low_seconds: Positive
    high_seconds: Positive
    efficiency: Amount
    measured_up_to: int
    caveat: str
    is_projection: bool  # whether no measurement reaches that far
    speedup: Amount


class ModeAnswer(FieldwisePart, frozen=True, kw_only=True):
    """Strong or weak scaling. ``fit`` and what follows from it are None with fewer than three numbers of nodes."""

    mode: ScalingMode
    base_nodes: int
    advice: tuple[str, ...] = ()
    rows: tuple[ScalingRow, ...]
    amdahl_serial_share: float | None
    fit: FitCoefficients | None
    knee_nodes: int | None
    knee_efficiency: float
    projections: tuple[ProjectedPoint, ...]

    def contradiction(self) -> str | None:
        """Whether there is what its rows and its projection are held against."""
        if self.rows and self.base_nodes < 1:
            return "rows without a number of nodes to compare with"
        measured = any(row.speedup for row in self.rows)
        return "a projection without a row that was measured" if self.projections and not measured else None


class ScalingAnswer(Answer, frozen=True, kw_only=True, tag="scaling"):
    """Both modes, as far as they were asked for."""

    bands: tuple[Band, ...]
    modes: tuple[ModeAnswer, ...]

    @property
    def headline(self) -> Headline:
        """The first advice of each mode."""
        said = [f"{mode.mode} scaling: {mode.advice[0]}" for mode in self.modes if mode.advice]
        return ("; ".join(said), not any("likely" in one for one in said)) if said else (NOTHING, None)

    def to_json(self) -> Json:
        """The bands first."""
        content = super().to_json()
        return {"bands": content["bands"]} | content
