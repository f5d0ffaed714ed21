"""``sudo python -m tests.measurements.agent_faults``: how long after a real fault the agent names it, and clean rounds.

Each fault is planted on this machine: a process that takes all processors, a file system that runs full, a link that
is taken down, packets that nft drops, an NCCL log that falls back to TCP; a GPU that throttles is a stand-in of NVML's.
The network's are in namespaces of their own.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from diagnostics.agent.message_reader import decode
from diagnostics.agent.messages import Warned
from tests.measurements.process import REPOSITORY, environment
from tests.measurements.table import print_table, write_json

LIMIT_SECONDS = 5.0
_CALM_SECONDS = 7.0  # before a fault
_PATIENCE_SECONDS = 20.0
_THROTTLING = (
    "import sys, threading, time, pathlib\n"
    "from tests.diagnostics.agent.fake_nvml import FakeNvml\n"
    "nvml = FakeNvml(8)\n"
    "nvml.nvmlInit = lambda: None\n"
    "sys.modules['pynvml'] = nvml\n"
    "def throttle():\n"
    "    while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)\n"
    "    nvml.gpus[5].reasons = 0x40\n"
    "threading.Thread(target=throttle, daemon=True).start()\n"
    "from diagnostics.agent.__main__ import main\n"
    "main(sys.argv[2:])\n"
)
_FALLBACK = (
    "n1:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    "n1:1:2 [0] NCCL INFO NET/IB : No device found.\n"
    "n1:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
    "n1:1:2 [0] NCCL INFO Using network Socket\n"
    "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE\n"
)
_SENDER = (
    "import socket, sys\n"
    "data = bytes(1 << 16)\n"
    "link = socket.create_connection(('10.99.7.2', 5999))\n"
    "while True: link.sendall(data)\n"
)
_RECEIVER = (
    "import socket\n"
    "server = socket.create_server(('10.99.7.2', 5999))\n"
    "link, _ = server.accept()\n"
    "while link.recv(1 << 20): pass\n"
)


@dataclass(kw_only=True)
class Stage:
    """A folder and namespaces for one fault; all of it goes at the end. ``rank`` is the process that is watched."""

    folder: Path
    stack: ExitStack
    rank: "subprocess.Popen[bytes]"
    spaces: tuple[str, str] = field(default_factory=lambda: (f"rbf-{os.getpid()}-a", f"rbf-{os.getpid()}-b"))

    def start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """A process that ends with the stage."""
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        self.stack.callback(_end, child)
        return child

    def network(self) -> None:
        """Two namespaces with a link between them."""
        first, second = self.spaces
        for space in self.spaces:
            _run("ip", "netns", "add", space)
            self.stack.callback(_run, "ip", "netns", "del", space)
        _run("ip", "-n", first, "link", "add", "rail0", "type", "veth", "peer", "name", "rail1", "netns", second)
        for space, device, address in ((first, "rail0", "10.99.7.1/24"), (second, "rail1", "10.99.7.2/24")):
            _run("ip", "-n", space, "addr", "add", address, "dev", device)
            _run("ip", "-n", space, "link", "set", device, "up")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """How a fault is planted, the rule that names it and a word of its culprit."""

    rule: str
    culprit: str
    plant: Callable[[Stage], object]
    prepare: Callable[[Stage], object] = lambda _: None
    options: Callable[[Stage], Sequence[str]] = lambda _: ()
    throttles: bool = False
    in_network: bool = False


def _stream(stage: Stage) -> None:
    stage.network()
    stage.start(["ip", "netns", "exec", stage.spaces[1], sys.executable, "-c", _RECEIVER])
    time.sleep(1)
    stage.start(["ip", "netns", "exec", stage.spaces[0], sys.executable, "-c", _SENDER])


def _lose(stage: Stage) -> None:
    rules = "table ip rb { chain in { type filter hook input priority 0; numgen random mod 20 < 1 drop; }; }"
    _run("ip", "netns", "exec", stage.spaces[1], "nft", rules)


def _small_disk(stage: Stage) -> None:
    (stage.folder / "disk").mkdir()
    _run("mount", "-t", "tmpfs", "-o", "size=64m", "none", str(stage.folder / "disk"))
    stage.stack.callback(_run, "umount", str(stage.folder / "disk"))


FAULTS: Mapping[str, Fault] = {
    "a process that takes all processors": Fault(
        rule="cpu-contention",
        culprit="hog",
        prepare=lambda stage: (stage.folder / "hog").symlink_to(str(shutil.which("yes"))),
        plant=lambda stage: [stage.start([str(stage.folder / "hog")]) for _ in range(2 * (os.cpu_count() or 1))],
    ),
    "a file system that runs full": Fault(
        rule="disk-full",
        culprit="/disk",
        prepare=_small_disk,
        plant=lambda stage: (stage.folder / "disk/data").write_bytes(bytes(63 << 20)),
        options=lambda stage: ("--folder", str(stage.folder / "disk")),
    ),
    "a link that goes down": Fault(
        rule="link-down",
        culprit="rail0",
        prepare=Stage.network,
        plant=lambda stage: _run("ip", "-n", stage.spaces[1], "link", "set", "rail1", "down"),
        in_network=True,
    ),
    "5 % of the packets lost": Fault(
        rule="tcp-retransmissions", culprit="TCP", prepare=_stream, plant=_lose, in_network=True
    ),
    "an NCCL log that falls back to TCP": Fault(
        rule="tcp-fallback",
        culprit="TCP",
        plant=lambda stage: (stage.folder / "nccl.log").write_text(_FALLBACK),
        options=lambda stage: ("--log", f"{stage.folder}/*.log"),
    ),
    "a GPU that throttles": Fault(
        rule="gpu-throttled", culprit="GPU 5", plant=lambda stage: (stage.folder / "hot").touch(), throttles=True
    ),
}


def main() -> int:
    """Measure, print, write. Returns 1 where a fault was named late or not, or a clean round was not."""
    options = _options()
    rows, figures = [], {}
    for name, fault in FAULTS.items():
        seconds, said, before = measured(fault)
        figures[name] = {"seconds": seconds, "said": said, "before": before}
        rows.append([name, "-" if seconds is None else f"{seconds:.1f} s", said, ", ".join(before) or "none"])
    clean = [_watched_calm(options.clean_seconds) for _ in range(options.clean)]
    print_table("from the fault to the agent's warning", ["fault", "after", "said", "warnings before it"], rows)
    print(f"  clean rounds of {options.clean_seconds:.0f} s: {len(clean)}, with a warning: {sum(map(bool, clean))}")
    for said in sorted({one for warned in clean for one in warned}):
        print(f"    {said}")
    write_json(options.output, "agent_faults", {"faults": figures, "clean": clean})
    late = [one for one in figures.values() if one["seconds"] is None or one["seconds"] > LIMIT_SECONDS]  # type: ignore[operator]
    return int(bool(late) or any(clean))


def measured(fault: Fault) -> tuple[float | None, str, list[str]]:
    """Seconds from the fault to its warning, what that says, and the rules that warned before the fault."""
    with _stage() as stage:
        fault.prepare(stage)
        warnings = _listen(stage, fault)
        time.sleep(_CALM_SECONDS)
        before = [one.finding.rule for _, one in _taken(warnings)]
        planted = time.monotonic()
        fault.plant(stage)
        while (left := planted + _PATIENCE_SECONDS - time.monotonic()) > 0:
            try:
                heard, one = warnings.get(timeout=left)
            except Empty:
                break
            if one.finding.rule == fault.rule and fault.culprit in one.finding.summary:
                return heard - planted, one.finding.summary, before
    return None, "-", before


def _watched_calm(seconds: float) -> list[str]:
    """What was warned of while nothing was wrong."""
    with _stage() as stage:
        warnings = _listen(stage, Fault(rule="", culprit="", plant=lambda _: None))
        time.sleep(seconds)
        return [one.finding.summary for _, one in _taken(warnings)]


def _listen(stage: Stage, fault: Fault) -> "SimpleQueue[tuple[float, Warned]]":
    """Start an agent; its warnings come with the moment when they were heard."""
    inside = ["ip", "netns", "exec", stage.spaces[0]] if fault.in_network else []
    program = ["-c", _THROTTLING, str(stage.folder / "hot")] if fault.throttles else ["-P", "-m", "diagnostics.agent"]
    command = [*inside, sys.executable, *program, "--pid", str(stage.rank.pid), *fault.options(stage)]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment())
    stage.stack.callback(_end, agent)
    heard: SimpleQueue[tuple[float, Warned]] = SimpleQueue()

    def hear() -> None:
        assert agent.stdout is not None
        for line in agent.stdout:
            message = decode(line)
            if isinstance(message, Warned):
                heard.put((time.monotonic(), message))

    threading.Thread(target=hear, daemon=True).start()
    return heard


def _taken(queue: "SimpleQueue[tuple[float, Warned]]") -> list[tuple[float, Warned]]:
    return [queue.get() for _ in range(queue.qsize())]


@contextmanager
def _stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="rbf-") as folder, ExitStack() as stack:
        rank = subprocess.Popen(["sleep", "3600"])
        stack.callback(_end, rank)
        yield Stage(folder=Path(folder), stack=stack, rank=rank)


def _end(child: "subprocess.Popen[Any]") -> None:
    child.kill()
    child.wait()


def _run(*command: str) -> Any:
    return subprocess.run(command, check=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=int, default=20, help="rounds without a fault")
    parser.add_argument("--clean-seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
