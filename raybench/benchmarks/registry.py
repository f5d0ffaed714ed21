"""Every benchmark there is, and the named suites. A literal table: nothing is imported until a rank runs it."""

from dataclasses import dataclass, replace
from typing import Literal

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.footprint.options import MemoryOptions
from raybench.benchmarks.spec import DTYPE_BYTES, BenchmarkSpec
from raybench.benchmarks.training.options import TrainingOptions
from raybench.documents.result import Kind
from raybench.errors import unknown_name
from raybench.sizes import elements_of
from raybench.units import format_bytes

Placement = Literal["in_place", "out_of_place"]
IN: tuple[Placement, ...] = ("in_place",)
OUT: tuple[Placement, ...] = ("out_of_place",)
BOTH: tuple[Placement, ...] = ("out_of_place", "in_place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where a benchmark lives and which parameters apply to it.

    ``placements``: torch.distributed offers all_reduce, broadcast and reduce in place only, and all_to_all, gather,
    scatter and send_recv out of place only. ``partitioned``: the message is cut into one part a rank, so its elements
    are a multiple of world_size.
    """

    module: str
    kind: Kind
    placements: tuple[Placement, ...] = OUT
    reduces: bool = False
    rooted: bool = False
    partitioned: bool = False


_COLLECTIVES = "raybench.benchmarks.collectives"
_TRAINING = "raybench.benchmarks.training.benchmark"
MESSAGE_KINDS = ("collective", "p2p")

BENCHMARKS: dict[str, Entry] = {
    "all_reduce": Entry(module=f"{_COLLECTIVES}.all_reduce", kind="collective", placements=IN, reduces=True),
    "all_gather": Entry(module=f"{_COLLECTIVES}.all_gather", kind="collective", placements=BOTH, partitioned=True),
    "reduce_scatter": Entry(
        module=f"{_COLLECTIVES}.reduce_scatter", kind="collective", placements=BOTH, reduces=True, partitioned=True
    ),
    "broadcast": Entry(module=f"{_COLLECTIVES}.broadcast", kind="collective", placements=IN, rooted=True),
    "reduce": Entry(module=f"{_COLLECTIVES}.reduce", kind="collective", placements=IN, reduces=True, rooted=True),
    "gather": Entry(module=f"{_COLLECTIVES}.gather", kind="collective", placements=OUT, rooted=True, partitioned=True),
    "scatter": Entry(
        module=f"{_COLLECTIVES}.scatter", kind="collective", placements=OUT, rooted=True, partitioned=True
    ),
    "all_to_all": Entry(module=f"{_COLLECTIVES}.all_to_all", kind="collective", placements=OUT, partitioned=True),
    "send_recv": Entry(module=f"{_COLLECTIVES}.send_recv", kind="p2p", placements=OUT),
    "p2p_matrix": Entry(module="raybench.benchmarks.point_to_point", kind="p2p", placements=OUT),
    "ddp": Entry(module=_TRAINING, kind="training"),
    "fsdp": Entry(module=_TRAINING, kind="training"),
    "lora": Entry(module=_TRAINING, kind="training"),
    "qlora": Entry(module=_TRAINING, kind="training"),
    "memory": Entry(module="raybench.benchmarks.footprint.benchmark", kind="memory"),
    "checkpoint": Entry(module="raybench.benchmarks.checkpoint.benchmark", kind="checkpoint"),
}

SUITES: dict[str, tuple[str, ...]] = {
    "collectives": tuple(name for name, entry in BENCHMARKS.items() if entry.kind in MESSAGE_KINDS),
    "quick": ("all_reduce",),
    "p2p": ("send_recv", "p2p_matrix"),
    "training": ("ddp", "fsdp"),
}


def names_of(suite: str) -> tuple[str, ...]:
    """Benchmark names of a comma list of suites and benchmarks, each once, in the order given.

    Raises UsageError for a name that is neither, listing what there is.
    """
    names: list[str] = []
    for part in (text.strip() for text in suite.split(",")):
        if part not in SUITES and part not in BENCHMARKS:
            raise unknown_name("suite or benchmark", part, (*SUITES, *BENCHMARKS))
        names += [name for name in SUITES.get(part, (part,)) if name not in names]
    return tuple(names)


def sizes_of(spec: BenchmarkSpec, world_size: int) -> tuple[int, ...]:
    """Message sizes in bytes that are really measured, ascending, each once: what driver and ranks both count by.

    A matrix of pairs has one size, the first of the spec's.
    """
    element_bytes = DTYPE_BYTES[spec.dtype]
    multiple = world_size if BENCHMARKS[spec.name].partitioned else 1
    wanted = spec.sizes[:1] if spec.name == "p2p_matrix" else spec.sizes
    return tuple(sorted({elements_of(size, element_bytes, multiple) * element_bytes for size in wanted}))


def labels_of(spec: BenchmarkSpec, world_size: int) -> tuple[str, ...]:
    """A name of each point that a benchmark measures, in order: sizes, pairs, or what a workload is made of."""
    if spec.training is not None:
        return (f"{spec.name} {spec.training.model}",)
    if spec.checkpoint is not None:
        return spec.checkpoint.labels()
    if spec.memory is not None:
        return (f"memory {spec.memory.model}",)
    sizes = sizes_of(spec, world_size)
    if spec.name == "p2p_matrix":
        return (format_bytes(sizes[0]),) * (world_size * (world_size - 1))
    return tuple(format_bytes(size) for size in sizes)


def specs_of(
    suite: str, *, placement: str, reduce_ops: tuple[str, ...], dtypes: tuple[str, ...], template: BenchmarkSpec
) -> tuple[BenchmarkSpec, ...]:
    """One spec for each benchmark, placement, type and operation asked for; ``template`` gives everything else.

    ``placement`` is ``in``, ``out`` or ``both``; a benchmark without the one asked for runs in the one it has.
    """
    return tuple(
        spec
        for name in names_of(suite)
        for entry in (BENCHMARKS[name],)
        for spec in (
            _message_specs(name, entry, placement, reduce_ops, dtypes, template)
            if entry.kind in MESSAGE_KINDS
            else (_workload_spec(name, entry, template),)
        )
    )


def _message_specs(
    name: str,
    entry: Entry,
    placement: str,
    reduce_ops: tuple[str, ...],
    dtypes: tuple[str, ...],
    template: BenchmarkSpec,
) -> tuple[BenchmarkSpec, ...]:
    return tuple(
        _spec(name, entry, chosen, dtype, reduce_op, template)
        for chosen in _placements(entry, placement)
        for dtype in dtypes
        for reduce_op in (reduce_ops if entry.reduces else (None,))
    )


def _workload_spec(name: str, entry: Entry, template: BenchmarkSpec) -> BenchmarkSpec:
    """A workload has its own options in the template, and none of the messages'."""
    spec = BenchmarkSpec(name=name, kind=entry.kind, sizes=(), verify=template.verify)
    if entry.kind == "training":
        return replace(spec, training=template.training or TrainingOptions())
    if entry.kind == "memory":
        return replace(spec, memory=template.memory or MemoryOptions())
    return replace(spec, checkpoint=template.checkpoint or CheckpointOptions())


def _placements(entry: Entry, placement: str) -> tuple[Placement, ...]:
    wanted = {"in": ("in_place",), "out": ("out_of_place",), "both": BOTH}[placement]
    return tuple(one for one in entry.placements if one in wanted) or entry.placements


def _spec(
    name: str, entry: Entry, placement: Placement, dtype: str, reduce_op: str | None, template: BenchmarkSpec
) -> BenchmarkSpec:
    return BenchmarkSpec(
        name=name,
        kind=entry.kind,
        sizes=template.sizes,
        dtype=dtype,
        reduce_op=reduce_op,
        root=template.root or 0 if entry.rooted else None,
        in_place=placement == "in_place",
        warmup=template.warmup,
        iterations=template.iterations,
        blocks=template.blocks,
        block_seconds=template.block_seconds,
        max_iterations=template.max_iterations,
        verify=template.verify,
    )
