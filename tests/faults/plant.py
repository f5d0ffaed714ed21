"""Plant one fault into a command and see how it ends."""

import contextlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.command import REPOSITORY, Command, started
from tests.faults.commands import WORKLOADS, samples_so_far
from tests.faults.plan import IN_RANK, Fault
from tests.faults.targets import processes_of
from tests.measurements.process import LaunchError
from tests.measurements.ray_head import RayHead, ray_head

_HANG_SECONDS = 240.0
_REACH_SECONDS = 90.0
_PAUSE_SECONDS = 4.0  # shorter than any limit: whoever was away must not be missed
_NODE_ACTOR_SECONDS = 10.0  # Ray ends a lost driver's actors by itself
_EMBEDDED = RayHead(address="local", variables={}, pids=())
_SITE = str(Path(__file__).parent / "site")
_DISK_BYTES = 10 * 2**20
_KEPT = re.compile(r"^torchinductor")  # torch's own cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a command ended after its fault. ``seconds`` from the fault; ``status`` None: it hung and was killed."""

    planted: bool
    seconds: float
    status: int | None
    text: str
    documents: tuple[dict[str, Any], ...]
    left_processes: tuple[str, ...]
    left_files: tuple[str, ...]
    samples_kept: bool
    report: bool


def plant(fault: Fault) -> Ending:
    """Start the command, do the fault at its moment, wait for the end. Never raises for what the command does.

    Where the cluster that it should join does not start, nothing was planted.
    """
    try:
        return _planted(fault)
    except LaunchError as error:
        return _never_started(str(error))


def _planted(fault: Fault) -> Ending:
    workload = WORKLOADS[fault.workload]
    short = fault.harmless or fault.phase == "ending"
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_scratch())
        cluster = stack.enter_context(ray_head(workers=workload.nodes - 1)) if workload.joins else _EMBEDDED
        arguments = workload.command_line(short=short, folder=folder, address=cluster.address)
        given = workload.is_study  # it says itself where its folder goes
        runs = folder / "runs"
        if fault.action == "full":
            stack.enter_context(_small_disk(runs))
        environment = {
            **cluster.variables,
            "PYTHONPATH": os.pathsep.join([_SITE, str(REPOSITORY)]),
            "RAYBENCH_TEST_FAULT": str(folder / "due"),
        }
        command = stack.enter_context(started(*arguments, output=str(runs), given=given, environment=environment))
        try:
            pid = _reach(fault, command, cluster.pids)
        except TimeoutError:
            return _ending(command, cluster.pids, begun=time.monotonic(), planted=False)
        begun = time.monotonic()
        planted = pid is not None and _do(fault, command, pid, due=folder / "due")
        return _ending(command, cluster.pids, begun=begun, planted=planted)


def _never_started(reason: str) -> Ending:
    return Ending(
        planted=False,
        seconds=0.0,
        status=None,
        text=reason,
        documents=(),
        left_processes=(),
        left_files=(),
        samples_kept=False,
        report=False,
    )


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own. Raises CalledProcessError where none can be mounted: that needs root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _reach(fault: Fault, command: Command, cluster: Sequence[int]) -> int | None:
    """Wait for the phase, the delay and the target. Raises TimeoutError where they do not come."""
    command.wait_for(_beginning(fault, command, cluster), _REACH_SECONDS)
    time.sleep(fault.delay_seconds)
    if fault.target in ("command", "ports", "output"):
        return command.process.pid
    target: int = command.wait_for(lambda: processes_of(command, cluster).pid_of(fault.target), 10)
    return target


def _beginning(fault: Fault, command: Command, cluster: Sequence[int]) -> Callable[[], object]:
    ranks_seen = False

    def ended() -> bool:
        nonlocal ranks_seen
        ranks = processes_of(command, cluster).ranks
        ranks_seen = ranks_seen or bool(ranks)
        return ranks_seen and not ranks

    conditions: dict[str, Callable[[], object]] = {
        "start": lambda: True,
        "cluster": lambda: processes_of(command, cluster).gcs,
        "placing": lambda: processes_of(command, cluster).actors,
        "joining": lambda: processes_of(command, cluster).ranks,
        "measuring": lambda: samples_so_far(command) >= 1 and processes_of(command, cluster).ranks,
        "ending": ended,
    }
    return conditions[fault.phase]


def _do(fault: Fault, command: Command, pid: int, *, due: Path) -> bool:
    """The fault itself. False where its target had gone by itself."""
    try:
        match fault.action:
            case "pause":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(_PAUSE_SECONDS)
                os.kill(pid, signal.SIGCONT)
            case "garbage":
                return _send_garbage(command)
            case "full":
                _fill(command.output)
            case "removed":
                shutil.rmtree(command.output, ignore_errors=True)
            case action if action in IN_RANK:
                due.with_suffix(".new").write_text(f"{fault.target.partition(' ')[2]} {action}")
                due.with_suffix(".new").rename(due)
            case "SIGINT twice":
                os.killpg(pid, signal.SIGINT)
                time.sleep(0.3)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGINT)
            case "SIGINT":  # as a terminal does it
                os.killpg(pid, signal.SIGINT)
            case name:
                os.kill(pid, signal.Signals[name])
    except ProcessLookupError:
        return False
    return True


def _send_garbage(command: Command) -> bool:
    """Random bytes to every TCP port on which the command's processes listen."""
    ports = set()
    for pid in command.processes():
        with contextlib.suppress(psutil.Error):
            ports |= {one.laddr for one in psutil.Process(pid).net_connections("tcp") if one.status == "LISTEN"}
    draw = random.Random(1)
    for address in ports:
        host = "127.0.0.1" if address.ip in ("0.0.0.0", "::", "::1") else address.ip
        with contextlib.suppress(OSError), socket.create_connection((host, address.port), 1) as connection:
            connection.sendall(secrets.token_bytes(draw.choice((1, 64, 4096))))
    return bool(ports)


def _fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def _ending(command: Command, cluster: Sequence[int], *, begun: float, planted: bool) -> Ending:
    status: int | None = None
    with contextlib.suppress(Exception):  # TimeoutExpired: everything was killed, and it counts as a hang
        status = command.finish(_HANG_SECONDS)
    seconds = time.monotonic() - begun
    left = command.left_over(10.0 if status is not None and status < 0 else 5.0)
    actors = _node_actors_left(command, cluster)
    return Ending(
        planted=planted,
        seconds=seconds,
        status=status,
        text=command.out + command.errors,
        documents=tuple(_documents(command)),
        left_processes=(*(text[:120] for text in left.values()), *(f"node actor of node-{node}" for node in actors)),
        left_files=tuple(name for name in command.left_files() if not _KEPT.search(name)),
        samples_kept=samples_so_far(command) > 0,
        report=any(command.output.rglob("report.html")),
    )


def _node_actors_left(command: Command, cluster: Sequence[int]) -> list[int]:
    """Nodes of a cluster that goes on with a node actor on it, long after its command ended."""
    deadline = time.monotonic() + _NODE_ACTOR_SECONDS
    while (found := processes_of(command, cluster)).actors and found.gcs and time.monotonic() < deadline:
        time.sleep(0.2)
    return sorted(found.actors) if found.gcs and not _stopped(found.gcs) else []


def _stopped(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    return False


def _documents(command: Command) -> Iterator[dict[str, Any]]:
    for path in sorted((*command.output.rglob("study.json"), *command.output.rglob("result.json"))):
        try:
            document = json.loads(path.read_text())
        except ValueError:
            document = {"torn": str(path)}
        yield document
