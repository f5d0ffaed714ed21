"""Ranks of one scenario on the lab's nodes, and the log that they wrote."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.lab.cluster import Lab
from tests.lab.node import Node, kill_session

from .hardware import furnish
from .release import Release
from .scenario import Scenario

_RANK = Path(__file__).with_name("rank.py")
_UNBUFFERED = ("-I", "-S", "-u")  # -u makes the stdio of C unbuffered too, hence whole lines of NCCL
_POLL_SECONDS = 0.05
_LIBVERBS = re.compile(r"libibverbs\.so\.1 .*=> (\S+)")
# before 2.16 the libraries are built for CUDA 11
_MACHINE_OF_2021 = {
    "FAKEGPU_DRIVER": "11080",
    "FAKEGPU_NAME": "NVIDIA A100-SXM4-80GB",
    "FAKEGPU_CC": "8.0",
}
_MACHINE = {"FAKEGPU_DRIVER": "12080"}
_WITH_GIN_TYPE = (2, 28)  # unset, it calls a plugin at address -1 where no NIC is one of libmlx5's


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """The log of all ranks, and the exit status of each; None for one that had to be killed."""

    log: str
    statuses: tuple[int | None, ...]


def run_scenario(scenario: Scenario, builds: Mapping[str, Path], release: Release) -> ScenarioOutcome:
    """Build the nodes, break what the scenario breaks, run its ranks. ``builds`` are folders of libraries by tag."""
    tags = scenario.mix or (release.tag,)
    folders = [builds[tag] for tag in tags]
    with Lab(nodes=scenario.nodes, rails=scenario.rails, visible=folders) as lab:
        (lab.folder.shared / "wire").mkdir()
        for node in lab.nodes:
            _prepare(node, scenario, lab.folder.shared)
        path = lab.folder.shared / "job.log"
        with path.open("a") as log:
            processes = _start(scenario, lab, folders, release, log)
            statuses = _wait(processes, scenario)
        return ScenarioOutcome(log=_public(path.read_text(errors="replace"), folders), statuses=statuses)


def _prepare(node: Node, scenario: Scenario, folder: Path) -> None:
    hardware = scenario.hardware_of.get(node.number, scenario.hardware)
    if hardware is None:
        for library in _verbs_libraries():
            node.run(["mount", "--bind", "/dev/null", library], check=True)
    else:
        furnish(node, hardware, folder)
        adapters = {"FAKEIB_DEVICES": hardware.devices, "FAKEIB_IP": node.address, "FAKEIB_WIRE": str(folder / "wire")}
        node.environment |= adapters
    for number in (0, node.number):
        if number in scenario.prepare:
            node.run(["sh", "-ec", scenario.prepare[number]], check=True)


def _verbs_libraries() -> list[str]:
    """The real libibverbs of this machine, where it has one: nodes that have none must not find it."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return sorted({os.path.realpath(path) for path in _LIBVERBS.findall(listed)})


def _start(
    scenario: Scenario, lab: Lab, folders: Sequence[Path], release: Release, log: IO[str]
) -> list[subprocess.Popen[str]]:
    world_size = scenario.nodes * scenario.ranks_per_node
    meeting = lab.folder.shared / "meeting"
    started = []
    for rank in range(world_size):
        if rank in scenario.absent:
            continue
        node_index, local_rank = divmod(rank, scenario.ranks_per_node)
        node, folder = lab.nodes[node_index], folders[rank % len(folders)]
        steps = scenario.steps_of.get(rank, scenario.steps)
        command = [sys.executable, *_UNBUFFERED, _RANK, folder / "libnccl.so.2", rank, world_size, meeting, *steps]
        environment = {
            **(_MACHINE if release.cuda_major >= 12 else _MACHINE_OF_2021),
            "LD_LIBRARY_PATH": f"{folder}:{folder / 'verbs'}" if "FAKEIB_IP" in node.environment else str(folder),
            "LOCAL_RANK": str(local_rank),
            "NCCL_DEBUG": "INFO",
            **({"NCCL_GIN_TYPE": "2"} if release.number[:2] == _WITH_GIN_TYPE else {}),
            **scenario.environment,
            **scenario.environment_of.get(rank, {}),
        }
        if libraries := environment.pop("RANK_LIBRARIES", None):
            environment["LD_LIBRARY_PATH"] += f":{libraries.format(build=folder)}"
        if "FAKESYS_FAULT" in environment:
            environment["LD_PRELOAD"] = str(folder / "libsystem-faults.so")
        words = [str(word) for word in command]
        started.append(node.popen(words, environment=environment, stdout=log, stderr=subprocess.STDOUT))
    return started


def _wait(processes: Sequence[subprocess.Popen[str]], scenario: Scenario) -> tuple[int | None, ...]:
    """Exit statuses. After a rank fails the others get the scenario's grace, as a launcher would give them."""
    end, failed = time.monotonic() + scenario.seconds, False
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        if not failed and any(process.poll() for process in processes):
            end, failed = min(end, time.monotonic() + scenario.grace), True
        time.sleep(_POLL_SECONDS)
    statuses = tuple(process.poll() for process in processes)
    left = [process for process in processes if process.poll() is None]
    for process in left:  # all before any is waited for: the last must not see the first go
        kill_session(process)
    for process in left:
        process.wait()
    return statuses


def _public(text: str, folders: Sequence[Path]) -> str:
    """The log without the names of this machine's folders."""
    for folder in folders:
        for inside in (folder / "verbs", folder):
            text = text.replace(f"{inside}/", "/usr/lib/x86_64-linux-gnu/")
    return text
