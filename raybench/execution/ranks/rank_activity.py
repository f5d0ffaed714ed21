"""What the ranks of a node are doing, found without their help: two looks at their processes, their notes, a stack.

Bounded: ``activities`` takes ``_WINDOW_SECONDS``, twice ``_ANSWER_SECONDS`` and the limits of py-spy and NCCL's RAS
where there are any, whatever the ranks do, and all ranks of the node are looked at side by side. The signal for the
stack comes late: it wakes a C function that sleeps. py-spy comes last, since it stops the rank for a moment.
"""

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec

from raybench.benchmarks.rank.progress import Operation, Position, ProgressSlot
from raybench.benchmarks.rank.recorded import Recorded
from raybench.execution.node_actors.messages import RankActivity
from raybench.execution.ranks.native_stack import is_native, native_stacks
from raybench.execution.ranks.nccl_ras import DEFAULT_ADDRESS, ras_report
from raybench.execution.ranks.stack import Frame, ThreadStack, stacks_of, with_source

STACK_SIGNAL = signal.SIGRTMIN + 9
_ANSWER_SECONDS = 0.6
_WINDOW_SECONDS = 1.2
_LOOK_SECONDS = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_LONGEST_DUMP_BYTES = 2**18
_KEPT_THREADS = 4
_OWN_THREAD = "flight_record.py"
_Number = TypeVar("_Number", int, float)
_RECORDED = msgspec.msgpack.Decoder(tuple[Recorded, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One rank as its parent holds it: its process, its slot, where it writes its stacks, and where it is asked."""

    rank: int
    pid: int | None
    slot: ProgressSlot
    stacks: int
    recorder: Connection


@dataclass(slots=True, kw_only=True)
class _Look:
    """What is known of a rank so far."""

    watched: Watched
    before: "_Moment"
    begin_bytes: int
    states: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A rank at one moment."""

    position: Position
    operations: tuple[Operation, ...]
    step_times: tuple[int, ...]
    cpu_seconds: float | None
    io_bytes: int | None
    clock: int

    @classmethod
    def of(cls, watched: Watched) -> "_Moment":
        slot = watched.slot
        return cls(
            position=slot.read(),
            operations=slot.operations(),
            step_times=slot.step_times(),
            cpu_seconds=cpu_seconds(watched.pid),
            io_bytes=_moved_bytes(watched.pid),
            clock=time.monotonic_ns(),
        )

    def has_moved(self, since: "_Moment") -> bool:
        """Whether the rank got on in its plan, or to another operation."""
        return (self.position, self.operations, self.step_times) != (since.position, since.operations, since.step_times)


def activities(
    ranks: Sequence[Watched], ras_address: str = DEFAULT_ADDRESS, *, whole: bool = True
) -> tuple[RankActivity, ...]:
    """What each rank is doing. ``ras_address``: where NCCL's RAS service listens, HOST:PORT.

    ``whole``: also by py-spy, which stops a rank for up to a second, and by RAS.
    """
    pids = [one.pid for one in ranks if one.pid is not None]
    asking = ThreadPoolExecutor(max_workers=1)
    asked = asking.submit(ras_report, pids if whole else [], ras_address)  # it takes its time beside the rest
    asking.shutdown(wait=False)
    looks = [_Look(watched=one, before=_Moment.of(one), begin_bytes=_length(one.stacks)) for one in ranks]
    _watch_states(looks)
    afterwards = [_Moment.of(look.watched) for look in looks]
    kernel = [(_wait_channel(look.watched.pid), _kernel_stack(look.watched.pid)) for look in looks]
    for look in looks:
        _tell(look.watched, lambda watched: watched.recorder.send_bytes(b"?"))
    _wait_until(lambda: all(look.watched.recorder.poll(0) for look in looks))
    for look in looks:
        _tell(look.watched, lambda watched: os.kill(watched.pid or 0, STACK_SIGNAL))
    _wait_until(lambda: all(_length(look.watched.stacks) > look.begin_bytes for look in looks))
    time.sleep(_LOOK_SECONDS)  # for the rest of the last stack
    seen = [_activity(look, after, *stacks) for look, after, stacks in zip(looks, afterwards, kernel, strict=True)]
    native = native_stacks(_states(ranks, seen)) if whole else {}
    return tuple(_with_outside(one, rank.pid, native, asked.result()) for one, rank in zip(seen, ranks, strict=True))


def _states(ranks: Sequence[Watched], seen: Sequence[RankActivity]) -> dict[int, str]:
    """Process ids and their states: ranks without a stack first, then those that are in no operation."""
    pairs = sorted(zip(ranks, seen, strict=True), key=lambda pair: (bool(pair[1].stack), _is_inside(pair[1])))
    return {rank.pid: state_of(rank.pid) for rank, _ in pairs if rank.pid is not None}


def _is_inside(activity: RankActivity) -> bool:
    return bool(activity.operations) and activity.operations[-1].inside


def _with_outside(
    activity: RankActivity,
    pid: int | None,
    native: Mapping[int, tuple[Frame, ...]],
    told: tuple[int, str] | None,
) -> RankActivity:
    """What was seen from outside: frames of libraries, the Python line where the rank could not tell it, and RAS."""
    frames = native.get(pid or 0, ())
    python = _own_frames(tuple(one for one in frames if not is_native(one)))
    return msgspec.structs.replace(
        activity,
        native_stack=frames if any(map(is_native, frames)) else (),
        stack=activity.stack or with_source(python),
        nccl_ras=told[1] if told is not None and told[0] == pid else "",
    )


def _watch_states(looks: Sequence[_Look]) -> None:
    until = time.monotonic() + _WINDOW_SECONDS
    while time.monotonic() < until:
        for look in looks:
            look.states.append(state_of(look.watched.pid))
        time.sleep(_LOOK_SECONDS)


def _tell(watched: Watched, how: Callable[[Watched], None]) -> None:
    """Ask something of a rank that is there; one that has ended since is known by its state."""
    if watched.pid is not None and state_of(watched.pid) not in ("X", "Z"):
        with contextlib.suppress(OSError):
            how(watched)


def _wait_until(condition: Callable[[], bool]) -> None:
    """For a short while: a rank that is stopped, or whose interpreter is held, never answers."""
    until = time.monotonic() + _ANSWER_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def _activity(look: _Look, after: _Moment, wait_channel: str | None, kernel_stack: tuple[str, ...]) -> RankActivity:
    before = look.before
    main, others = _threads(look)
    times = after.step_times
    return RankActivity(
        rank=look.watched.rank,
        states="".join(look.states),
        is_moving=after.has_moved(before),
        cpu_seconds=_difference(after.cpu_seconds, before.cpu_seconds),
        window_seconds=(after.clock - before.clock) / 1e9,
        io_bytes=_difference(after.io_bytes, before.io_bytes),
        stack=main,
        other_stacks=others,
        wait_channel=wait_channel,
        kernel_stack=kernel_stack,
        operations=after.operations,
        recorded=_record(look.watched.recorder),
        quiet_seconds=(after.clock - times[-1]) / 1e9 if times else None,
        step_seconds=tuple((end - begin) / 1e9 for begin, end in itertools.pairwise(times)),
    )


def _difference(after: _Number | None, before: _Number | None) -> _Number | None:
    return None if after is None or before is None else after - before


def _threads(look: _Look) -> tuple[tuple[Frame, ...], tuple[tuple[Frame, ...], ...]]:
    """The main thread's frames, and those of other threads that are at work in Python."""
    try:
        written = os.pread(look.watched.stacks, _LONGEST_DUMP_BYTES, look.begin_bytes)
    except OSError:
        return (), ()
    threads = stacks_of(written.decode("utf-8", errors="replace"))
    own = threading.main_thread().ident  # a fork keeps the identity of the thread that forked
    main = _own_frames(next((one.frames for one in threads if one.identity == own), ()))
    others = [one.frames for one in threads if one.identity != own and _is_at_work(one)]
    return with_source(main), tuple(with_source(frames) for frames in others[:_KEPT_THREADS])


def _own_frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Without those of the process that it was forked from."""
    begin = next((place for place, one in enumerate(frames) if one.function == "_rank_main"), len(frames))
    return frames[:begin]


def _is_at_work(thread: ThreadStack) -> bool:
    return bool(thread.frames) and not any(frame.file.endswith(_OWN_THREAD) for frame in thread.frames)


def _record(recorder: Connection) -> tuple[Recorded, ...] | None:
    """What the rank's flight recorder holds; None where it did not answer."""
    answer = None
    try:
        while recorder.poll(0):  # the last one: an answer to an earlier question may have come late
            answer = _RECORDED.decode(recorder.recv_bytes())
    except (EOFError, OSError, msgspec.DecodeError):
        return None
    return answer


def _length(descriptor: int) -> int:
    return os.fstat(descriptor).st_size


def state_of(pid: int | None) -> str:
    """The state of a process as in proc(5): R running, S sleeping, D in the kernel, T stopped, Z ended, X gone."""
    fields = _stat(pid)
    return fields[0] if fields else "X"


def cpu_seconds(pid: int | None) -> float | None:
    """Processor time of all threads of a process so far; None where it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else None


def _stat(pid: int | None) -> list[str]:
    """The fields of /proc/PID/stat after the name, from the state on."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _moved_bytes(pid: int | None) -> int | None:
    """Bytes that a process has read and written so far, whatever from and to."""
    lines = dict(line.split(": ") for line in _read(pid, "io").splitlines() if ": " in line)
    return int(lines["rchar"]) + int(lines["wchar"]) if {"rchar", "wchar"} <= lines.keys() else None


def _wait_channel(pid: int | None) -> str | None:
    text = _read(pid, "wchan").strip()
    return text if text not in ("", "0") else None


def _kernel_stack(pid: int | None) -> tuple[str, ...]:
    """Functions of the kernel that the main thread is in; empty where only root may see them and we are not."""
    return tuple(line.split()[-1].partition("+")[0] for line in _read(pid, "stack").splitlines() if line.strip())


def _read(pid: int | None, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
