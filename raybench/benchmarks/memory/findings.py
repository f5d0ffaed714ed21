"""What a memory benchmark finds out, in the shape of a diagnosis finding. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.memory import MemoryPoint
from raybench.units import format_bytes


def memory_findings(benchmark: BenchmarkResult) -> Iterator[Mapping[str, Any]]:
    """A model of which not one sample fits: `raybench estimate` calls that a problem, too."""
    for point in benchmark.workload:
        if isinstance(point, MemoryPoint) and point.complete and not (point.failed or point.largest_batch):
            yield _unfit(point)


def _unfit(point: MemoryPoint) -> dict[str, Any]:
    return {
        "rule": "does-not-fit",
        "severity": "critical",
        "confidence": "certain",
        "summary": f"{point.label}: not even one sample fits into {format_bytes(point.limit_bytes)}",
        "explanation": "A training step with a batch of one takes more memory than there is, or than --limit allows.",
        "ranks": [],
        "hosts": [],
        "evidence": [],
        "recommendations": [
            {
                "action": "take-less-memory",
                "text": "Shard with --strategy fsdp, add --checkpoint-activations, or shorten --sequence-length.",
                "commands": [],
                "link": None,
            }
        ],
    }
