"""Python stacks as ``faulthandler`` writes them: a pure parser, and which frame says what a thread does.

``Current thread 0x00007fc6c7a2ab80 (most recent call first):`` and a line a frame,
``  File "/home/user/train.py", line 12 in nap``; other threads begin with ``Thread 0x...`` (Python 3.10 to 3.14; from
3.14 on with the thread's name in brackets).
"""

import linecache
import re
from dataclasses import dataclass

import msgspec

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-fA-F]+)")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_KEPT_FRAMES = 40


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One frame. ``text`` is the line of source, empty where the file cannot be read."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """The frames of one thread, the innermost first."""

    identity: int
    frames: tuple[Frame, ...]


def stacks_of(dump: str) -> tuple[ThreadStack, ...]:
    """The threads of the last complete dump in the text; lines of anything else are passed over."""
    threads: list[ThreadStack] = []
    frames: list[Frame] = []
    identity: int | None = None
    for line in dump.splitlines():
        if thread := _THREAD.match(line):
            if identity is not None:
                threads.append(ThreadStack(identity=identity, frames=tuple(frames)))
            identity, frames = int(thread[1], 16), []
        elif (frame := _FRAME.match(line)) and len(frames) < _KEPT_FRAMES:
            frames.append(Frame(file=frame[1], line=int(frame[2]), function=frame[3]))
    if identity is not None:
        threads.append(ThreadStack(identity=identity, frames=tuple(frames)))
    return tuple(threads)


def with_source(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames with their lines of source, where this machine has the files."""
    return tuple(
        Frame(
            file=one.file,
            line=one.line,
            function=one.function,
            text=linecache.getline(one.file, one.line).strip()[:200],
        )
        for one in frames
    )
