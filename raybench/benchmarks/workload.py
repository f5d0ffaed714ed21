"""What a kind of workload is: one value of ``Workload`` for each, in the table of ``registry``.

No torch here. The value is made in the driver and the command line; what runs on a rank, and what the driver does with
the records of the ranks, are named by module and imported where they are needed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from diagnostics.findings import Finding, Severity
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.documents.run.benchmark import BenchmarkResult, MeasuredWorkload

NodeOf = Callable[[int], str | None]  # the name of the node of a rank


class RankRecord(Protocol):
    """What a rank says of one point: a msgspec.Struct, which travels as MessagePack.

    ``label`` is one of the labels of its spec. ``interim``: a part, told while the point is still measured.
    """

    @property
    def label(self) -> str:
        """Which point it is of."""

    @property
    def interim(self) -> bool:
        """Whether more is to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the point that is measured is: ``done`` of ``total`` steps. ``text``: figures of now."""

    done: int
    total: int
    text: str
    left_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRemark:
    """Something that is wrong now, by a rule; ``over``: it no longer is. ``rank``: whose fault it is, where known."""

    rule: str
    severity: Severity
    text: str
    rank: int | None = None
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """Figures at a ``position`` of an axis, such as step 12, by names such as ``loss``. Positions of a name grow."""

    axis: str
    position: int
    values: Mapping[str, float]


class Live(Protocol):
    """What is made of the parts of a point's records while it is measured."""

    def take(self, rank: int, part: Any) -> Iterable[LiveRemark]:
        """A part of a rank. Gives what is to be told now."""

    def progress(self) -> Progress | None:
        """How far it is; None while nothing is known."""


RecordType = TypeVar("RecordType", bound=RankRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a run asks of all its benchmarks; ``options`` by kind of workload, where any were given."""

    template: BenchmarkSpec
    placement: str = "both"
    reduce_ops: tuple[str, ...] = ("sum",)
    dtypes: tuple[str, ...] = ("float32",)
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of workload.

    - ``benchmarks``: the names that ``--suite`` takes, each with the module whose ``run(context, spec)`` ranks call.
    - ``options``: a frozen dataclass, which is the mapping ``kind`` of a configuration; None where there is none.
      ``normalised`` turns what was written into its fields; ``check`` raises UsageError for what does not fit together.
    - ``plan(name, request)``: the specs of a benchmark; without it one, of which ``check_spec`` raises UsageError for
      options that this benchmark has no place for. ``labels(spec, world_size)``: a name of each of its points.
    - ``parameters(spec)``: what a result records. ``place(spec, label, point)``: where a rank is, in an incident.
    - ``fewer``: the option that makes it shorter. ``timed_steps(spec)``: of its one point, where it has steps.
    - ``needs(spec)``: (module, extra) of libraries beside torch. ``check_machine(spec, world_size)`` raises
      UsageError for what nodes embedded on this machine cannot do. ``traces(spec)``: whether ranks leave traces.
    - ``records``: ``module:NAME`` of its Records; None where the ranks measure messages.
    """

    kind: str
    benchmarks: Mapping[str, str]
    labels: Callable[[BenchmarkSpec, int], tuple[str, ...]]
    records: str | None
    options: type[Any] | None = None
    normalised: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    check: Callable[[Any], None] = lambda _: None
    plan: Callable[[str, Request], tuple[BenchmarkSpec, ...]] | None = None
    parameters: Callable[[BenchmarkSpec], Mapping[str, Any]] = lambda spec: spec.options.parameters()
    place: Callable[[BenchmarkSpec, str, int | None], str] = lambda spec, label, _: label or spec.name
    fewer: str = "--suite"
    timed_steps: Callable[[BenchmarkSpec], int | None] = lambda _: None
    needs: Callable[[BenchmarkSpec], Iterable[tuple[str, str]]] = lambda _: ()
    check_spec: Callable[[BenchmarkSpec], None] = lambda _: None
    check_machine: Callable[[BenchmarkSpec, int], None] = lambda *_: None
    traces: Callable[[BenchmarkSpec], bool] = lambda _: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Records(Generic[RecordType]):
    """What the driver does with the records of a workload's ranks.

    - ``point(launches, spec, world_size, cut)``: one point of the result from ``launches[launch][rank]``, at least one;
      ``cut`` is a further launch that was cut, as far as all its ranks came.
    - ``problem(record)``: why it cannot be right; None where it can.
    - ``joined(parts)``: what the parts of a rank say together. ``in_common(launch)``: a launch that was cut, as far as
      all of its ranks came; None where that is nothing.
    - ``note(part)``: what to tell the person of a part of rank 0. ``is_kept(part, spec)``: whether a part goes into the
      journal.
    - ``steps_seconds(part)``: of a part with timed steps, the seconds from the first of them to the last that it tells.
    - ``step_figures(part, before, spec, world_size)``: what a part of rank 0 says of its steps, for an experiment
      tracker, ``before``: the part before, of the same launch. What that has told may be among them.
    - ``live(spec, world_size, emulated)``: what is made of the parts of a launch while it goes on; None for nothing.
    - ``findings(benchmark, node_of, emulated)``: what it found out about the cluster, as findings.
    - ``together(benchmarks)``: what all benchmarks of the workload's kind in a run say beside each other.
    """

    record: type[RecordType]
    point: Callable[
        [Sequence[Mapping[int, RecordType]], BenchmarkSpec, int, Mapping[int, RecordType] | None], MeasuredWorkload
    ]
    problem: Callable[[RecordType], str | None] = lambda _: None
    joined: Callable[[Sequence[RecordType]], RecordType] = lambda parts: parts[-1]
    in_common: Callable[[Mapping[int, RecordType]], Mapping[int, RecordType] | None] = dict
    note: Callable[[RecordType], str | None] = lambda _: None
    is_kept: Callable[[RecordType, BenchmarkSpec], bool] = lambda *_: False
    steps_seconds: Callable[[RecordType], float | None] = lambda _: None
    step_figures: Callable[[RecordType, RecordType | None, BenchmarkSpec, int], Iterable[StepFigures]] = lambda *_: ()
    live: Callable[[BenchmarkSpec, int, bool], Live] | None = None
    findings: Callable[[BenchmarkResult, NodeOf, bool], Iterable[Finding]] = lambda *_: ()
    together: Callable[[Sequence[BenchmarkResult]], Iterable[Finding]] = lambda _: ()
