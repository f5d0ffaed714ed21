"""What is said beside a run's figures and may explain them: versions, variables, settings of its nodes. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.result import RunResult
from raybench.documents.run.standalone import StandaloneResult
from raybench.units import format_bytes

_SAME_ON_NODES = frozenset(
    {
        "kernel",
        "driver",
        "cpu_count",
        "tcp_congestion_control",
        "niceness",
        "nccl",
        "torch",
        "ray",
        "python",
        "raybench",
    }
)


def environment_of(result: RunResult) -> Mapping[str, str]:
    """Versions and variables, what a search could fill, and of the nodes what may explain a figure: all values."""
    told: dict[str, dict[str, None]] = {}
    for node in result.cluster.nodes:
        for name, value in node.facts.items():
            if name in _SAME_ON_NODES and value is not None:
                told.setdefault(name, {})[text_of(value)] = None
        for name, setting in (node.known_facts.settings or {}).items():
            told.setdefault(name, {})[setting] = None
    nodes = {name: " | ".join(values) for name, values in told.items()}
    return {**nodes, **result.versions, **result.variables, **_limits(result.benchmarks)}


def _limits(benchmarks: Sequence[BenchmarkResult]) -> Mapping[str, str]:
    """The memory that each search for the largest batch had."""
    searched = [one for benchmark in benchmarks for one in benchmark.workload if isinstance(one, MemoryPoint)]
    return {f"limit of {one.label}": format_bytes(one.limit_bytes) for one in searched}


def facts_of_ranks(result: StandaloneResult) -> Mapping[str, str]:
    """Of ranks under torchrun the same, and their variables."""
    told: dict[str, dict[str, None]] = {}
    for facts in result.ranks.values():
        for key, value in facts.items() if isinstance(facts, Mapping) else ():
            if key in _SAME_ON_NODES or key.startswith("env."):
                told.setdefault(key, {})[text_of(value)] = None
    return {key: " | ".join(values) for key, values in told.items()}


def text_of(value: Any) -> str:
    """A setting as it is compared: lists without their brackets, what is not set as ``-``."""
    if isinstance(value, list | tuple):
        return " ".join(map(text_of, value)) or "-"
    return "-" if value is None else str(value)
