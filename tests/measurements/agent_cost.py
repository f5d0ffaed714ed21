"""``python -m tests.measurements.agent_cost``: what the diagnostics agent costs a node with 8 ports.

The node is a folder: eight mlx5 ports and an interface as files, eight GPUs by a stand-in of NVML, eight processes
that sleep as ranks, this machine's ``/proc``. What the kernel and drivers take to read a real counter is not in it: the
files are a tmpfs's, and the stand-in is Python, where NVML is a call into the driver.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from diagnostics.agent.message_reader import decode
from diagnostics.agent.messages import Reading
from tests.diagnostics.agent.machine import machine
from tests.measurements.process import REPOSITORY, environment
from tests.measurements.table import print_table, write_json

LIMIT_PERCENT = 0.5
LIMIT_MIB = 64
_RANKS = 8
_STARTING_SECONDS = 8
_WITH_GPUS = (
    "import sys\n"
    "from tests.diagnostics.agent.fake_nvml import FakeNvml\n"
    "nvml = FakeNvml(8)\n"
    "nvml.nvmlInit = lambda: None\n"
    "for gpu in nvml.gpus: gpu.fields = {3: 5, 4: 0, 94: 7, 144: 0, 145: 0, 38: 2, 52: 3}\n"
    "sys.modules['pynvml'] = nvml\n"
    "from diagnostics.agent.__main__ import main\n"
    "main(sys.argv[1:])\n"
)


def main() -> int:
    """Measure, print, write. Returns 1 where a limit is missed."""
    options = _options()
    rows, figures = [], {}
    for name, arguments in {
        "8 ports, 8 GPUs, 8 ranks": (),
        "the same, following a log": ("--log", "{root}/*.log"),
    }.items():
        found = _measured(arguments, options.seconds)
        figures[name] = found
        rows.append([name, f"{found['cpu_percent']:.2f} %", f"{found['pss_mib']:.1f} MiB", f"{found['series']:.0f}"])
    print_table(
        f"the agent for {options.seconds:.0f} s, a reading a second",
        ["", "of one processor", "memory (PSS)", "series"],
        rows,
    )
    print(f"  limits: {LIMIT_PERCENT} % of one processor, {LIMIT_MIB} MiB")
    write_json(options.output, "agent_cost", figures)
    return int(any(one["cpu_percent"] > LIMIT_PERCENT or one["pss_mib"] > LIMIT_MIB for one in figures.values()))


def _measured(arguments: tuple[str, ...], seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="rba-", dir="/dev/shm") as folder:
        root = machine(Path(folder), ports=8)
        ranks = [subprocess.Popen(["sleep", "3600"]) for _ in range(_RANKS)]
        pids = [word for rank in ranks for word in ("--pid", str(rank.pid))]
        command = [sys.executable, "-c", _WITH_GPUS, "--sys", f"{root}/sys", "--folder", "/", *pids]
        command += [one.format(root=root) for one in arguments]
        agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=environment())
        try:
            return _watched(agent, seconds, root)
        finally:
            children: list[subprocess.Popen[Any]] = [agent, *ranks]
            for child in children:
                child.kill()
                child.wait()


def _watched(agent: "subprocess.Popen[str]", seconds: float, root: Path) -> dict[str, float]:
    """Once it has started: what the agent says of its own processor time, and the kernel of its memory."""
    assert agent.stdout is not None
    used: list[tuple[float, float]] = []
    series: set[str] = set()
    began = time.monotonic()
    for line in agent.stdout:
        message = decode(line)
        if isinstance(message, Reading):
            series |= message.values.keys()
            if "agent/self/cpu_seconds" in message.values:
                used.append((message.monotonic_seconds, message.values["agent/self/cpu_seconds"]))
                with (root / "nccl.log").open("a") as log:
                    log.write(
                        f"n1:1:1 [0] NCCL INFO AllReduce: opCount {len(used)} sendbuff 0x1 recvbuff 0x2 count 8\n"
                    )
        if time.monotonic() - began > seconds + _STARTING_SECONDS:
            break
    memory: Any = psutil.Process(agent.pid).memory_full_info()
    (since, before), (until, after) = used[_STARTING_SECONDS], used[-1]
    return {
        "cpu_percent": 100 * (after - before) / (until - since),
        "pss_mib": memory.pss / 2**20,
        "rss_mib": memory.rss / 2**20,
        "series": float(len(series)),
        "seconds": until - since,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
