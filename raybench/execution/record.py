"""What is known of a run at any moment, and the result that follows from it."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from diagnostics.findings import Finding
from raybench.benchmarks.registry import records_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.config import RunConfig
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, DroppedNode, NodeInfo
from raybench.documents.run.facts import NodeFacts, typed
from raybench.documents.run.node_samples import NodeSamples
from raybench.documents.run.result import RunResult, Status
from raybench.documents.run.scheduler import job_of_environment
from raybench.execution.collector import Collector
from raybench.execution.incidents.incident import Incident, causes, next_step
from raybench.execution.live.machine import Machine, machines_of
from raybench.execution.placement import Candidate, PlacementPlan
from raybench.secret_values import recorded

_VERSIONS = ("raybench", "python", "ray", "torch", "nccl", "driver", "kernel")


@dataclass(kw_only=True)
class Planned:
    """What is known once the cluster is joined: nodes, benchmarks, and what has been measured of them."""

    plan: PlacementPlan
    emulated: bool
    specs: tuple[BenchmarkSpec, ...]
    collector: Collector
    variables: dict[str, str]
    found_by: str = ""  # what named the cluster, where the user did not
    launcher: str = ""  # what started the ranks, where it was not Ray
    facts: list[dict[str, Any]] = field(default_factory=list)  # by node, in plan order
    rank_facts: dict[int, Mapping[str, str]] = field(default_factory=dict)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines that the nodes are on."""
        hostnames = [
            typed(NodeFacts, facts).hostname or node.name
            for node, facts in zip(self.plan.nodes, self.facts, strict=True)
        ]
        return machines_of(self.plan, hostnames, emulated=self.emulated)

    def named_facts(self) -> list[tuple[str, dict[str, Any]]]:
        """(node name, its facts) in plan order."""
        return [(node.name, facts) for node, facts in zip(self.plan.nodes, self.facts, strict=True)]

    def named_rank_facts(self) -> list[tuple[str, Mapping[str, str]]]:
        """(node name, facts of one of its ranks) in rank order."""
        return [(self.plan.node_of(rank).name, facts) for rank, facts in sorted(self.rank_facts.items())]

    def versions(self) -> dict[str, str]:
        """Versions of the software of the run: the first node's, and what the first rank says of itself."""
        versions = {name: str(self.facts[0][name]) for name in _VERSIONS if self.facts and self.facts[0].get(name)}
        if self.rank_facts:
            first = self.rank_facts[min(self.rank_facts)]
            versions |= {name: first[name] for name in ("torch", "nccl", "cuda") if name in first}
        return versions

    def node_info(self, index: int, node: Candidate) -> NodeInfo:
        """One node of the result."""
        ranks = self.plan.ranks_of(index)
        facts = dict(self.facts[index]) if index < len(self.facts) else {}
        facts["ranks"] = {str(rank): dict(self.rank_facts[rank]) for rank in ranks if rank in self.rank_facts}
        return NodeInfo(name=node.name, address=node.address, ranks=ranks, gpu_count=node.gpu_count, facts=facts)


@dataclass(kw_only=True)
class RunRecord:
    """Everything about one run. ``result`` can be called at any time, also after an error."""

    config: RunConfig
    run_id: str
    planned: Planned | None = None
    incidents: list[Incident] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    launches: int = 0
    benchmark: int | None = None  # the one that is measured, by its place in the plan
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)
    samples: NodeSamples | None = None  # what the agents of its nodes sampled

    @property
    def elapsed_seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self.clock

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the seconds of the block among those of a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.timings[phase] = self.timings.get(phase, 0.0) + time.monotonic() - began

    def without_samples(self) -> "RunRecord":
        """A copy without what the ranks measured, and without their logs: those may be long."""
        planned = self.planned and replace(self.planned, collector=self.planned.collector.emptied())
        return replace(self, planned=planned, logs={})

    @property
    def step(self) -> str | None:
        """What is measured now; None where nothing is."""
        if self.planned is None or self.benchmark is None:
            return None
        spec, world_size = self.planned.specs[self.benchmark], self.planned.plan.world_size
        return next_step(spec, self.planned.collector.measured(self.benchmark), world_size)

    def need(self) -> Planned:
        """What was planned. Raises RuntimeError before there is a plan."""
        if self.planned is None:
            raise RuntimeError("the run has no plan yet")
        return self.planned

    def result(self) -> RunResult:
        """What is known now."""
        blamed = causes(self.incidents)
        benchmarks = self._benchmarks(blamed[0].text() if blamed else None)
        emulated = self.planned is not None and self.planned.emulated
        victims = [one.text() for one in self.incidents if blamed and one.kind != blamed[0].kind]
        return RunResult(
            run_id=self.run_id,
            status=_status(broken=bool(self.incidents), benchmarks=benchmarks),
            started_at=self.started.isoformat(timespec="seconds"),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            cluster=self._cluster(),
            versions=self.planned.versions() if self.planned else {},
            variables=recorded(self.planned.variables) if self.planned else {},
            config=self.config.to_json(),
            benchmarks=benchmarks,
            findings=(
                *(cause.to_finding(victims) for cause in blamed),
                *self.findings,
                *(found for one in benchmarks for found in self._findings_of(one, emulated=emulated)),
                *_findings_together(benchmarks),
            ),
            timings={**self.timings, "total": self.elapsed_seconds},
            node_samples=self.samples,
            scheduler=job_of_environment(os.environ),
        )

    def _findings_of(self, benchmark: BenchmarkResult, *, emulated: bool) -> Iterable[Finding]:
        if workload_of(benchmark.kind).records is None:
            return ()
        return records_of(benchmark.kind).findings(benchmark, self._node_of, emulated)

    def _node_of(self, rank: int) -> str | None:
        return self.planned.plan.node_of(rank).name if self.planned else None

    def _benchmarks(self, reason: str | None) -> tuple[BenchmarkResult, ...]:
        return self.planned.collector.results(max(self.launches, 1), reason) if self.planned else ()

    def _cluster(self) -> ClusterInfo:
        lost = [one for one in self.incidents if one.kind == "node-lost"]
        dropped = tuple(DroppedNode(node=one.node, reason=one.reason) for one in lost if one.node is not None)
        if self.planned is None:
            backend = self.config.backend or "none"
            return ClusterInfo(nodes=(), world_size=0, backend=backend, emulated=False, dropped=dropped)
        plan = self.planned.plan
        return ClusterInfo(
            nodes=tuple(self.planned.node_info(index, node) for index, node in enumerate(plan.nodes)),
            world_size=plan.world_size,
            backend=plan.backend,
            emulated=self.planned.emulated,
            dropped=dropped,
        )


def _status(*, broken: bool, benchmarks: Sequence[BenchmarkResult]) -> Status:
    if any(benchmark.wrong for benchmark in benchmarks):
        return "failed"
    if not any(benchmark.is_measured for benchmark in benchmarks):
        return "failed"  # nothing measured is never a clean result, also where everything was skipped
    incomplete = broken or any(benchmark.status == "partial" for benchmark in benchmarks)
    return "partial" if incomplete else "complete"


def _findings_together(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Finding]:
    """What the benchmarks of each kind say beside each other."""
    for kind in dict.fromkeys(one.kind for one in benchmarks):
        if workload_of(kind).records is not None:
            yield from records_of(kind).together([one for one in benchmarks if one.kind == kind])
