"""Faults of an inventory's hosts, their sshd and Ansible, while commands work over them by real SSH."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.unreachable import brief_reason
from tests.faults.chaos.outcome import Ended, Outcome, ended_well
from tests.lab import disturbance
from tests.lab.cluster import Lab
from tests.lab.node import Node
from tests.lab.requirement import lab_available
from tests.playbooks.lab_cluster import LabController, wait_until

_HOST_SECONDS = 10  # the time limit of one host, where the command has one
_NODES = 4
_HANG_SECONDS = 150.0
_LEFT_SECONDS = 8.0
_HELD_LOGIN = "sleep 3"  # of a host, so that Ansible is at its first task when it is hit, however slow this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCommand:
    """``words`` of ``raybench``; ``reasons``: why a host of its report was not done, by name, empty where it was.

    ``finding``: the status where hosts are done and something is found wrong with them, which in a lab there is.
    """

    words: Sequence[str]
    reasons: Callable[[Mapping[str, Any]], dict[str, str]]
    options: Sequence[str]
    output: bool = True
    limit_seconds: float = 45.0
    whole: Sequence[int] = (0,)
    goes_without: bool = False  # a host that is missing is named, and the rest is done: exit code 0


def _of_preflight(report: Mapping[str, Any]) -> dict[str, str]:
    return {one["host"]: one["reason"] or ("" if one["reached"] else "?") for one in report["hosts"]}


def _of_collection(report: Mapping[str, Any]) -> dict[str, str]:
    return {
        one["name"]: "; ".join(one["problems"]) or ("" if one["status"] == "complete" else "?")
        for one in report["hosts"]
    }


def _of_configuration(report: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["unreachable"] or _failed_items(one) for one in report["hosts"]}


def _failed_items(host: Mapping[str, Any]) -> str:
    bad = [str(item) for item in host["items"] if item["verdict"] not in ("changed", "right", "skipped")]
    return "; ".join(bad) if host["items"] else "nothing was done"


def _of_fabric(report: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: str(one["problems"]) if one["verdict"] == "error" else "" for one in report["hosts"]}


def _of_cluster(report: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["problem"] or ("" if one["state"] == "alive" else one["state"]) for one in report["nodes"]}


_TIMED = ("--host-timeout", str(_HOST_SECONDS))
COMMANDS: Mapping[str, HostCommand] = {
    "preflight": HostCommand(
        words=("preflight",), reasons=_of_preflight, whole=(0, 1),
        options=("--only", "host", "--skip", "host-log", *_TIMED),  # the kernel's log is that of this machine
    ),
    "collect": HostCommand(
        words=("collect",), reasons=_of_collection, options=("--timeout", "15")
    ),
    "configure": HostCommand(
        words=("configure",), reasons=_of_configuration, options=("--tags", "memlock", *_TIMED), output=False
    ),
    "fabric": HostCommand(
        words=("fabric", "run"), reasons=_of_fabric,
        options=("--tool", "tcp", "--seconds", "1", "--scope", "all"), limit_seconds=100.0,
    ),
    "cluster up": HostCommand(
        words=("cluster", "up"), reasons=_of_cluster, options=("-q", "--allow-missing", *_TIMED), output=False,
        limit_seconds=110.0, goes_without=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A lab whose command is under way. ``node`` is the one that the fault is for, never the head."""

    controller: LabController
    node: Node
    process: "subprocess.Popen[str] | None"

    @property
    def lab(self) -> Lab:
        return self.controller.lab


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFault:
    """``says``: the reason that the report has for the host; none: it must be done as all others.

    ``during``: planted once the command's session is on the host, else before it starts. ``settings``: of the host, in
    the inventory. ``all_hosts``: Ansible is hit, and so no host is done. ``again``: the same command, once the fault is
    over, must do all hosts.
    """

    kind: str
    what: str
    command: str
    plant: Callable[[Scene], object] = lambda _: None
    says: str = ""
    statuses: Sequence[int] = (3,)
    during: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    all_hosts: bool = False
    again: bool = False
    options: Sequence[str] = ()
    needs_nft: bool = False

    @property
    def workload(self) -> str:
        return self.command


def _end_sshd(scene: Scene, number: signal.Signals = signal.SIGKILL, *, sessions_only: bool = False) -> None:
    # one that has just started is not called so yet, and would be missed
    assert wait_until(lambda: any("[listener]" in one.command for one in scene.node.processes()), 10)
    for process in scene.node.processes():
        if process.command.startswith("sshd: ") and not (sessions_only and "[listener]" in process.command):
            with contextlib.suppress(ProcessLookupError):
                scene.node.signal(process, number)


def _stop_sshd(scene: Scene) -> None:
    _end_sshd(scene, signal.SIGSTOP)


def _cut_sessions(scene: Scene) -> None:
    _end_sshd(scene, sessions_only=True)


def _end_ansible(scene: Scene, number: signal.Signals = signal.SIGKILL) -> bool:
    """The process of ansible-playbook, not its workers. Returns whether it had not ended by itself."""
    found = [one for one in scene.lab.control.processes() if _IS_ANSIBLE.search(one.command)]
    if found:
        scene.lab.control.signal(found[0], number)
    return bool(found)


def _shell(text: str) -> Callable[[Scene], None]:
    return lambda scene: _login_runs(text, scene.node)


def _login_runs(text: str, node: Node) -> None:
    node.run(["sh", "-c", "cat >/root/.bashrc"], text_in=text + "\n", check=True)


def _fill_disk(scene: Scene) -> None:
    """No room in the folders that are the node's own: a tiny file system over each, full."""
    folders = "/tmp /root/.ansible /var/lib /etc/security /var/tmp"
    mount = "mount -t tmpfs -o size=4k,nr_inodes=64 none"
    script = f"for at in {folders}; do mkdir -p $at && {mount} $at; head -c 8192 /dev/zero >$at/filler; done; true"
    scene.node.run(["sh", "-c", f"{script} 2>/dev/null"], check=True)


_MISSING_PYTHON = {
    "ansible_python_interpreter": "/opt/missing/bin/python3",
    "raybench_python": "/opt/missing/bin/python3",
}
_EVERY = ("preflight", "collect", "configure", "fabric", "cluster up")
_BY_ANSIBLE = ("preflight", "configure", "fabric", "cluster up")
_IS_ANSIBLE = re.compile(r"^\S*python\S* \S*ansible-playbook\b")  # not the shell that waits for it
_OF_CLUSTER = re.compile(r"supervise\.py|\bray\b|ray::|raylet|gcs_server")  # of `cluster up`, which leaves its Ray
_GONE = r"refused|no sshd|cannot be reached|unreachable|not be sent"
_MUTE = r"no answer|timed out|banner|hangs|cut|within|no room to answer|time"
CUT = r"closed|reset|cut|no answer|within|hangs|time|answer|ended|lost|Connection|unreachable|refused"


def _rows() -> Iterator[HostFault]:
    for command in _EVERY:
        yield HostFault(kind="sshd", what="killed", command=command, plant=_end_sshd, says=_GONE)
        yield HostFault(kind="sshd", what="stopped", command=command, plant=_stop_sshd, says=_MUTE)
        yield HostFault(kind="disk", what="full", command=command, plant=_fill_disk, statuses=(0, 1, 3), says="?")
    for command in _BY_ANSIBLE:
        yield HostFault(
            kind="sshd",
            what="sessions killed",
            command=command,
            plant=_cut_sessions,
            during=True,
            says=CUT,
            statuses=(0, 1, 3),
        )
        yield HostFault(
            kind="host",
            what="Python missing",
            command=command,
            settings=_MISSING_PYTHON,
            says=r"no Python at|Python|not found|No such file",
        )
        yield HostFault(
            kind="Ansible",
            what="killed",
            command=command,
            plant=_end_ansible,
            during=True,
            all_hosts=True,
            says=r"Ansible \(ansible-playbook\) was ended by SIGKILL",
            again=True,
        )
    for command in ("preflight", "collect", "configure", "fabric"):
        yield HostFault(
            kind="link",
            what="black hole after login",
            command=command,
            during=True,
            needs_nft=True,
            plant=lambda scene: disturbance.black_hole(scene.node),
            says=CUT,
            statuses=(0, 1, 3),
        )
    yield HostFault(
        kind="sshd",
        what="sessions killed",
        command="collect",
        plant=_cut_sessions,
        during=True,
        says=CUT,
        statuses=(0, 3),
    )
    for command in ("preflight", "collect", "configure"):
        yield HostFault(
            kind="host",
            what="login prints garbage",
            command=command,
            says=r"prints|JSON|garbage|shell",
            plant=_shell("echo '{ not JSON'; head -c 4096 /dev/urandom"),
            statuses=(0, 1, 3),
        )
        yield HostFault(kind="host", what="login takes 2 s", command=command, plant=_shell("sleep 2"), statuses=(0, 1))
        yield HostFault(
            kind="link",
            what="loss 5 %",
            command=command,
            statuses=(0, 1),
            needs_nft=True,
            plant=lambda scene: disturbance.lose_packets(scene.node, 5),
        )
    for command in ("preflight", "collect"):
        yield HostFault(
            kind="link",
            what="flapping",
            command=command,
            during=True,
            statuses=(0, 1, 3),
            says=CUT,
            plant=lambda scene: disturbance.flap(scene.node, times=3, down_seconds=0.4, up_seconds=0.6),
        )
        yield HostFault(
            kind="reboot",
            what="in the middle (emulated)",
            command=command,
            during=True,
            plant=lambda scene: scene.lab.reboot(scene.node),
            says=CUT,
            statuses=(0, 1, 3),
            again=True,
        )
    yield HostFault(
        kind="Ansible",
        what="stopped",
        command="preflight",
        during=True,
        all_hosts=True,
        says=r"time",
        plant=lambda scene: _end_ansible(scene, signal.SIGSTOP),
        options=("--timeout", "12"),
    )
    yield HostFault(kind="reboot", what="after up (emulated)", command="cluster up", during=False, statuses=(0,))


HOST_FAULTS = tuple(_rows())


def play(fault: HostFault, delay_seconds: float, pick: int) -> Outcome:
    """Build a lab, start the command, plant, wait, judge. ``pick`` draws the host."""
    reason = lab_available() or (disturbance.missing_programs() if fault.needs_nft else None)
    reason = reason or (None if shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin") else "there is no sshd")
    if reason is not None:
        return Outcome(skipped=reason)
    with Lab(nodes=_NODES) as lab, tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as scratch:
        node = lab.nodes[1 + pick % (_NODES - 1)]
        controller = LabController(lab=lab)
        _write_inventory(controller, node, fault.settings)
        if fault.kind == "reboot" and not fault.during:
            return _rebooted(controller, node, Path(scratch))
        return _in(controller, node, fault, delay_seconds, Path(scratch))


def _write_inventory(controller: LabController, node: Node, settings: Mapping[str, Any]) -> None:
    import yaml

    controller.write_inventory()
    if settings:
        content = yaml.safe_load(controller.inventory.read_text())
        content["all"]["children"]["ray_workers"]["hosts"][node.hostname] = dict(settings)
        controller.inventory.write_text(yaml.safe_dump(content))


def start(
    controller: LabController, fault_command: str, options: Sequence[str], scratch: Path
) -> "subprocess.Popen[str]":
    command = COMMANDS[fault_command]
    output = ("--output-dir", str(controller.lab.folder.shared / "runs")) if command.output else ()
    words = (*command.words, "-i", controller.inventory, "--json", *command.options, *output, *options)
    return controller.lab.control.popen(
        ["python", "-c", "from raybench.cli import main; main()", *map(str, words)],
        environment=controller.environment | {"TMPDIR": str(scratch)},
        stdout=(scratch.with_name(scratch.name + ".out")).open("w"),
        stderr=(scratch.with_name(scratch.name + ".err")).open("w"),
    )


def _in(controller: LabController, node: Node, fault: HostFault, delay_seconds: float, scratch: Path) -> Outcome:
    lab, planted = controller.lab, True
    if fault.all_hosts:
        _login_runs(_HELD_LOGIN, node)
    if not fault.during:
        fault.plant(Scene(controller=controller, node=node, process=None))
    process = start(controller, fault.command, fault.options, scratch)
    begun = time.monotonic()
    if fault.during:
        planted = wait_until(lambda: _at_work(node) or process.poll() is not None, 40) and process.poll() is None
        time.sleep(delay_seconds)
        planted = planted and process.poll() is None
        begun = time.monotonic()
        if planted:
            planted = fault.plant(Scene(controller=controller, node=node, process=process)) is not False
    cut_off = node.hostname if fault.kind == "link" else ""
    ended = ending(controller, process, begun, scratch, cut_off=cut_off)
    found = list(complaints(fault, ended, [one.hostname for one in lab.nodes], node.hostname))
    if planted and fault.again:
        disturbance.heal(lab.nodes)
        if fault.all_hosts:
            _login_runs("", node)
        second = ending(controller, start(controller, fault.command, (), scratch), time.monotonic(), scratch)
        found += [f"AGAIN: {one}" for one in whole(COMMANDS[fault.command], second)]
    return ended.outcome(iter(found), planted=planted)


def _at_work(node: Node) -> bool:
    return any(one.command.startswith("sshd: ") and "@" in one.command for one in node.processes())


def ending(
    controller: LabController, process: "subprocess.Popen[str]", begun: float, scratch: Path, *, cut_off: str = ""
) -> Ended:
    try:
        status: int | None = process.wait(_HANG_SECONDS)
    except subprocess.TimeoutExpired:
        status = None
        process.kill()
    seconds = time.monotonic() - begun
    out = scratch.with_name(scratch.name + ".out")
    errors = scratch.with_name(scratch.name + ".err")
    text, said = out.read_text(errors="replace"), errors.read_text(errors="replace")
    out.unlink()
    errors.unlink()
    try:
        document = json.loads(text) if text else None
    except ValueError:
        document = {"torn": text[:200]}
    left = _left(controller.lab, _LEFT_SECONDS, cut_off)
    left += [one.name for one in scratch.iterdir() if not one.name.startswith("raybench-lab-")]
    return Ended(status=status, seconds=seconds, text=said + ("" if document else text), document=document, left=left)


def _left(lab: Lab, seconds: float, cut_off: str) -> list[str]:
    """Processes that are not of the cluster that was brought up; nor an sshd that nobody could tell of the end."""
    deadline = time.monotonic() + seconds
    while True:
        left = [
            f"{name}: {one}"
            for name, found in lab.leftover_processes().items()
            for one in found
            if not _OF_CLUSTER.search(one.command) and not (one.command.startswith("sshd: ") and name == cut_off)
        ]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return left


def complaints(
    fault: HostFault, ended: Ended, names: Sequence[str], name: str, *, command: HostCommand | None = None
) -> Iterator[str]:
    """What is wrong with how the command ended."""
    command = command or COMMANDS[fault.command]
    statuses = {*fault.statuses, 0} if command.goes_without and not fault.all_hosts else fault.statuses
    yield from ended_well(ended, statuses=sorted(statuses), limit_seconds=command.limit_seconds)
    if ended.status is None:
        return
    if fault.all_hosts:
        if not re.search(fault.says, ended.text + json.dumps(ended.document)):
            yield f"CULPRIT: it does not say {fault.says}: {ended.text[-300:]}"
        return
    if ended.document is None or "torn" in ended.document:
        yield f"REPORT: there is none: {ended.text[-300:]}"
        return
    reasons = command.reasons(ended.document)
    missing = set(names) - set(reasons)
    if missing:
        yield f"REPORT: {missing} are not in it"
    blamed = {host: why[:200] for host, why in reasons.items() if why and host != name}
    if blamed:
        yield f"BLAMED: {blamed}"
    why = reasons.get(name, "")
    why = f"{why} ({brief_reason(why, name)})" if why else ""
    if why and not fault.says:
        yield f"NOT DONE: {name}: {why[:300]}"
    must = ended.status not in fault.statuses or ended.status == 3
    if must and not (why and (fault.says == "?" or re.search(fault.says, why))):
        yield f"CULPRIT: {name} has the reason {why[:300]!r}"
    if ended.status == 0 and why and not command.goes_without:
        yield f"EXIT: {ended.status}, but {name} was not done: {why[:300]}"


def whole(command: HostCommand, ended: Ended) -> Iterator[str]:
    """What is wrong with a command of which every host had to be done."""
    yield from ended_well(ended, statuses=command.whole, limit_seconds=command.limit_seconds)
    found = command.reasons(ended.document) if ended.document and "torn" not in ended.document else {"all": "no report"}
    if any(found.values()):
        yield f"REPORT: {found}"


def _rebooted(controller: LabController, node: Node, scratch: Path) -> Outcome:
    """Up, a reboot of a worker: status misses it, and up brings it back."""
    up = COMMANDS["cluster up"]
    first = ending(controller, start(controller, "cluster up", (), scratch), time.monotonic(), scratch)
    complaints = [f"FIRST: {one}" for one in whole(up, first)]
    controller.lab.reboot(node, kept="/var/lib/raybench")
    begun = time.monotonic()
    done = controller.raybench("cluster", "status", "--json", "-q", "-i", controller.inventory, *_TIMED)
    reasons = _of_cluster(json.loads(done.stdout)) if done.stdout else {}
    told = [one["name"] for one in json.loads(done.stdout)["nodes"] if one["rebooted"]] if done.stdout else []
    if told != [node.hostname]:
        complaints.append(f"CULPRIT: {told} are said to have rebooted")
    if done.returncode != 1 or {host for host, why in reasons.items() if why} != {node.hostname}:
        complaints.append(f"STATUS: {done.returncode} {reasons}")
    second = ending(controller, start(controller, "cluster up", (), scratch), begun, scratch)
    complaints += [f"AGAIN: {one}" for one in whole(up, second)]
    return second.outcome(iter(complaints))
