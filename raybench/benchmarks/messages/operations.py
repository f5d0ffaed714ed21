"""The operations on messages, collectives and pairs: which parameters apply to each, and the specs that follow.

A literal table: no operation is imported until a rank runs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from raybench.benchmarks.spec import DTYPE_BYTES, BenchmarkSpec
from raybench.benchmarks.workload import Request
from raybench.sizes import elements_of
from raybench.units import format_bytes

Placement = Literal["in_place", "out_of_place"]
IN: tuple[Placement, ...] = ("in_place",)
OUT: tuple[Placement, ...] = ("out_of_place",)
BOTH: tuple[Placement, ...] = ("out_of_place", "in_place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Where an operation is defined and which parameters apply to it.

    ``placements``: those that torch.distributed offers; where it is one only, that one is measured. ``partitioned``:
    the message is cut into one part a rank, so its elements are a multiple of world_size. ``matrix``: of one size,
    between all ordered pairs of ranks.
    """

    module: str
    placements: tuple[Placement, ...] = OUT
    reduces: bool = False
    rooted: bool = False
    partitioned: bool = False
    matrix: bool = False


_COLLECTIVES = "raybench.benchmarks.collectives"
COLLECTIVES: dict[str, Operation] = {
    "all_reduce": Operation(module=f"{_COLLECTIVES}.all_reduce", placements=IN, reduces=True),
    "all_gather": Operation(module=f"{_COLLECTIVES}.all_gather", placements=BOTH, partitioned=True),
    "reduce_scatter": Operation(
        module=f"{_COLLECTIVES}.reduce_scatter", placements=BOTH, reduces=True, partitioned=True
    ),
    "broadcast": Operation(module=f"{_COLLECTIVES}.broadcast", placements=IN, rooted=True),
    "reduce": Operation(module=f"{_COLLECTIVES}.reduce", placements=IN, reduces=True, rooted=True),
    "gather": Operation(module=f"{_COLLECTIVES}.gather", placements=OUT, rooted=True, partitioned=True),
    "scatter": Operation(module=f"{_COLLECTIVES}.scatter", placements=OUT, rooted=True, partitioned=True),
    "all_to_all": Operation(module=f"{_COLLECTIVES}.all_to_all", placements=OUT, partitioned=True),
}
POINT_TO_POINT: dict[str, Operation] = {
    "send_recv": Operation(module=f"{_COLLECTIVES}.send_recv", placements=OUT),
    "p2p_matrix": Operation(module="raybench.benchmarks.messages.point_to_point", placements=OUT, matrix=True),
}
OPERATIONS = COLLECTIVES | POINT_TO_POINT


def is_matrix(spec: BenchmarkSpec) -> bool:
    """Whether it measures each ordered pair of ranks, at one size."""
    return spec.name in OPERATIONS and OPERATIONS[spec.name].matrix


def sizes_of(spec: BenchmarkSpec, world_size: int) -> tuple[int, ...]:
    """Message sizes in bytes that are really measured, ascending, each once: what driver and ranks both count by.

    A matrix of pairs has one size, the first of the spec's.
    """
    element_bytes = DTYPE_BYTES[spec.dtype]
    multiple = world_size if OPERATIONS[spec.name].partitioned else 1
    wanted = spec.sizes[:1] if is_matrix(spec) else spec.sizes
    return tuple(sorted({elements_of(size, element_bytes, multiple) * element_bytes for size in wanted}))


def labels_of_messages(spec: BenchmarkSpec, world_size: int) -> tuple[str, ...]:
    """The size of each point, in order."""
    sizes = sizes_of(spec, world_size)
    if is_matrix(spec):
        return (format_bytes(sizes[0]),) * (world_size * (world_size - 1))
    return tuple(format_bytes(size) for size in sizes)


def parameters_of_messages(spec: BenchmarkSpec) -> Mapping[str, Any]:
    """The parameters as a result records them."""
    return {"dtype": spec.dtype, "reduce_op": spec.reduce_op, "root": spec.root, "in_place": spec.in_place}


def place_of_message(spec: BenchmarkSpec, label: str, point: int | None) -> str:
    """``all_reduce float32 1M``, ``p2p_matrix float32 4M pass 3``: passes over pairs are all of one size."""
    number = f" pass {point + 1}" if point is not None and is_matrix(spec) else ""
    return f"{spec.name} {spec.dtype} {label}{number}".rstrip()


def plan_messages(kind: str, name: str, request: Request) -> tuple[BenchmarkSpec, ...]:
    """One spec for each placement, type and reduction asked for; the placement that it has where it lacks that."""
    operation = OPERATIONS[name]
    return tuple(
        replace(
            request.template,
            name=name,
            kind=kind,
            dtype=dtype,
            reduce_op=reduce_op,
            root=request.template.root or 0 if operation.rooted else None,
            in_place=chosen == "in_place",
        )
        for chosen in _placements(operation, request.placement)
        for dtype in request.dtypes
        for reduce_op in (request.reduce_ops if operation.reduces else (None,))
    )


def _placements(operation: Operation, placement: str) -> tuple[Placement, ...]:
    wanted = {"in": ("in_place",), "out": ("out_of_place",), "both": BOTH}[placement]
    return tuple(one for one in operation.placements if one in wanted) or operation.placements
