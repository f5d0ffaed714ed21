"""Reboots of a virtual machine that is a host beside others: its kernel goes, and comes back with another boot id.

Skipped where no machine can be booted; see ``tests/lab/virtual``.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import yaml

from tests.faults.chaos.hosts import COMMANDS, CUT, HostFault, complaints, ending, start, whole
from tests.faults.chaos.outcome import Ended, Outcome
from tests.lab.cluster import Lab
from tests.lab.requirement import lab_available
from tests.lab.virtual.host import VirtualHost, virtual_host
from tests.lab.virtual.image import image_of_environment, image_unavailable
from tests.playbooks.lab_cluster import LabController, wait_until

_NODES = 2
_HOST_SECONDS = 120  # the time limit of one host: a machine without KVM takes ten times as long as a node
_LIMIT_SECONDS = 45.0 + _HOST_SECONDS
_TOP_SECONDS = 600.0  # for the machine to boot; what is told of a host is told at its own time
_SESSION_SECONDS = 120.0
_LOG = "/tmp/nccl.log"
_LOG_BYTES = 120_000_000  # of 512 MiB
_TIMED = {
    "preflight": ("--host-timeout", str(_HOST_SECONDS)),
    "collect": ("--timeout", str(_HOST_SECONDS)),
    "configure": ("--host-timeout", str(_HOST_SECONDS)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualFault:
    """``command`` is under way when the machine is reset: by its button, or by its own kernel (``by_itself``)."""

    what: str
    command: str
    by_itself: bool = False
    kind: str = "reboot"

    @property
    def workload(self) -> str:
        return self.command


VIRTUAL_FAULTS = (
    VirtualFault(what="of a virtual machine", command="preflight"),
    VirtualFault(what="of a virtual machine, by its kernel", command="preflight", by_itself=True),
    VirtualFault(what="of a virtual machine", command="collect"),
    VirtualFault(what="of a virtual machine", command="configure"),
    VirtualFault(what="of a virtual machine", command="top"),
)


def play(fault: VirtualFault, delay_seconds: float, pick: int) -> Outcome:
    """Boot the machine beside a lab, start the command, reset, wait, judge; then it must be done like the others."""
    del pick
    reason = lab_available() or image_unavailable()
    if reason is not None:
        return Outcome(skipped=reason)
    with (
        Lab(nodes=_NODES) as lab,
        tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as scratch,
        virtual_host(lab, image_of_environment()) as host,
    ):
        controller = LabController(lab=lab)
        write_inventory(controller, host)
        if fault.command == "top":
            return _watched(controller, host, fault)
        return _in(controller, host, fault, delay_seconds, Path(scratch))


def write_inventory(controller: LabController, host: VirtualHost) -> None:
    """The inventory of the lab, with the machine as one more worker."""
    controller.write_inventory()
    content = yaml.safe_load(controller.inventory.read_text())
    content["all"]["children"]["ray_workers"]["hosts"][host.name] = host.variables
    controller.inventory.write_text(yaml.safe_dump(content))


def _reset(host: VirtualHost, fault: VirtualFault) -> None:
    if fault.by_itself:
        host.reset_itself()
    else:
        host.reset()


def _in(
    controller: LabController, host: VirtualHost, fault: VirtualFault, delay_seconds: float, scratch: Path
) -> Outcome:
    command = replace(COMMANDS[fault.command], limit_seconds=_LIMIT_SECONDS)
    options = _TIMED[fault.command]
    if fault.command == "preflight":
        options = (*options, "--history", str(controller.lab.folder.shared / "history"))
    clean = ending(controller, start(controller, fault.command, options, scratch), time.monotonic(), scratch)
    found = [f"BEFORE: {one}" for one in whole(command, clean)]
    before = host.boot_id
    if fault.command == "collect":  # more than is fetched in a second or two, and gone with its memory
        host.run(f"head -c {_LOG_BYTES} /dev/zero > {_LOG}")
    process = start(controller, fault.command, options, scratch)
    planted = wait_until(lambda: _at_work(controller, host, fault) or process.poll() is not None, _SESSION_SECONDS)
    time.sleep(delay_seconds)
    planted = planted and process.poll() is None
    begun = time.monotonic()
    if planted:
        _reset(host, fault)
    ended = ending(controller, process, begun, scratch)
    names = [one.hostname for one in controller.lab.nodes] + [host.name]
    row = HostFault(
        kind=fault.kind,
        what=fault.what,
        command=fault.command,
        during=True,
        says=f"rebooted|{CUT}",
        statuses=(3,) if fault.command == "collect" else (0, 1, 3),
    )
    found += complaints(row, ended, names, host.name, command=command)
    if planted:
        host.wait()
        found += _again(controller, host, fault, options, scratch, before)
    return ended.outcome(iter(found), planted=planted)


def _at_work(controller: LabController, host: VirtualHost, fault: VirtualFault) -> bool:
    """Whether the command is at the machine: of a collection, whether it fetches."""
    if fault.command == "collect":
        return any((controller.lab.folder.shared / "runs").glob(f"*/hosts/{host.name}/files{_LOG}"))
    return host.has_session()


def _again(
    controller: LabController,
    host: VirtualHost,
    fault: VirtualFault,
    options: Sequence[str],
    scratch: Path,
    before: str,
) -> Iterator[str]:
    """It is back: the same command does all hosts, and what keeps a history says that this one rebooted."""
    if host.boot_id == before:
        yield "RESET: the machine has the boot id that it had before"
    command = replace(COMMANDS[fault.command], limit_seconds=_LIMIT_SECONDS)
    second = ending(controller, start(controller, fault.command, options, scratch), time.monotonic(), scratch)
    yield from (f"AGAIN: {one}" for one in whole(command, second))
    if fault.command == "preflight" and second.document is not None:
        told = [one["host"] for one in second.document["hosts"] if one["rebooted"]]
        if told != [host.name]:
            yield f"CULPRIT: {told} are said to have rebooted"


def _watched(controller: LabController, host: VirtualHost, fault: VirtualFault) -> Outcome:
    """``raybench top``: it is lost, and nobody else; then it is watched again, and told to have rebooted."""
    lab, said = controller.lab, list[str]()
    for node in lab.nodes:
        path = f"PATH={Path(sys.executable).parent}:$PATH"
        node.run(["sh", "-c", "cat >/root/.bashrc"], text_in=f"{path}\n", check=True)
    names = [one.hostname for one in lab.nodes] + [host.name]
    with _top(controller, names) as screens:
        watched = _until(screens, lambda hosts: all(one["figures"] for one in hosts.values()), said)
        begun = time.monotonic()
        _reset(host, fault)
        lost = watched and _until(screens, lambda hosts: hosts[host.name]["state"] == "lost", said)
        lost_after = time.monotonic() - begun
        back = lost and _until(
            screens, lambda hosts: hosts[host.name]["reboots"] == 1 and hosts[host.name]["figures"], said
        )
        seconds = time.monotonic() - begun
        last = screens.last
    others = [one for one in said if not one.startswith(f"{host.name} ")]
    found = [f"BLAMED: {one}" for one in others]
    if not back:
        found.append(f"CULPRIT: watched {watched}, lost {lost}, back {back}: {last.get(host.name)}")
    elif f"CRITICAL: {host.name} rebooted" not in str(last[host.name]["warnings"]):
        found.append(f"CULPRIT: {last[host.name]['warnings']}")
    text = f"lost after {lost_after:.0f} s, back after {seconds:.0f} s; " + "; ".join(said)
    ended = Ended(status=screens.status, seconds=seconds, text=text)
    return ended.outcome(iter(found))


class _Screens:
    """What ``top --json`` prints, a line a second, read by a thread: a reader that waits for one has a time limit."""

    def __init__(self) -> None:
        self.lines: Queue[str] = Queue()
        self.last: dict[str, Any] = {}
        self.status: int | None = None


@contextlib.contextmanager
def _top(controller: LabController, names: Sequence[str]) -> Iterator[_Screens]:
    assert controller.lab.ssh is not None
    words = [sys.executable, "-c", "from raybench.cli import main; main()", "top", *names]
    options = ["--ssh-config", str(controller.lab.ssh.config_file), "--json"]
    process = controller.lab.control.popen(
        [*words, *options], environment=controller.environment, stdout=subprocess.PIPE
    )
    screens = _Screens()
    assert process.stdout is not None
    output = process.stdout
    threading.Thread(target=lambda: [screens.lines.put(line) for line in output], daemon=True).start()
    try:
        yield screens
        process.terminate()
        screens.status = process.wait(30)
    finally:
        process.kill()


def _until(screens: _Screens, there: Callable[[Mapping[str, Any]], object], said: list[str]) -> bool:
    """Whether it comes in time. What is said of hosts meanwhile is noted: each that is lost, each warning."""
    deadline = time.monotonic() + _TOP_SECONDS
    while time.monotonic() < deadline:
        try:
            hosts = {one["name"]: one for one in json.loads(screens.lines.get(timeout=30))["hosts"]}
        except Empty:
            said.append("nothing was printed for 30 s")
            return False
        screens.last = hosts
        for name, one in hosts.items():
            told = [f"lost: {one['reason']}"] * (one["state"] == "lost") + [line["text"] for line in one["warnings"]]
            said += [f"{name} {text}" for text in told if f"{name} {text}" not in said]
        if there(hosts):
            return True
    return False
