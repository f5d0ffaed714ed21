"""``raybench`` as a user starts it: a process of its own, with a mark by which everything that it starts is found."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.warm import Forked, warm

_SETTINGS = ("RAY_", "NCCL_", "GLOO_", "OMP_")  # whoever runs the tests may have set them
_MARK = "RAYBENCH_TEST_MARK"
_ENTRY = "from raybench.cli import main; main()"
# Where nobody looks at the figures of its reports, a second of a processor: without matplotlib there are none.
UNDRAWN = f"import sys; sys.modules['matplotlib'] = None; {_ENTRY}"
RAYBENCH = [sys.executable, "-P", "-c", _ENTRY]  # as installed, it imports nothing from the folder it is called in
REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(kw_only=True)
class Command:
    """A started ``raybench``. ``folder`` holds its output (``runs``), its /tmp and what it printed."""

    process: "subprocess.Popen[bytes] | Forked"
    folder: Path
    mark: str
    begun: float
    output: Path

    @property
    def out(self) -> str:
        """Standard output so far."""
        return (self.folder / "out").read_text()

    @property
    def errors(self) -> str:
        """Standard error so far."""
        return (self.folder / "errors").read_text()

    @property
    def run_folders(self) -> list[Path]:
        """Folders of runs that it made."""
        return sorted(self.output.glob("[0-9]*-*"))

    def finish(self, seconds: float = 90.0) -> int:
        """The exit status. Raises TimeoutExpired, after killing everything, when it does not end in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise

    def result(self) -> dict[str, Any]:
        """result.json of its only run."""
        (folder,) = self.run_folders
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        return result

    def samples(self) -> list[dict[str, Any]]:
        """Lines of samples.jsonl so far."""
        found = [folder / "samples.jsonl" for folder in self.run_folders]
        text = found[0].read_text() if found and found[0].exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may still be on its way
        return [json.loads(line) for line in lines]

    def wait_for(self, condition: Callable[[], Any], seconds: float = 120.0) -> Any:
        """What the condition returns once it is true. Raises TimeoutError when it is not in time, or never will be."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"did not come to pass; the command said: {self.out[-2000:]}{self.errors[-3000:]}")
            time.sleep(0.02)
        return found

    def processes(self) -> dict[int, str]:
        """Every live process that carries the mark: pid and command line."""
        return dict(_marked(self.mark))

    def rank(self, number: int) -> int | None:
        """The pid of a rank on this machine, known by the file that it prints to."""
        for pid in self.processes():
            try:
                if Path(f"/proc/{pid}/fd/1").readlink().name == f"output-rank-{number}.log":
                    return pid
            except OSError:
                continue
        return None

    def matching(self, words: str) -> list[int]:
        """Pids whose command line holds these words, oldest first, which the least pid need not be."""
        return sorted((pid for pid, text in self.processes().items() if words in text), key=_started_at)

    def left_over(self, seconds: float = 5.0) -> dict[int, str]:
        """Processes still there that long after the command ended: none, if all is well."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def left_files(self) -> list[str]:
        """What is left in its temporary folder."""
        return sorted(path.name for path in (self.folder / "tmp").iterdir())

    def kill_all(self) -> None:
        """End whatever carries the mark."""
        for _ in range(50):
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not left:
                break
            time.sleep(0.05)
        self.process.wait(60)


@contextmanager
def started(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    output: str | None = None,
    given: bool = False,
    beside: Mapping[str, str] | None = None,
    forked: bool = False,
    drawn: bool = True,
) -> Iterator[Command]:
    """Start ``raybench`` with these arguments; at the end, kill what is left of it.

    Runs go to ``output``, where it is None to a folder of their own, and nowhere that we say with ``given``.
    ``beside``: files, by name, in the folder that it is called in. ``forked``: from a process that has imported it, for
    what is refused or answered at once. ``drawn``: with figures in its reports.
    """
    folder, mark = Path(tempfile.mkdtemp(prefix="t-")), secrets.token_hex(8)
    (folder / "tmp").mkdir()
    for name, content in (beside or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    runs = Path(output) if output else folder / "runs"
    extra = [] if given else ["--output-dir", str(runs)]
    settings = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    settings |= {_MARK: mark, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(REPOSITORY)} | dict(environment or {})
    begun = time.monotonic()
    called = [*arguments, *extra]
    if forked:
        process: subprocess.Popen[bytes] | Forked = warm().start(called, environment=settings, folder=folder)
    else:
        process = _spawn([sys.executable, "-P", "-c", _ENTRY if drawn else UNDRAWN, *called], settings, folder)
    command = Command(process=process, folder=folder, mark=mark, begun=begun, output=runs)
    try:
        yield command
    finally:
        command.kill_all()
        shutil.rmtree(folder, ignore_errors=True)


def _spawn(command: list[str], settings: Mapping[str, str], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "out").open("wb") as out, (folder / "errors").open("wb") as errors:
        return subprocess.Popen(
            command,
            env=settings,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )


def raybench(
    *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 60.0, forked: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run ``raybench`` to its end, where nothing but its output matters."""
    with started(*arguments, environment=environment, given=True, forked=forked) as command:
        status = command.finish(seconds)
        return subprocess.CompletedProcess(arguments, status, command.out, command.errors)


def answer(*arguments: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """The same, where it does not matter that it is imported anew: what is refused, listed or explained."""
    return raybench(*arguments, environment=environment, forked=True)


def _started_at(pid: int) -> tuple[int, int]:
    """The clock tick, since boot, at which a process started, and its pid; the latest where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return sys.maxsize, pid
    return int(fields[19]), pid


def _marked(mark: str) -> Iterator[tuple[int, str]]:
    wanted = f"{_MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                yield int(entry.name), command
        except OSError:
            continue
