"""What the ranks of a node are doing, found without their help: a stack, two looks at their processes, their notes.

Bounded: ``activities`` takes ``_ANSWER_SECONDS`` and ``_WINDOW_SECONDS`` together, whatever the ranks do, and all ranks
of the node are looked at side by side.
"""

import itertools
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from raybench.benchmarks.progress import ProgressSlot
from raybench.benchmarks.recorded import Recorded
from raybench.cluster.messages import RankActivity
from raybench.cluster.stack import Frame, ThreadStack, stacks_of, with_source

STACK_SIGNAL = signal.SIGRTMIN + 9
_ANSWER_SECONDS = 0.8
_WINDOW_SECONDS = 1.2
_LOOK_SECONDS = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_LONGEST_DUMP_BYTES = 2**18
_KEPT_THREADS = 4
_OWN_THREAD = "flight_record.py"
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
    begin_bytes: int
    cpu_before: float | None = None
    io_before: int | None = None
    states: list[str] = field(default_factory=list)


def activities(ranks: Sequence[Watched]) -> tuple[RankActivity, ...]:
    """What each rank is doing."""
    looks = [_Look(watched=one, begin_bytes=_length(one.stacks)) for one in ranks]
    for look in looks:
        _ask(look.watched)
    _wait_for_answers(looks)
    for look in looks:
        look.cpu_before, look.io_before = cpu_seconds(look.watched.pid), _moved_bytes(look.watched.pid)
    until = time.monotonic() + _WINDOW_SECONDS
    while time.monotonic() < until:
        for look in looks:
            look.states.append(state_of(look.watched.pid))
        time.sleep(_LOOK_SECONDS)
    return tuple(_activity(look) for look in looks)


def _ask(watched: Watched) -> None:
    if watched.pid is None or state_of(watched.pid) in ("X", "Z"):
        return
    try:
        os.kill(watched.pid, STACK_SIGNAL)
        watched.recorder.send_bytes(b"?")
    except OSError:
        return  # it has ended since


def _wait_for_answers(looks: Sequence[_Look]) -> None:
    """Until every rank has written its stacks and told its record; one that is stopped or held never does."""
    until = time.monotonic() + _ANSWER_SECONDS
    lengths: list[int] = []
    while time.monotonic() < until:
        now = [_length(look.watched.stacks) for look in looks]
        written = all(length > look.begin_bytes for length, look in zip(now, looks, strict=True))
        if written and now == lengths and all(look.watched.recorder.poll(0) for look in looks):
            return
        lengths = now
        time.sleep(_LOOK_SECONDS)


def _activity(look: _Look) -> RankActivity:
    watched, now = look.watched, time.monotonic_ns()
    after, moved = cpu_seconds(watched.pid), _moved_bytes(watched.pid)
    main, others = _threads(look)
    times = watched.slot.step_times()
    known_cpu = after is not None and look.cpu_before is not None
    return RankActivity(
        rank=watched.rank,
        states="".join(look.states),
        cpu_seconds=after - look.cpu_before if known_cpu else None,  # type: ignore[operator]
        window_seconds=_WINDOW_SECONDS,
        io_bytes=None if moved is None or look.io_before is None else moved - look.io_before,
        stack=main,
        other_stacks=others,
        wait_channel=_wait_channel(watched.pid),
        kernel_stack=_kernel_stack(watched.pid),
        operations=watched.slot.operations(),
        recorded=_record(watched.recorder),
        quiet_seconds=(now - times[-1]) / 1e9 if times else None,
        step_seconds=tuple((end - begin) / 1e9 for begin, end in itertools.pairwise(times)),
    )


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
