"""What a run measured: immutable, raw samples first, statistics derived on read. ``result.json`` is written from here.

Schema ``raybench.result/1``: keys are added, never renamed or removed. GB is 10^9 bytes.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import field

from diagnostics.findings import Finding
from raybench.documents.part import Document, take
from raybench.documents.plain import Json
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.facts import RunSettings, damage_of, typed
from raybench.documents.run.isolation import Continuation, Isolation
from raybench.documents.run.node_samples import NodeSamples
from raybench.documents.run.result_table import POINT_COLUMNS, SAMPLE_COLUMNS, point_rows, sample_rows
from raybench.documents.run.scheduler import SchedulerJob
from raybench.documents.run.tracking import TrackedRun
from raybench.documents.run.verdict import Check, all_checks, conclude_run
from raybench.documents.table import dataframe
from raybench.verdicts import Conclusion, RunStatus, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = "raybench.result/1"

Status = RunStatus
_ENVIRONMENT = ("versions", "variables")


class RunResult(Document, frozen=True, kw_only=True):
    """A whole run, with what it found.

    ``checks``: what it was judged by beside its data. ``log_findings``: those of the diagnosis of its logs, which
    count for the verdict and are written in ``diagnosis.json``. ``node_samples``: what the agents of its nodes sampled,
    which is written in ``node_samples.json``. ``problems``: files of it that could not be kept.
    ``isolation``: what became of those that it accuses; ``continued``: which nodes a run before it had, and dropped.
    ``scheduler``: the job that it ran in, where a scheduler started it. ``trackers``: what became of it there.
    ``recorded_verdict`` and its reason: those of a result that was read, which was judged by more than is in it.
    """

    run_id: str
    status: Status
    started_at: str
    finished_at: str
    cluster: ClusterInfo
    versions: Mapping[str, str] = field(name="+versions")
    variables: Mapping[str, str] = field(name="+variables")
    config: Mapping[str, Any]
    benchmarks: tuple[BenchmarkResult, ...]
    findings: tuple[Finding, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, name="timings_seconds")  # of the run's own phases
    checks: tuple[Check, ...] = ()
    isolation: Isolation | None = None
    continued: Continuation | None = None
    scheduler: SchedulerJob | None = None
    trackers: tuple[TrackedRun, ...] = ()
    log_findings: tuple[Finding, ...] = field(default=(), name="+log_findings")
    node_samples: NodeSamples | None = field(default=None, name="+node_samples")
    problems: tuple[str, ...] = field(default=(), name="+problems")
    recorded_verdict: Verdict | None = field(default=None, name="verdict")
    recorded_reason: str = field(default="", name="verdict_reason")
    SCHEMA: ClassVar[str] = SCHEMA
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema", "environment"})

    @classmethod
    def stored(cls, content: Json) -> Json:
        """With the environment's two tables."""
        tables = {f"+{name}": take(content, "environment", name, of=dict[str, str]) for name in _ENVIRONMENT}
        return content | {key: table or {} for key, table in tables.items()}

    def contradiction(self) -> str | None:
        """Whether what it was asked for has its types."""
        return damage_of(RunSettings, self.config, ".config")

    @cached_property
    def settings(self) -> RunSettings:
        """Those of what it was asked for that have a type."""
        return typed(RunSettings, self.config)

    @cached_property
    def conclusion(self) -> Conclusion:
        """The verdict and its reason, from status, findings and verification, or as they were recorded."""
        if self.recorded_verdict is not None:
            return Conclusion(verdict=self.recorded_verdict, reason=self.recorded_reason)
        return conclude_run(self)

    @property
    def exit_code(self) -> int:
        """That of the verdict; 2 where all that was asked for was skipped: nothing of it can be measured there."""
        if self.benchmarks and all(benchmark.status == "skipped" for benchmark in self.benchmarks):
            return 2
        return self.conclusion.exit_code

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """All that it was judged by, its data and what was skipped included."""
        return self.checks if self.recorded_verdict is not None else all_checks(self)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What checks found to be wrong, over the whole run."""
        return tuple(f"{benchmark.name}: {text}" for benchmark in self.benchmarks for text in benchmark.wrong)

    @property
    def total_seconds(self) -> float | None:
        """How long the whole run took, its start and end included."""
        return self.timings.get("total")

    @property
    def wrong_elements(self) -> int:
        """Elements that differed from their expected value, over the whole run."""
        return sum(point.wrong_elements for benchmark in self.benchmarks for point in benchmark.points)

    def to_dataframe(self, of: Literal["points", "samples"] = "points") -> "DataFrame":
        """A row a point, or a row a sample (docs/api.md has the columns). Raises MissingLibraryError without pandas."""
        if of == "samples":
            return dataframe(sample_rows(self), SAMPLE_COLUMNS)
        rows = list(point_rows(self))
        own = (name for row in rows for name in row if name not in POINT_COLUMNS)  # figures of installed workloads
        return dataframe(rows, tuple(dict.fromkeys((*POINT_COLUMNS, *own))))

    def to_json(self) -> Json:
        """The run as in the schema."""
        return self.with_unknown(
            {
                "schema": SCHEMA,
                "run_id": self.run_id,
                "status": self.status,
                "verdict": self.conclusion.verdict,
                "verdict_reason": self.conclusion.reason,
                "checks": [check.to_json() for check in self.all_checks],
                "started_at": self.started_at,
                "finished_at": self.finished_at,
                "cluster": self.cluster.to_json(),
                "environment": {"versions": dict(self.versions), "variables": dict(self.variables)},
                "config": dict(self.config),
                "benchmarks": [benchmark.to_json() for benchmark in self.benchmarks],
                "findings": [finding.to_json() for finding in self.findings],
                "timings_seconds": dict(self.timings),
                **({"isolation": self.isolation.to_json()} if self.isolation else {}),
                **({"continued": self.continued.to_json()} if self.continued else {}),
                **({"scheduler": self.scheduler.to_json()} if self.scheduler else {}),
                **({"trackers": [one.to_json() for one in self.trackers]} if self.trackers else {}),
            }
        )


def result_file(path: Path) -> Path:
    """The file of a run that is named by its file, or by its folder."""
    try:
        return path / "result.json" if path.is_dir() else path
    except OSError:  # a name longer than any: said where it is read
        return path
