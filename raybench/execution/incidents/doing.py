"""What one rank is doing, judged from what was seen of it: it waits in an operation, sleeps, computes, is stopped."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from raybench.benchmarks.rank.progress import NOBODY, Operation
from raybench.benchmarks.rank.recorded import Recorded
from raybench.execution.node_actors.messages import RankActivity, RankPosition
from raybench.execution.ranks.native_stack import is_native
from raybench.execution.ranks.stack import Frame

Made = Operation | Recorded
State = Literal["stopped", "ended", "finished", "waiting", "asleep", "blocked", "busy", "unknown"]
_IDLE_SHARE = 0.1  # of a processor, and of the looks at a process
_QUOTED_FUNCTIONS = 3
_LIBRARIES = ("/torch/", "/raybench/benchmarks/")
_RECORDING = "/raybench/benchmarks/rank/recording.py"  # what notes each operation on its way to PyTorch
_FOREIGN = ("/lib/python", "/site-packages/", "/dist-packages/", "<frozen", _RECORDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One rank: where it is in the plan, and what was seen of it."""

    node: str
    position: RankPosition
    activity: RankActivity

    @property
    def rank(self) -> int:
        """Its number."""
        return self.position.rank


def state_of(seen: Seen) -> State:  # noqa: PLR0911 - a state a line
    """What the rank is doing, in a word. ``waiting``: in an operation, for other ranks or for the network."""
    activity = seen.activity
    last = seen.position.state if seen.position.state in ("X", "Z") else activity.states[-1:] or seen.position.state
    if last in ("T", "t"):
        return "stopped"
    if last in ("X", "Z"):
        return "ended"
    if seen.position.phase == "finished":
        return "finished"
    if is_waiting(activity):
        return "waiting"
    if _mostly(activity.states, "D"):
        return "blocked"
    if is_idle(activity):
        return "asleep"
    return "unknown" if activity.cpu_seconds is None else "busy"


def is_idle(activity: RankActivity) -> bool:
    """Whether the process used no processor and moved no bytes in the window."""
    running = sum(state == "R" for state in activity.states)
    return (
        activity.cpu_seconds is not None
        and activity.cpu_seconds <= _IDLE_SHARE * activity.window_seconds
        and running <= max(_IDLE_SHARE * len(activity.states), 1)
        and not activity.io_bytes
    )


def is_waiting(activity: RankActivity) -> bool:
    """Whether the rank waits in an operation: it is inside one, and its innermost Python frame belongs to PyTorch.

    A function that somebody put in an operation's place, and that sleeps, is no wait for others.
    """
    if current_operation(activity) is None and pending(activity) is None:
        return False
    if not activity.stack:
        return not _mostly(activity.states, "D")
    return any(part in activity.stack[0].file for part in _LIBRARIES)


def current_operation(activity: RankActivity) -> Operation | None:
    """The operation that the rank has entered and not left."""
    last = activity.operations[-1] if activity.operations else None
    return last if last is not None and last.inside else None


def pending(activity: RankActivity) -> Recorded | None:
    """The oldest collective that PyTorch started for the rank and that is not complete."""
    return next((one for one in activity.recorded or () if not one.over), None)


def waited_in(activity: RankActivity) -> Made | None:
    """The operation that a rank waits in, if it waits. Of what is queued on a GPU, the first that is not complete."""
    own = current_operation(activity)
    return (pending(activity) or own) if own is None or own.name == "device" else own


def _mostly(states: str, state: str) -> bool:
    return bool(states) and states.count(state) * 2 > len(states)


def decisive_frames(stack: Sequence[Frame]) -> tuple[Frame, ...]:
    """The innermost frame, and the innermost of the program itself where that is another one."""
    if not stack:
        return ()
    own = next((frame for frame in stack if not any(part in frame.file for part in _FOREIGN)), stack[0])
    return (stack[0],) if own is stack[0] else (own, stack[0])


def library_text(stack: Sequence[Frame]) -> str:
    """The innermost functions of libraries: ``epoll_wait < gloo::Loop::run (libtorch_cpu.so)``; empty for none."""
    inner = list(itertools.takewhile(is_native, stack))[:_QUOTED_FUNCTIONS]
    return f"{' < '.join(one.function[:80] for one in inner)} ({PurePath(inner[-1].file).name})" if inner else ""


def frame_text(frame: Frame) -> str:
    """``nap (train.py line 12: time.sleep(1000))``, ``epoll_wait (libc.so.6)``."""
    if is_native(frame):
        return f"{frame.function} ({PurePath(frame.file).name})"
    source = f": {frame.text}" if frame.text else ""
    return f"{frame.function} ({PurePath(frame.file).name} line {frame.line}{source})"


def operation_text(operation: Made) -> str:
    """``all_reduce #41 (262144 float32)``, ``recv #3 from rank 2 (1024 int8)``."""
    name = {"device": "the wait for its GPU", "store": "the wait for the others' answers in the store"}.get(
        operation.name, operation.name
    )
    text = f"{name} #{operation.sequence}"
    if isinstance(operation, Operation):
        text += f" to rank {operation.peer}" if operation.peer != NOBODY and operation.name.startswith("send") else ""
        text += f" from rank {operation.source}" if operation.source != NOBODY else ""
    return text + (f" ({operation.count} {operation.dtype or 'elements'})" if operation.count else "")


def doing_text(seen: Seen) -> str:
    """What the rank is doing, with its line of code: what follows "rank 1 is ..."."""
    activity, state = seen.activity, state_of(seen)
    operation = waited_in(activity)
    if state == "waiting" and operation is not None:
        return f"inside {operation_text(operation)}"
    what = {
        "stopped": "stopped (SIGSTOP or a debugger)",
        "ended": "no longer running",
        "finished": "through with its plan",
        "asleep": "asleep",
        "blocked": "blocked in the kernel",
        "busy": "at work on its processor",
    }.get(state, "in an unknown state")
    channel = activity.wait_channel if state in ("asleep", "blocked") else None
    what += f" in the kernel's {channel}" if channel and "nanosleep" not in channel else ""
    frames = decisive_frames(activity.stack)
    return f"{what} in {frame_text(frames[0])}" if frames else f"{what}; no Python stack came from it"


def place_text(seen: Seen) -> str:
    """Between which operations the rank is: ``after all_reduce #40``; empty where it has entered none."""
    activity = seen.activity
    if not activity.operations:
        return ""
    last = activity.operations[-1]
    if not last.inside:
        return f"after {operation_text(last)}"
    if state_of(seen) == "waiting":
        return f"inside {operation_text(last)}"
    return f"in its call of {operation_text(last)}, not in the operation itself"
