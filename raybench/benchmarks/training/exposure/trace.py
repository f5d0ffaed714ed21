"""What PyTorch's profiler saw of some steps: a Chrome trace to steps, communication and computation. Pure.

Events are ``{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 4150.2, "dur": 918.0, "tid": 77, "args": {}}`` with
microseconds. Communication is, on a GPU, kernels whose name has ``nccl``; on a CPU, gloo's own ranges, from the
moment at which its thread takes the operation up. Computation is every other kernel; on a CPU, PyTorch's operators
(``aten::``), where a pause of up to 0.2 ms between two is the interpreter at work and not waiting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raybench.benchmarks.spec import DTYPE_BYTES
from raybench.benchmarks.training.exposure.intervals import Interval, common, length, merged, within
from raybench.performance_model.layout import Operation as LayoutOperation
from raybench.performance_model.layout import wire_factor

STEP = "raybench.step"
COUNTED = "ProfilerStep#"  # what TensorBoard's profiler plugin and HTA take for the steps of a trace
HOST_GAP_US = 200.0
_DEVICE_COMPUTE = ("kernel", "gpu_memcpy", "gpu_memset")

# c10d operator -> collective, and which of its arguments is the whole message S as nccl-tests counts it.
_OPERATORS: dict[str, tuple[LayoutOperation, int]] = {
    "c10d::allreduce_": ("all_reduce", 0),
    "c10d::_allgather_base_": ("all_gather", 0),
    "c10d::_reduce_scatter_base_": ("reduce_scatter", 1),
    "c10d::broadcast_": ("broadcast", 0),
}
_TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "signed char": "int8",
    "unsigned char": "uint8",
}
_NCCL_TYPES = {"float": "float32", "double": "float64", "bfloat16": "bfloat16", "half": "float16", "long": "int64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One collective that a step called for. ``ready`` is seconds from the begin of the step.

    ``ranks`` take part, where the sizes of its tensors say so.
    """

    name: LayoutOperation
    elements: int
    dtype: str
    ranks: int | None = None
    ready: float = 0.0

    @property
    def message_bytes(self) -> int:
        """S, as nccl-tests counts it."""
        return self.elements * DTYPE_BYTES[self.dtype]

    def wire_bytes(self, world_size: int) -> float:
        """What each rank sends at least; of ``world_size`` ranks where the operation does not say of how many."""
        return self.message_bytes * wire_factor(self.name, self.ranks or world_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One profiled step of one rank, in seconds from its begin."""

    seconds: float
    communication: tuple[Interval, ...]
    computation: tuple[Interval, ...]
    operations: tuple[Operation, ...]


def steps_of(trace: Mapping[str, Any]) -> tuple[StepTrace, ...]:
    """The steps marked as ``STEP``, in order."""
    events = [event for event in trace.get("traceEvents", ()) if event.get("ph") == "X" and "dur" in event]
    frames = sorted(
        _interval(event) for event in events if event["name"] == STEP and event.get("cat") == "user_annotation"
    )
    on_device = any(event.get("cat") == "kernel" for event in events)
    talking = [event for event in events if _is_communication(event, on_device=on_device)]
    threads = {event.get("tid") for event in talking}
    computing = [event for event in events if _is_computation(event, threads, on_device=on_device)]
    operators = sorted((event for event in events if event["name"] in _OPERATORS), key=lambda event: float(event["ts"]))
    types = _types_by_length(events)
    called = [(float(event["ts"]), _operation(event, types)) for event in operators]
    return tuple(_step(frame, talking, computing, called, on_device=on_device) for frame in frames)


def _interval(event: Mapping[str, Any]) -> Interval:
    return float(event["ts"]), float(event["ts"]) + float(event["dur"])


def _is_communication(event: Mapping[str, Any], *, on_device: bool) -> bool:
    if on_device:  # gpu: profiler-overlap
        return event.get("cat") == "kernel" and "nccl" in event["name"].lower()
    return str(event["name"]).startswith("gloo:")


def _is_computation(event: Mapping[str, Any], threads: set[Any], *, on_device: bool) -> bool:
    if on_device:  # gpu: profiler-overlap
        return event.get("cat") in _DEVICE_COMPUTE and "nccl" not in event["name"].lower()
    return event.get("cat") == "cpu_op" and str(event["name"]).startswith("aten::") and event.get("tid") not in threads


def _step(
    frame: Interval,
    talking: Sequence[Mapping[str, Any]],
    computing: Sequence[Mapping[str, Any]],
    operators: Sequence[tuple[float, Operation | None]],
    *,
    on_device: bool,
) -> StepTrace:
    begin, end = frame
    communication = sorted(within(map(_interval, talking), frame))
    gap = 0.0 if on_device else HOST_GAP_US  # gpu: profiler-overlap
    computation = merged(within(map(_interval, computing), frame), gap)
    called = [(at, operation) for at, operation in operators if begin <= at < end]
    if on_device and len(communication) == len(called):  # the host is ahead of the device  # gpu: profiler-overlap
        called = [(at, operation) for (at, _), (_, operation) in zip(communication, called, strict=True)]
    operations = [replace(operation, ready=(at - begin) / 1e6) for at, operation in called if operation is not None]
    return StepTrace(
        seconds=(end - begin) / 1e6,
        communication=_from(begin, communication),
        computation=_from(begin, computation),
        operations=tuple(operations),
    )


def _from(begin: float, intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    return tuple(((start - begin) / 1e6, (end - begin) / 1e6) for start, end in intervals)


def _operation(event: Mapping[str, Any], types: Mapping[int, str]) -> Operation | None:
    """The operation of an operator's event; None where the profiler kept no sizes. ``ready`` is set later."""
    name, position = _OPERATORS[event["name"]]
    arguments = event.get("args", {})
    try:
        lengths = [_elements(dims) for dims in arguments["Input Dims"][:2]]
        elements = lengths[position]
        dtype = _TYPES.get(str(arguments["Input type"][position])) or types.get(elements)
    except (KeyError, IndexError):
        return None
    parted = name in ("all_gather", "reduce_scatter") and min(lengths) > 0
    ranks = max(lengths) // min(lengths) if parted else None
    return None if dtype is None else Operation(name=name, elements=elements, dtype=dtype, ranks=ranks)


def _types_by_length(events: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Element type of messages by their length: of a list of tensors the operator does not say it, the backend does.

    gloo: ``"name": "gloo:all_reduce", "args": {"Input type": ["float"], "Input Dims": [[262912]]}``; NCCL: ``"name":
    "record_param_comms", "args": {"In msg nelems": 262912, "dtype": "Float"}``.
    """
    found = {}
    for event in events:
        arguments = event.get("args", {})
        if str(event["name"]).startswith("gloo:") and arguments.get("Input Dims") and arguments.get("Input type"):
            found[_elements(arguments["Input Dims"][0])] = _TYPES.get(str(arguments["Input type"][0]))
        elif "In msg nelems" in arguments:
            found[int(arguments["In msg nelems"])] = _NCCL_TYPES.get(str(arguments.get("dtype")).lower())
    return {elements: dtype for elements, dtype in found.items() if dtype is not None}


def _elements(dims: Any) -> int:
    """Elements of a tensor's sizes ``[4, 8]``, or of a list of tensors ``[[4, 8], [3]]``."""
    if any(isinstance(size, list) for size in dims):
        return sum(_elements(size) for size in dims)
    product = 1
    for size in dims:
        product *= int(size)
    return product if dims else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How a step divides, seconds: ``idle`` is neither computation nor communication."""

    communication: float
    computation: float
    overlap: float
    idle: float

    @property
    def exposed(self) -> float:
        """Communication that no computation hides."""
        return self.communication - self.overlap


def shares_of(step: StepTrace, transfer_seconds: Sequence[float] | None = None) -> Shares:
    """A step's shares. ``transfer_seconds[i]``: of communication i, the shortest over ranks.

    A rank that comes early waits inside the operation for the last one; the transfer is at its end, so each interval is
    cut to that length from its end.
    """
    intervals = step.communication
    if transfer_seconds is not None:
        pairs = zip(intervals, transfer_seconds, strict=True)
        intervals = tuple((max(begin, end - least), end) for (begin, end), least in pairs)
    talking = merged(intervals)
    both = length(common(talking, step.computation))
    computation, communication = length(step.computation), length(talking)
    return Shares(
        communication=communication,
        computation=computation,
        overlap=both,
        idle=max(step.seconds - (computation + communication - both), 0.0),
    )
