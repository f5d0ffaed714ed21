"""What a trial found out, read from the files of its run: times, throughput, memory, and the network it really used."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from raybench.studies.design import Trial

TrialStatus = Literal["complete", "partial", "failed", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One figure of a run: ``all_reduce 16 MiB``, ``ddp tiny``.

    ``seconds``: of one operation (the median) or one training step (the mean, so that samples/s follows from it).
    ``exposed_seconds``: communication that the step waits for. All of them None where the run has no such figure.
    """

    label: str
    seconds: float
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    exposed_seconds: float | None = None
    overhead: float | None = None
    memory_bytes: int | None = None
    verified: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One trial's run. ``network`` and ``gdr`` are what its NCCL logs prove; ``sent_bytes`` by device, all nodes."""

    trial: Trial
    status: TrialStatus
    measured: tuple[Measured, ...] = ()
    world_size: int = 0
    node_count: int = 0
    emulated: bool = False
    backend: str = "unknown"
    network: str = "unknown"
    gdr: bool | None = None
    sent_bytes: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None

    def figure(self, label: str) -> Measured | None:
        """The figure of that label."""
        return next((one for one in self.measured if one.label == label), None)

    def to_json(self) -> dict[str, Any]:
        """The outcome as the study's result holds it."""
        return asdict(self)


def outcome_of(trial: Trial, result: Mapping[str, Any], diagnosis: Mapping[str, Any] | None) -> Outcome:
    """The outcome of a run from its ``result.json`` and ``diagnosis.json``."""
    cluster = result["cluster"]
    found = diagnosis or {}
    findings = [finding for finding in result.get("findings", ()) if finding.get("severity") == "critical"]
    reasons = [str(finding.get("summary")) for finding in findings] + _reasons(result["benchmarks"])
    return Outcome(
        trial=trial,
        status=result["status"],
        measured=tuple(one for benchmark in result["benchmarks"] for one in _figures(benchmark)),
        world_size=cluster["world_size"],
        node_count=len(cluster["nodes"]),
        emulated=cluster["emulated"],
        backend=cluster["backend"],
        network=found.get("network", "unknown"),
        gdr=found.get("gdr"),
        sent_bytes=_sent(cluster["nodes"]),
        reason=reasons[0] if reasons and result["status"] != "complete" else None,
    )


def _reasons(benchmarks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(one["reason"]) for one in benchmarks if one.get("reason")]


def _figures(benchmark: Mapping[str, Any]) -> list[Measured]:
    if benchmark["kind"] == "training":
        return [_training_figure(point) for point in benchmark["points"] if not point.get("failed")]
    if benchmark["kind"] in ("collective", "p2p"):
        return [_operation_figure(benchmark, point) for point in benchmark["points"] if "source_rank" not in point]
    return []


def _training_figure(point: Mapping[str, Any]) -> Measured:
    communication = point.get("communication") or {}
    exposed = communication.get("exposed_seconds") or {}
    known = (exposed.get(name) for name in ("differencing", "profiler", "replay"))
    return Measured(
        label=point["label"],
        seconds=point["seconds"]["mean"],
        samples_per_s=point["samples_per_s"],
        tokens_per_s=point.get("tokens_per_s"),
        exposed_seconds=next((value for value in known if value is not None), None),
        overhead=point.get("overhead"),
        memory_bytes=peak_memory(point.get("memory") or {}),
        verified=point.get("verified"),
    )


def _operation_figure(benchmark: Mapping[str, Any], point: Mapping[str, Any]) -> Measured:
    parameters = benchmark["parameters"]
    detail = [parameters.get("dtype"), parameters.get("reduce_op"), "in place" if parameters.get("in_place") else None]
    words = " ".join(str(part) for part in detail if part)
    return Measured(
        label=f"{benchmark['name']} {words} {point['message_bytes']} B",
        seconds=point["seconds"]["median"],
        busbw_gb_per_s=point["busbw_gb_per_s"],
        verified=point.get("verified"),
    )


def peak_memory(memory: Mapping[str, Any]) -> int | None:
    """The largest of a training point's memory figures that is a peak, bytes; None where there is none."""
    peaks = [value for name, value in memory.items() if "peak" in name and isinstance(value, int | float)]
    return int(max(peaks)) if peaks else None


def _sent(nodes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Bytes sent by device name, summed over nodes."""
    sent: dict[str, int] = {}
    for node in nodes:
        for device, counters in (node.get("facts", {}).get("traffic") or {}).items():
            sent[device] = sent.get(device, 0) + int(counters["sent_bytes"])
    return sent
