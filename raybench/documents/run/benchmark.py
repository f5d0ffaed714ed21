"""A benchmark of a run: what it was asked for, its points, and why it is not complete."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import field

from raybench.documents.part import Part
from raybench.documents.plain import Json
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.documents.run.figures import FiguresPoint
from raybench.documents.run.machine_use import MachineUse
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.point import Point
from raybench.documents.run.point_time import PointTime
from raybench.documents.run.training.point import TrainingPoint

BenchmarkStatus = Literal["complete", "partial", "failed", "skipped"]
MeasuredWorkload = TrainingPoint | MemoryPoint | CheckpointPoint | FiguresPoint
# What the points of a kind of workload are; those of every other kind, such as installed ones, are figures.
POINTS: Mapping[str, type[Point | MeasuredWorkload]] = {
    "collective": Point,
    "p2p": Point,
    "training": TrainingPoint,
    "memory": MemoryPoint,
    "checkpoint": CheckpointPoint,
}
OF_COLLECTIVES = ("dtype", "reduce_op", "root", "in_place")  # those of its parameters that have a property here


class BenchmarkResult(Part, frozen=True, kw_only=True):
    """One benchmark with one set of parameters. ``reason``: why it is not complete; ``warnings``: why not stable.

    ``times``: when each of its points was measured; ``machine_use``: what the machine of each node did meanwhile, in
    each launch. Empty in results from before they had them.

    Parameters of a collective are those of ``OF_COLLECTIVES``; every other workload has its own.
    """

    name: str
    kind: str
    parameters: Mapping[str, Any]
    status: BenchmarkStatus
    points: tuple[Point, ...] = ()
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    times: tuple[PointTime, ...] = ()
    machine_use: tuple[MachineUse, ...] = ()
    # instead of points, of benchmarks that measure no messages
    workload: tuple[MeasuredWorkload, ...] = field(default=(), name="+points")

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Points of another kind than operations are marked with it."""
        points, kind = content.get("points"), content.get("kind")
        measured = POINTS.get(kind, FiguresPoint) if isinstance(kind, str) else FiguresPoint
        if measured is Point or not isinstance(points, list):
            return content
        mark = {"+kind": measured.__struct_config__.tag}
        marked = [one | mark if isinstance(one, dict) else one for one in points]
        return content | {"points": [], "+points": marked}

    @property
    def dtype(self) -> str | None:
        """Element type of a collective."""
        return self.parameters.get("dtype")

    @property
    def reduce_op(self) -> str | None:
        """Reduction of a collective."""
        return self.parameters.get("reduce_op")

    @property
    def in_place(self) -> bool | None:
        """Whether a collective had one buffer for what it sends and receives; None of what is no collective."""
        return self.parameters.get("in_place")

    @property
    def root(self) -> int | None:
        """The rank that a collective sends from, or to."""
        return self.parameters.get("root")

    @property
    def other_parameters(self) -> tuple[str, ...]:
        """Parameters beyond those of a collective, as ``name=value``."""
        rest = ((name, value) for name, value in self.parameters.items() if name not in OF_COLLECTIVES)
        return tuple(f"{name}={value}" for name, value in rest if value is not None)

    @property
    def model(self) -> str | None:
        """The model of a training, memory or checkpoint benchmark, as its config.json calls it where it has one."""
        return self.parameters.get("model_name") or self.parameters.get("model")

    @property
    def variation(self) -> str:
        """``float32 sum in place``: what tells a collective from others of its name."""
        words = [self.dtype, self.reduce_op, "in place" if self.in_place else None]
        return " ".join(str(word) for word in words if word)

    @property
    def label(self) -> str:
        """Its name, and its variation where it has one."""
        return " ".join(filter(None, (self.name, self.variation)))

    @property
    def is_measured(self) -> bool:
        """Whether there is any figure."""
        return bool(self.points) or any(point.failed is None for point in self.workload)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What checks found to be wrong in it."""
        elements = sum(point.wrong_elements for point in self.points)
        failed = sum(point.verified is False and not point.wrong_elements for point in self.points)
        found = [f"{elements} elements differ from their exact expected value"] if elements else []
        found += [f"the check of {failed} points failed, which counted no elements"] if failed else []
        return (*found, *(f"{one.label}: {one.wrong}" for one in self.workload if one.wrong is not None))

    def to_json(self) -> Json:
        """The benchmark as in the schema."""
        return self.with_unknown(
            {
                "name": self.name,
                "kind": self.kind,
                "status": self.status,
                "reason": self.reason,
                "parameters": dict(self.parameters),
                "warnings": list(self.warnings),
                "points": [point.to_json() for point in self.points] + [point.to_json() for point in self.workload],
                **({"times": [time.to_json() for time in self.times]} if self.times else {}),
                **({"machine_use": [one.to_json() for one in self.machine_use]} if self.machine_use else {}),
            }
        )
