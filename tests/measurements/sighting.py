"""Commands watched from outside until their first result is in the hands of whoever started them."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.measurements.process import LaunchError, TreeMeter, end_tree, start

MARK = "first result"
_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Seconds from the start of the first command: to the first result on all ranks, and to the end of all commands."""

    first_seconds: float
    total_seconds: float
    cpu_seconds: float
    peak_bytes: int


class _Spoken:
    """Counts the marks that commands print."""

    def __init__(self, wanted: int) -> None:
        self.at: float | None = None
        self.text: list[str] = []
        self._wanted, self._seen = wanted, 0
        self._lock = threading.Lock()

    def listen(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            with self._lock:
                self.text.append(line)
                self._seen += line.count(MARK)
                if self._seen >= self._wanted and self.at is None:
                    self.at = time.monotonic()


class _Written:
    """Waits for the first line of a run's journal, which is complete when all ranks have delivered."""

    def __init__(self, output_dir: Path) -> None:
        self.at: float | None = None
        self._folder = output_dir

    def watch(self, over: Callable[[], bool]) -> None:
        while self.at is None and not over():
            if any(path.stat().st_size for path in self._folder.glob("*/samples.jsonl")):
                self.at = time.monotonic()
            time.sleep(_POLL_SECONDS)


def watch_printed(commands: Sequence[Sequence[str]], ranks: int, *, memory: bool = False, seconds: float) -> Sight:
    """Commands started at once, of which each rank prints MARK once its first operation is done."""
    spoken = _Spoken(ranks)
    return _watch(commands, {}, spoken, lambda _: None, lambda: spoken.at, memory=memory, seconds=seconds)


def watch_journal(
    command: Sequence[str], output_dir: Path, variables: Mapping[str, str], *, memory: bool = False, seconds: float
) -> Sight:
    """A ``raybench run`` into ``output_dir``, an empty folder."""
    spoken, written = _Spoken(1), _Written(output_dir)
    return _watch([command], variables, spoken, written.watch, lambda: written.at, memory=memory, seconds=seconds)


def _watch(
    commands: Sequence[Sequence[str]],
    variables: Mapping[str, str],
    spoken: _Spoken,
    watch: Callable[[Callable[[], bool]], None],
    seen_at: Callable[[], float | None],
    *,
    memory: bool,
    seconds: float,
) -> Sight:
    over = threading.Event()
    began = time.monotonic()
    processes = [start(command, extra=variables) for command in commands]
    threads = [threading.Thread(target=spoken.listen, args=(process,), daemon=True) for process in processes]
    threads.append(threading.Thread(target=watch, args=(over.is_set,), daemon=True))
    for thread in threads:
        thread.start()
    meter = TreeMeter(roots=tuple(process.pid for process in processes), memory=memory).start()
    try:
        used = _wait_all(processes, began + seconds)
        total = time.monotonic() - began
    finally:
        over.set()
        meter.stop()
        for process in processes:
            if process.returncode is None:
                end_tree(process)
    for thread in threads:
        thread.join(5)
    at = seen_at()
    if at is None or any(process.returncode for process in processes):
        raise LaunchError(f"no first result from {' '.join(commands[0])}: {''.join(spoken.text)[-2000:]}")
    return Sight(
        first_seconds=at - began,
        total_seconds=total,
        cpu_seconds=max(used, meter.cpu_seconds),
        peak_bytes=meter.peak_bytes,
    )


def _wait_all(processes: Sequence["subprocess.Popen[str]"], deadline: float) -> float:
    """Wait for all and return the CPU seconds of them and of what they waited for themselves."""
    used = 0.0
    for process in processes:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                raise LaunchError(f"{process.args!r} took too long")
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(OSError):
            used += usage.ru_utime + usage.ru_stime
    return used
