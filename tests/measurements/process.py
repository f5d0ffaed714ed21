"""Commands that are measured from outside, and what of them must not outlive the measurement."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]


class LaunchError(RuntimeError):
    """A command of a benchmark did not do what it was started for; the message holds what it wrote."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's variables, with this working tree first among Python's paths."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(extra or {})}


def script(name: str, otherwise: Sequence[str]) -> list[str]:
    """The console script of that name beside this Python, as a person calls it; else this Python with ``otherwise``."""
    installed = Path(sys.executable).with_name(name)
    return [str(installed)] if installed.exists() else [sys.executable, *otherwise]


def torchrun() -> list[str]:
    """The torchrun command."""
    return script("torchrun", ["-m", "torch.distributed.run"])


def raybench() -> list[str]:
    """The raybench command."""
    return script("raybench", ["-c", "from raybench.cli import main; main()"])


def run(command: Sequence[str], *, seconds: float = 300.0, extra: Mapping[str, str] | None = None) -> str:
    """Run to the end and return what was printed. Raises LaunchError on a status other than 0 or over time."""
    done = start(command, extra=extra)
    try:
        out, _ = done.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        end_tree(done)
        raise LaunchError(f"{' '.join(command)} took more than {seconds:.0f} s") from error
    except BaseException:
        end_tree(done)
        raise
    if done.returncode:
        raise LaunchError(f"{' '.join(command)} ended with status {done.returncode}: {out[-2000:]}")
    return str(out)


def start(command: Sequence[str], *, extra: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start in this session, so that neighbours compete as they do on a machine; output and errors in one pipe."""
    return subprocess.Popen(
        list(command),
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end_tree(process: "subprocess.Popen[str]", seconds: float = 10.0) -> None:
    """End a command that we started, asked first, with everything below it."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    if process.poll() is None:
        process.kill()
    process.wait()
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(family, timeout=5)


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """That many busy processes beside the measurement, in this session."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


class QuietMachine:
    """A file's lock, which others who share this machine hold while they load it; nothing where no file is given.

    Once had, it is kept over several measurements, but given away for a moment after ``hold_seconds``.
    """

    def __init__(self, lock: Path | None, hold_seconds: float = 120.0) -> None:
        self._file = None if lock is None else lock.open("a")
        self._hold_seconds = hold_seconds
        self._since: float | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it at least while the block lasts."""
        if self._file is not None and self._since is None:
            flock(self._file, LOCK_EX)
            self._since = time.monotonic()
        yield
        if self._file is not None and self._since is not None and time.monotonic() - self._since > self._hold_seconds:
            flock(self._file, LOCK_UN)
            self._since = None
            time.sleep(2)


def end_on_sigterm() -> None:
    """Have SIGTERM unwind this process, so that what it started is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@dataclass(kw_only=True)
class TreeMeter:
    """CPU seconds and memory of a command's whole tree, sampled from /proc, until ``stop``.

    A process keeps its last reading when it ends, so up to one period of each is missed. Memory is the sum of PSS, in
    which a page shared by n processes counts once; reading it costs so much that it is off where time is measured.
    """

    roots: tuple[int, ...]
    memory: bool
    period_seconds: float = 0.25
    peak_bytes: int = 0
    _cpu: dict[tuple[int, float], float] = field(default_factory=dict)
    _known: dict[int, psutil.Process] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> "TreeMeter":
        """Begin sampling."""
        self._thread = threading.Thread(target=self._sample_all, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End sampling."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def cpu_seconds(self) -> float:
        """User and system time of every process seen."""
        return sum(self._cpu.values())

    def _sample_all(self) -> None:
        next_memory = 0.0
        while not self._done.wait(self.period_seconds):
            family = self._family()
            for process in family:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
            if self.memory and time.monotonic() >= next_memory:
                began = time.monotonic()
                self.peak_bytes = max(self.peak_bytes, sum(_pss(process.pid) for process in family))
                next_memory = time.monotonic() + 4 * (time.monotonic() - began)

    def _family(self) -> list[psutil.Process]:
        """The tree below the root, and what has left it since: daemons outlive the process that started them."""
        for process in _trees(self.roots):
            self._known.setdefault(process.pid, process)
        for process in list(self._known.values()):
            if not process.is_running():
                del self._known[process.pid]
        return list(self._known.values())


def _trees(roots: Sequence[int]) -> list[psutil.Process]:
    """The processes of that id and all below them, by one look at the process table."""
    below: dict[int, list[psutil.Process]] = {}
    found = []
    for process in psutil.process_iter(["ppid"]):
        below.setdefault(process.info["ppid"], []).append(process)
        if process.pid in roots:
            found.append(process)
    for process in found:  # grows as it goes
        found += below.get(process.pid, [])
    return found


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024
    return 0
