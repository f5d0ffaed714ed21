"""How the time of one rank's trace divides, and which operations it goes into. Pure.

Events are those of ``trace.py``. Of each moment the first of these counts that is so: computation; memory, which is
copies and fills (on a GPU the categories ``gpu_memcpy`` and ``gpu_memset``, on a CPU operators such as
``aten::copy_``, for which a CPU computes nothing else meanwhile); exposed communication; idle. So the four are the
whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from raybench.benchmarks.training.exposure.intervals import Interval, common, length, merged, without
from raybench.benchmarks.training.exposure.trace import HOST_GAP_US, STEP

Event = Mapping[str, Any]
_NETWORK_KERNELS = ("nccl", "rccl", "nvshmem")
_COPIES = ("gpu_memcpy", "gpu_memset")
_HOST_COPIES = frozenset(["aten::copy_", "aten::_to_copy", "aten::clone", "aten::fill_", "aten::zero_"])
_MOST_NAME = 200  # characters: a template's name has thousands
_MOST_OPERATIONS = 300
_US = 1e6


class OperationTime(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, or on a CPU an operator without those that it calls; calls and seconds of one step.

    ``kind``: computation, communication or memory.
    """

    kind: str
    calls: float
    seconds: float


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one step, the mean over ``steps``: computation + memory + exposed + idle is ``seconds``.

    ``communication`` includes waiting for late ranks and what computation hides. ``device``: GPU where the trace has
    kernels, else CPU. Not ``framed``: no step is marked, and from the first to the last event counts as one.
    ``own_steps``: of each step what is not exposed communication.
    """

    device: str
    framed: bool
    steps: int
    seconds: float
    computation: float
    communication: float
    exposed: float
    memory: float
    idle: float
    own_steps: tuple[float, ...]
    operations: dict[str, OperationTime]


def division_of(trace: Mapping[str, Any]) -> Division | None:
    """How the time of a trace divides; None where nothing in it computes, copies or communicates."""
    events = [event for event in trace.get("traceEvents", ()) if event.get("ph") == "X" and "dur" in event]
    by_kind = _device_kinds(events) if any(event.get("cat") == "kernel" for event in events) else _host_kinds(events)
    counted = [event for ones in by_kind.values() for event in ones]
    if not counted:
        return None
    frames = _frames(events)
    spans = [*map(_span, counted)]
    whole = frames or [(min(begin for begin, _ in spans), max(end for _, end in spans))]
    return _divided(by_kind, whole, framed=bool(frames))


def _divided(by_kind: Mapping[str, Sequence[Event]], frames: Sequence[Interval], *, framed: bool) -> Division:
    on_device = any(event.get("cat") == "kernel" for ones in by_kind.values() for event in ones)
    spans = {kind: merged(map(_span, ones)) for kind, ones in by_kind.items()}
    copies, talking, computing = spans["memory"], spans["communication"], spans["computation"]
    if not on_device:
        computing = without(merged([*computing, *copies], HOST_GAP_US), copies)
    busy = merged([*computing, *copies])
    exposed, steps = without(talking, busy), len(frames)

    def share(intervals: Sequence[Interval]) -> float:
        return length(common(intervals, frames)) / steps / _US

    return Division(
        device="GPU" if on_device else "CPU",
        framed=framed,
        steps=steps,
        seconds=length(frames) / steps / _US,
        computation=share(computing),
        communication=share(talking),
        exposed=share(exposed),
        memory=share(without(copies, computing)),
        idle=share(without(frames, merged([*busy, *talking]))),
        own_steps=tuple(length(without([frame], exposed)) / _US for frame in frames),
        operations=_operations(by_kind, frames, nested=not on_device),
    )


def _span(event: Event) -> Interval:
    return float(event["ts"]), float(event["ts"]) + float(event["dur"])


def _device_kinds(events: Sequence[Event]) -> dict[str, list[Event]]:
    kinds: dict[str, list[Event]] = {"computation": [], "communication": [], "memory": []}
    for event in events:
        category = event.get("cat")
        if category in _COPIES:
            kinds["memory"].append(event)
        elif category == "kernel":
            name = str(event["name"]).lower()
            kinds["communication" if any(one in name for one in _NETWORK_KERNELS) else "computation"].append(event)
    return kinds


def _host_kinds(events: Sequence[Event]) -> dict[str, list[Event]]:
    talking = [event for event in events if str(event["name"]).startswith("gloo:")]
    threads = {event.get("tid") for event in talking}
    kinds: dict[str, list[Event]] = {"computation": [], "communication": talking, "memory": []}
    for event in events:
        name = str(event["name"])
        if event.get("cat") == "cpu_op" and name.startswith("aten::") and event.get("tid") not in threads:
            kinds["memory" if name in _HOST_COPIES else "computation"].append(event)
    return kinds


def _frames(events: Iterable[Event]) -> list[Interval]:
    """Marked steps; the first of several is left out: it pays for the profiler's start."""
    found = sorted(_span(one) for one in events if one["name"] == STEP and one.get("cat") == "user_annotation")
    return found[1:] if len(found) > 1 else found


def _operations(
    by_kind: Mapping[str, Sequence[Event]], frames: Sequence[Interval], *, nested: bool
) -> dict[str, OperationTime]:
    inside = [
        (kind, event)
        for kind, ones in by_kind.items()
        for event in ones
        if any(begin <= float(event["ts"]) < end for begin, end in frames)
    ]
    rows = _own(inside) if nested else ((kind, str(event["name"]), float(event["dur"])) for kind, event in inside)
    found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for kind, name, spent in rows:
        total = found[kind, name[:_MOST_NAME]]
        total[0] += 1
        total[1] += spent
    longest = sorted(found.items(), key=lambda item: -item[1][1])[:_MOST_OPERATIONS]
    steps = len(frames)
    return {
        name: OperationTime(kind=kind, calls=calls / steps, seconds=spent / steps / _US)
        for (kind, name), (calls, spent) in longest
    }


def _own(events: Iterable[tuple[str, Event]]) -> Iterator[tuple[str, str, float]]:
    """Each operator with its time without those that it called on its thread."""
    threads: dict[Any, list[tuple[str, Event]]] = defaultdict(list)
    for kind, event in events:
        threads[event.get("pid"), event.get("tid")].append((kind, event))
    for row in threads.values():
        inner = [0.0] * len(row)
        row.sort(key=lambda one: (float(one[1]["ts"]), -float(one[1]["dur"])))
        stack: list[int] = []
        for number, (_, event) in enumerate(row):
            while stack and _span(row[stack[-1]][1])[1] <= float(event["ts"]):
                stack.pop()
            if stack:
                inner[stack[-1]] += float(event["dur"])
            stack.append(number)
        for (kind, event), called in zip(row, inner, strict=True):
            yield kind, str(event["name"]), max(float(event["dur"]) - called, 0.0)
