"""How often a process was found stopped, of many looks a second: one that is stopped and goes on, again and again.

The kernel counts no time in which a process is stopped, and the process itself cannot tell it from waiting. A mark a
second sees one moment of it. So its state is looked at some times a second, at uneven times: what stops it may be
periodic itself, as ``cpulimit`` is.
"""

import contextlib
import os
import random

LOOKS_PER_SECOND = 16.0
MOST_LOOKS_PER_SECOND = 400.0  # of all ranks of a machine: 10 us each
_LONGEST_STAT = 512
_STOPPED = b"Tt"  # by a signal, by a debugger


class StoppedLooks:
    """Of one process, its first thread: a signal stops all of them. ``stops``: how often it was, after it was not."""

    def __init__(self, pid: int | None) -> None:
        self.looks = self.stopped = self.stops = 0
        self._was_stopped = False
        self._stat: int | None = None
        with contextlib.suppress(OSError):  # gone by now
            self._stat = os.open(f"/proc/{pid}/task/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def look(self) -> None:
        """Once more; one that has ended is not looked at."""
        if self._stat is None:
            return
        try:
            text = os.pread(self._stat, _LONGEST_STAT, 0)
        except OSError:
            self.close()
            return
        state = text.rpartition(b") ")[2][:1]
        is_stopped = bool(state) and state in _STOPPED
        self.looks += 1
        self.stopped += is_stopped
        self.stops += is_stopped and not self._was_stopped
        self._was_stopped = is_stopped

    def close(self) -> None:
        """Close the file."""
        if self._stat is not None:
            os.close(self._stat)
            self._stat = None


def seconds_to_next_look(ranks: int) -> float:
    """A random time around the mean one between two looks at so many ranks; a second where there are none."""
    if not ranks:
        return 1.0
    mean = max(1 / LOOKS_PER_SECOND, ranks / MOST_LOOKS_PER_SECOND)
    return random.uniform(0.5, 1.5) * mean
