"""The GPU and the node that an estimate is of: named, or given in part."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.hardware.gpus import Gpu
    from raybench.hardware.nodes import NodeType
    from raybench.services.estimating.options import EstimateOptions


_OF_ANOTHER = "of another say --memory, such as 12G, in place of --gpu: what fits is told, and no time"


@dataclass(frozen=True, slots=True)
class Machine:
    """The node as far as it was given, with where each figure is from."""

    gpu: "Gpu | None"
    node: "NodeType | None"
    basis: dict[str, str]


def machine_of(options: "EstimateOptions") -> Machine:
    """The GPU and the node type that were named. Raises UsageError for names that the tables do not have.

    So for more ranks a node than it has GPUs.
    """
    from raybench.hardware.nodes import machine_named

    gpu, node = machine_named(options.gpu, options.node_type, else_=_OF_ANOTHER)
    if node is not None and (options.gpus_per_node or 0) > node.gpus:
        asked = f"--gpus-per-node is {options.gpus_per_node}; a {node.name} has {node.gpus} GPUs"
        raise UsageError(f"{asked}; {_many_nodes(node, options.gpus_per_node or 0)}")
    return Machine(gpu, node, {"peak and memory": f"{gpu.name}, {gpu.source}"} if gpu else {})


def _many_nodes(node: "NodeType", ranks: int) -> str:
    """How to ask for so many ranks of that type: nodes of a rack need no more than their number."""
    from raybench.hardware.gpus import RACKS

    nodes = math.ceil(ranks / node.gpus)
    joined = ", which are counted with the NVLink that joins them in a rack" if node.gpu.name in RACKS else ""
    return f"leave it out and ask for {nodes} nodes (plan: --nodes {nodes}, estimate: --world-size {ranks}){joined}"


def memory_of(options: "EstimateOptions", gpu: "Gpu | None") -> int | None:
    """Bytes of a GPU that a program can use: given, else the table's; None where neither is known."""
    from raybench.hardware.gpus import other_sizes, usable_of
    from raybench.units import parse_amount

    if options.memory:
        alike = (gpu, *other_sizes(options.gpu or "")) if gpu else ()
        return usable_of(parse_amount("--memory", options.memory, "64M"), alike)
    return gpu.memory_bytes if gpu else None


def sizes_meant(options: "EstimateOptions") -> tuple[int, ...]:
    """Bytes of GPUs that may be meant as well: none where a size, a machine or a run of one says which."""
    from raybench.hardware.gpus import other_sizes

    is_said = options.memory or options.node_type or options.result_file or options.gpu is None
    return () if is_said else tuple(gpu.memory_bytes for gpu in other_sizes(options.gpu or ""))


def power_limit(watts: float | None, gpu: "Gpu | None") -> float | None:
    """The limit in watts. Raises UsageError for a GPU of which nobody has measured what one costs."""
    from raybench.performance_model.step.work import FULL_WATTS, LEAST_WATTS

    if watts is None:
        return None
    if gpu is None or gpu.name not in FULL_WATTS:
        known = ", ".join(FULL_WATTS)
        raise UsageError(f"what --power-limit costs is known of {known} only; leave it out, or give --efficiency")
    most = FULL_WATTS[gpu.name]
    if not LEAST_WATTS <= watts <= most:
        raise UsageError(
            f"--power-limit is {watts:g}; {gpu.name} takes {LEAST_WATTS:g} to {most:g} W (nvidia-smi -q -d POWER)"
        )
    return watts


def dtype_on(name: str, gpu: "Gpu | None") -> str:
    """The type; of ``auto`` bf16, or fp16 on a GPU that has units for it and none for bf16 (V100, T4)."""
    if name != "auto":
        return name
    lacks_it = gpu is not None and gpu.peak_tflops("bf16") is None
    return "fp16" if gpu is not None and lacks_it and gpu.peak_tflops("fp16") else "bf16"
