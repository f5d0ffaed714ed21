"""What a trial found out, read from the files of its run: times, throughput, memory, and the network it really used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from raybench.studies.design import Trial
from raybench.units import format_bytes

_OUT_OF_MEMORY = re.compile(r"\bout of memory\b|OutOfMemoryError", re.IGNORECASE)
TrialStatus = Literal["complete", "partial", "failed", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One figure of a run: ``all_reduce float32 sum 16 MiB``, ``ddp tiny``.

    ``seconds``: of one operation (the median) or one training step (the mean, so that samples/s follows from it).
    ``exposed_seconds``: communication that the step waits for, and ``overhead`` its share of the step;
    ``hidden_seconds``: that beside which it computes. What the run has no figure of is None.
    """

    label: str
    seconds: float
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    exposed_seconds: float | None = None
    hidden_seconds: float | None = None
    overhead: float | None = None
    data_share: float | None = None
    memory_bytes: int | None = None
    loss: float | None = None
    batch_size_per_rank: int | None = None
    verified: bool | None = None
    steps: int | None = None
    parameters: int | None = None
    tflop_per_s_per_rank: float | None = None
    mfu: float | None = None
    memory_limit_bytes: int | None = None
    memory_kind: str | None = None  # cuda: the device's; rss: that of the rank's process


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What a run's NCCL logs cover, and what they say beside the name of the network.

    ``networks`` by rank as its log names it, None where it does not. ``unseen_nodes`` have no rank in any log;
    ``strange``: not one process in the logs is one of the run's. ``gdr_share``: of channels over the network.
    """

    networks: Mapping[str, str | None] = field(default_factory=dict)
    unseen_nodes: tuple[str, ...] = ()
    strange: bool = False
    gdr_share: float | None = None
    providers: tuple[str, ...] = ()  # of libfabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One trial's run. ``network`` and ``gdr`` are what its NCCL logs prove; ``sent_bytes`` by node and device.

    ``reason`` says why it is not complete, or has nothing to show. ``run`` is its folder below the trial's.
    """

    trial: Trial
    status: TrialStatus
    measured: tuple[Measured, ...] = ()
    world_size: int = 0
    nodes: tuple[str, ...] = ()
    emulated: bool = False
    backend: str = "unknown"
    network: str = "unknown"
    gdr: bool | None = None
    log: LogFacts = field(default_factory=LogFacts)
    sent_bytes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    started_at: str | None = None
    seconds: float | None = None  # of the whole run, its start and end included
    wrong: bool = False
    reason: str | None = None
    does_not_fit: bool = False
    run: str | None = None
    verdict: str | None = None  # of the run, with its reason; None of a run that has none
    verdict_reason: str | None = None
    findings: tuple[Mapping[str, str], ...] = ()  # rule, severity, summary: those of the run, then those of its logs

    @property
    def answered(self) -> bool:
        """Whether doing the trial again can add nothing: it is complete, or its model does not fit into memory."""
        return self.status == "complete" or self.does_not_fit

    @property
    def node_count(self) -> int:
        """Nodes that the ranks were on."""
        return len(self.nodes)

    def figure(self, label: str) -> Measured | None:
        """The figure of that label."""
        return next((one for one in self.measured if one.label == label), None)

    def to_json(self) -> dict[str, Any]:
        """The outcome as the study's result holds it, the trial's own keys beside the others."""
        content = asdict(self)
        trial = content.pop("trial")
        return {**trial, "folder": self.trial.folder, **content}


def outcome_of(trial: Trial, result: Mapping[str, Any], diagnosis: Mapping[str, Any] | None, run: str) -> Outcome:
    """The outcome of a run from its ``result.json`` and ``diagnosis.json``. Raises KeyError where keys are missing."""
    cluster = result["cluster"]
    found = diagnosis or {}
    measured = tuple(one for benchmark in result["benchmarks"] for one in _figures(benchmark))
    status = result["status"]
    return Outcome(
        trial=trial,
        status="failed" if status == "complete" and not measured else status,
        measured=measured,
        world_size=cluster["world_size"],
        nodes=tuple(node["name"] for node in cluster["nodes"]),
        emulated=cluster["emulated"],
        backend=cluster["backend"],
        network=found.get("network", "unknown"),
        gdr=found.get("gdr"),
        log=_log_facts(cluster["nodes"], found),
        sent_bytes=_sent(cluster["nodes"]),
        versions=result.get("environment", {}).get("versions", {}),
        started_at=result.get("started_at"),
        seconds=(result.get("timings_seconds") or {}).get("total"),
        wrong=any(
            point.get("verified") is False for benchmark in result["benchmarks"] for point in benchmark["points"]
        ),
        reason=None if status == "complete" and measured else _reasons(result)[0] + _cut(result),
        verdict=result.get("verdict"),
        verdict_reason=result.get("verdict_reason"),
        findings=tuple(_brief(one) for one in (*result.get("findings", ()), *found.get("findings", ()))),
        does_not_fit=not measured and any(_OUT_OF_MEMORY.search(reason) for reason in _reasons(result)),
        run=run,
    )


def _brief(finding: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(finding.get(name) or "") for name in ("rule", "severity", "summary")}


def _log_facts(nodes: Sequence[Mapping[str, Any]], diagnosis: Mapping[str, Any]) -> LogFacts:
    """Whose logs were read. Processes of the run are told by their ids, which NCCL writes into every line."""
    rows = {row["rank"]: row for row in diagnosis.get("ranks") or ()}
    facts = {int(rank): known for node in nodes for rank, known in (node.get("facts", {}).get("ranks") or {}).items()}
    pids = {rank: str(known["pid"]) for rank, known in facts.items() if "pid" in known}
    compared = [str(rows[rank]["pid"]) == pid for rank, pid in pids.items() if rows.get(rank, {}).get("pid")]
    counters = diagnosis.get("counters") or {}
    return LogFacts(
        networks={str(rank): row.get("network") for rank, row in rows.items()},
        unseen_nodes=tuple(node["name"] for node in nodes if not set(node.get("ranks") or ()) & rows.keys()),
        strange=bool(compared) and not any(compared),
        gdr_share=counters.get("gdr_channel_share"),
        providers=tuple(counters.get("ofi_providers") or ()),
    )


def _reasons(result: Mapping[str, Any]) -> list[str]:
    """What went wrong: the verdict of an incomplete run says it best, then a finding, a benchmark, a point."""
    findings = sorted(result.get("findings", ()), key=lambda finding: finding.get("severity") != "critical")
    told = [result.get("verdict_reason")] if result.get("verdict") == "incomplete" else []
    told += [finding.get("summary") for finding in findings]
    told += [benchmark.get("reason") for benchmark in result["benchmarks"]]
    told += [point.get("failed") for benchmark in result["benchmarks"] for point in benchmark["points"]]
    return [str(text) for text in told if text] or ["it measured nothing"]


def _cut(result: Mapping[str, Any]) -> str:
    """What the run did of trainings that it ended within."""
    points = [point for benchmark in result["benchmarks"] for point in benchmark["points"]]
    cut = [f"{one['steps']} timed steps of {one['label']}" for one in points if "steps" in one and not _is_whole(one)]
    return f" ({', '.join(cut)} are in no comparison)" if cut else ""


def _figures(benchmark: Mapping[str, Any]) -> list[Measured]:
    if benchmark["kind"] == "training":
        return [_training_figure(point) for point in benchmark["points"] if _is_whole(point)]
    if benchmark["kind"] in ("collective", "p2p"):
        return [_operation_figure(benchmark, point) for point in benchmark["points"] if "source_rank" not in point]
    return []


def _is_whole(point: Mapping[str, Any]) -> bool:
    """A training that was cut has steps, but not those, nor as many, as what it would be compared with."""
    return not point.get("failed") and bool(point.get("complete", True))


def _training_figure(point: Mapping[str, Any]) -> Measured:
    communication = point.get("communication") or {}
    exposed = communication.get("exposed_seconds") or {}
    known = (exposed.get(name) for name in ("differencing", "profiler", "replay"))
    exposed_seconds = next((max(0.0, value) for value in known if value is not None), None)
    mean = point["seconds"]["mean"]
    memory = point.get("memory") or {}
    return Measured(
        label=point["label"],
        seconds=mean,
        samples_per_s=point["samples_per_s"],
        tokens_per_s=point.get("tokens_per_s"),
        exposed_seconds=None if exposed_seconds is None else min(exposed_seconds, mean),  # a step waits no longer
        hidden_seconds=communication.get("overlap_seconds"),
        overhead=None if point.get("overhead_band") == "unknown" else point.get("overhead"),
        data_share=point.get("data_share"),
        memory_bytes=peak_memory(memory),
        loss=(point.get("loss") or {}).get("last"),
        batch_size_per_rank=point.get("batch_size_per_rank"),
        verified=point.get("verified"),
        steps=point.get("steps"),
        parameters=(point.get("facts") or {}).get("parameters"),
        tflop_per_s_per_rank=point.get("tflop_per_s_per_rank"),
        mfu=point.get("mfu"),
        memory_limit_bytes=int(memory["total_bytes"]) if memory.get("total_bytes") else None,
        memory_kind=memory.get("kind"),
    )


def _operation_figure(benchmark: Mapping[str, Any], point: Mapping[str, Any]) -> Measured:
    parameters = benchmark["parameters"]
    detail = [parameters.get("dtype"), parameters.get("reduce_op"), "in place" if parameters.get("in_place") else None]
    words = " ".join(str(part) for part in detail if part)
    return Measured(
        label=f"{benchmark['name']} {words} {format_bytes(point['message_bytes'])}",
        seconds=point["seconds"]["median"],
        busbw_gb_per_s=point["busbw_gb_per_s"],
        verified=point.get("verified"),
    )


def peak_memory(memory: Mapping[str, Any]) -> int | None:
    """The largest of a training point's memory figures that is a peak, bytes; None where there is none."""
    peaks = [value for name, value in memory.items() if "peak" in name and isinstance(value, int | float)]
    return int(max(peaks)) if peaks else None


def _sent(nodes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Bytes sent by node and device; a node whose counters are not known is left out."""
    counted = ((node["name"], node.get("facts", {}).get("traffic")) for node in nodes)
    return {
        name: {device: int(counters["sent_bytes"]) for device, counters in traffic.items()}
        for name, traffic in counted
        if traffic
    }
