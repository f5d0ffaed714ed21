"""Faults of links and of whole nodes while a run measures on a Ray cluster of lab nodes."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.chaos.outcome import Ended, Outcome, ended_well
from tests.lab import disturbance
from tests.lab.cluster import Lab
from tests.lab.errors import LabSetupError
from tests.lab.node import Node
from tests.lab.requirement import lab_available
from tests.lab_run import LabRun, lab_run

_TIMEOUT_SECONDS = 10
_GRACE_SECONDS = 25.0
_HANG_SECONDS = 120.0
_LEASE_SECONDS = 55.0  # of a node actor whose driver has gone without a word
_SWEEP = ("--suite", "quick", "--sizes", "1K:900K:+1K", "--iters", "50", "--timeout", str(_TIMEOUT_SECONDS))
_SIZED = ("--suite", "all_reduce", "--sizes", "256K:1M:2", "--iters", "4", "--blocks", "5", "--timeout", "90")
_SHORT = ("--suite", "quick", "--sizes", "1K:12K:+1K", "--iters", "30", "--timeout", "90")
_PAIRS = ("--suite", "p2p_matrix", "--p2p-size", "256K", "--iters", "2", "--blocks", "3", "--timeout", "90")
_STEPS = ("--steps", "30", "--batch-size", "2", "--sequence-length", "64", "--no-verify", "--timeout", "90")
_WHOLE_SECONDS = 110.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A lab whose run measures. ``node`` is the one that is hit."""

    lab: Lab
    run: LabRun
    node: Node

    @property
    def head(self) -> Node:
        return self.lab.nodes[0]

    @property
    def others(self) -> list[Node]:
        """Without ``node``."""
        return [one for one in self.lab.nodes if one.hostname != self.node.hostname]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFault:
    """``rules``: of the first finding; none: the run must be whole. ``culprit``: node, head, other (any but the head).

    ``of_head``: the head is hit, and the command on another node. ``before``: planted before the command starts.
    ``gone``: what is left on the node that was hit is not looked at: nobody can reach it.
    """

    kind: str
    what: str
    plant: Callable[[Scene], object]
    rules: Sequence[str] = ()
    culprit: str = "node"
    statuses: Sequence[int] = (3,)
    nodes: int = 3
    of_head: bool = False
    command: Sequence[str] = _SWEEP
    verb: str = "run"
    before: bool = False
    gone: bool = False
    needs_nft: bool = False
    ray_seconds: float = 60.0

    @property
    def workload(self) -> str:
        return self.verb


_LOST = ("node-lost",)
_HEAD_LOST = ("cluster-lost",)
_FINE = (0, 1)
# Counted where packets are sent from, whichever link loses them; of one path both ends are named.
_OF_BOTH_ENDS = {"tcp-retransmissions", "tcp-losses-while-measured"}


def _halves(scene: Scene) -> tuple[list[Node], list[Node]]:
    return scene.lab.nodes[:2], scene.lab.nodes[2:]


def _cut_off(scene: Scene) -> None:
    disturbance.partition([scene.node], scene.others)


def _heal_after(seconds: float, scene: Scene) -> None:
    time.sleep(seconds)
    disturbance.heal(scene.lab.nodes)


def _out_for(seconds: float, scene: Scene) -> None:
    disturbance.flap(scene.node, times=1, down_seconds=seconds, up_seconds=0)


def _stand_still(node: Node, seconds: float | None) -> None:
    """Stop every process of a node, as a virtual machine does that is paused or moved; None: for good."""
    held = [one for one in node.processes() if one.node_pid != 1]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in held:
            try:
                node.signal(process, number)
            except ProcessLookupError:
                continue
        if seconds is None:
            return
        time.sleep(seconds if number == signal.SIGSTOP else 0)


def _hold_back(scene: Scene) -> None:
    """Give the node's rank a twentieth of a processor, until the run ends: what a slow processor is to it.

    Ten ranks share the processors of this machine, so that each has a fifth of one, or less: more would hold up nobody.
    """
    number = [one.hostname for one in scene.lab.nodes].index(scene.node.hostname)
    group = disturbance.slow_down(scene.run.rank(scene.node, number), 0.05)

    def give_back() -> None:
        scene.run.process.wait()
        disturbance.remove_group(group)

    threading.Thread(target=give_back, daemon=True).start()


LINK_FAULTS = (
    LinkFault(kind="link", what="down", plant=lambda s: s.node.unplug(), rules=_LOST, gone=True),
    LinkFault(kind="link", what="down, of the head", plant=lambda s: s.node.unplug(), rules=_HEAD_LOST, of_head=True,
              gone=True),
    LinkFault(kind="link", what="down before the run", plant=lambda s: s.node.unplug(), rules=_LOST, before=True,
              gone=True),
    LinkFault(kind="link", what="black hole", plant=lambda s: disturbance.black_hole(s.node), rules=_LOST, gone=True,
              needs_nft=True),
    LinkFault(kind="link", what="black hole, of the head", plant=lambda s: disturbance.black_hole(s.node),
              rules=_HEAD_LOST, of_head=True, gone=True, needs_nft=True),
    LinkFault(kind="link", what="it hears nothing", plant=lambda s: disturbance.black_hole(s.node, is_heard=True),
              rules=_LOST, gone=True, needs_nft=True),
    LinkFault(kind="link", what="nobody hears it", plant=lambda s: disturbance.black_hole(s.node, hears=True),
              rules=_LOST, gone=True, needs_nft=True),
    LinkFault(kind="link", what="down for 2 s", plant=lambda s: _out_for(2.0, s), statuses=_FINE, command=_SHORT),
    LinkFault(kind="link", what="flapping", command=_SHORT, statuses=_FINE,
              plant=lambda s: disturbance.flap(s.node, times=5, down_seconds=0.3, up_seconds=0.7)),
    LinkFault(kind="link", what="black hole for 3 s", command=_SHORT, statuses=_FINE, needs_nft=True,
              plant=lambda s: (disturbance.black_hole(s.node), _heal_after(3.0, s))),
    LinkFault(kind="link", what="loss 5 % for 6 s", statuses=_FINE, command=_SHORT, needs_nft=True,
              plant=lambda s: (disturbance.lose_packets(s.node, 5), _heal_after(6.0, s))),
    LinkFault(kind="link", what="loss 30 % for 6 s", statuses=_FINE, command=_SHORT, needs_nft=True,
              plant=lambda s: (disturbance.lose_packets(s.node, 30), _heal_after(6.0, s))),
    LinkFault(kind="link", what="shaped to 20 Mbit/s", plant=lambda s: s.lab.shape(s.node, "20mbit"), statuses=_FINE,
              command=_SHORT),
    LinkFault(kind="partition", what="2|2", plant=lambda s: disturbance.partition(*_halves(s)), rules=_LOST, nodes=4,
              culprit="far half", needs_nft=True, gone=True),
    LinkFault(kind="partition", what="1|3", plant=_cut_off, rules=_LOST, nodes=4, needs_nft=True, gone=True),
    LinkFault(kind="partition", what="head cut off, seen from it", plant=lambda s: disturbance.partition(
              [s.head], s.lab.nodes[1:]), rules=_LOST, culprit="far", needs_nft=True, gone=True),
    LinkFault(kind="partition", what="head cut off, seen by others", plant=_cut_off, rules=_HEAD_LOST, of_head=True,
              needs_nft=True, gone=True),
    LinkFault(kind="partition", what="2|2 for 3 s", nodes=4, statuses=_FINE, command=_SHORT, needs_nft=True,
              plant=lambda s: (disturbance.partition(*_halves(s)), _heal_after(3.0, s))),
    LinkFault(kind="slow node", what="link, one of ten", nodes=10, before=True, rules=("slow-node",), statuses=(1,),
              plant=lambda s: s.lab.shape(s.node, "20mbit"), command=_PAIRS),
    LinkFault(kind="slow node", what="processor, one of ten", nodes=10, statuses=(1,),
              rules=("slow-rank", "straggler"), plant=_hold_back, command=_STEPS, verb="train"),
    LinkFault(kind="slow node", what="link, in collectives alone", nodes=4, before=True, rules=("slow-tcp-paths",),
              statuses=(1,), plant=lambda s: s.lab.shape(s.node, "20mbit"), command=_SIZED),
    LinkFault(kind="node", what="loses power", plant=lambda s: s.node.kill(), rules=_LOST, gone=True),
    LinkFault(kind="node", what="crashes", plant=lambda s: s.node.kill(silent=False), rules=_LOST, gone=True),
    LinkFault(kind="node", what="head loses power", plant=lambda s: s.node.kill(), rules=_HEAD_LOST, of_head=True,
              gone=True),
    LinkFault(kind="node", what="stands still", plant=lambda s: _stand_still(s.node, None), rules=_LOST, gone=True),
    LinkFault(kind="node", what="stands still for 3 s", plant=lambda s: _stand_still(s.node, 3.0), statuses=_FINE,
              command=_SHORT),
    LinkFault(kind="reboot", what="of a node (emulated)", plant=lambda s: s.lab.reboot(s.node), rules=_LOST),
    LinkFault(kind="reboot", what="of the head (emulated)", plant=lambda s: s.lab.reboot(s.node), rules=_HEAD_LOST,
              of_head=True),
    LinkFault(kind="reboot", what="of the command's node (emulated)", plant=lambda s: s.lab.reboot(s.lab.nodes[1]),
              of_head=True, statuses=(-signal.SIGKILL, 255)),
)  # fmt: skip


def play(fault: LinkFault, delay_seconds: float, pick: int) -> Outcome:
    """Build a lab, start the command, plant, wait, judge. ``pick`` draws the node."""
    reason = lab_available() or (disturbance.missing_programs() if fault.needs_nft else None)
    if reason is not None:
        return Outcome(skipped=reason)
    number = 0 if fault.of_head else 1 + pick % (fault.nodes - 1)
    with Lab(nodes=fault.nodes) as lab:
        try:
            lab.start_ray(cpus_per_node=1, timeout=fault.ray_seconds)
        except LabSetupError as error:
            return Outcome(skipped=f"Ray did not start in the lab: {error}"[:300])
        return _in(lab, fault, delay_seconds, number)


def _in(lab: Lab, fault: LinkFault, delay_seconds: float, number: int) -> Outcome:
    if fault.before:
        fault.plant(Scene(lab=lab, run=None, node=lab.nodes[number]))  # type: ignore[arg-type]
    driver = 1 if fault.of_head else 0
    name = lab.nodes[number].hostname
    with lab_run(lab, "--nodes", str(fault.nodes), *fault.command, node=driver, verb=fault.verb) as run:
        begun = time.monotonic()
        if not fault.before:
            try:
                _wait_until_measuring(run, training=fault.verb == "train")
            except TimeoutError as error:
                return Outcome(text=str(error))
            time.sleep(delay_seconds)
            begun = time.monotonic()
            fault.plant(Scene(lab=lab, run=run, node=lab.nodes[number]))
        ended = _ending(lab, run, begun, but=name if fault.gone else "")
    return ended.outcome(complaints(fault, ended, names=[one.hostname for one in lab.nodes], node=name))


def _wait_until_measuring(run: LabRun, *, training: bool) -> None:
    if training:  # its ranks have begun: the timed steps, which its figures are of, are still to come
        deadline = time.monotonic() + 60
        while (
            " ranks, after" not in run.out + run.errors and run.process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(0.1)
    else:
        run.wait_for_points(2)


def _ending(lab: Lab, run: LabRun, begun: float, *, but: str) -> Ended:
    try:
        status: int | None = run.finish(_HANG_SECONDS)
    except subprocess.TimeoutExpired:
        status = None
    seconds = time.monotonic() - begun
    disturbance.heal([one for one in lab.nodes if one.alive])
    left = _left(lab, but, _LEASE_SECONDS if status is not None and status < 0 else 8.0)
    found = list(run.folder.glob("runs/*/result.json"))
    return Ended(
        status=status, seconds=seconds, text=run.out + run.errors, document=run.result() if found else None, left=left
    )


def _left(lab: Lab, but: str, seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    while True:
        left = [f"{name}: {one}" for name, found in lab.leftover_processes().items() if name != but for one in found]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def complaints(fault: LinkFault, ended: Ended, *, names: Sequence[str], node: str) -> Iterator[str]:
    """What is wrong with how the command ended."""
    limit = _TIMEOUT_SECONDS + _GRACE_SECONDS if fault.rules and fault.command is _SWEEP else _WHOLE_SECONDS
    yield from ended_well(ended, statuses=fault.statuses, limit_seconds=limit)
    if (ended.status is not None and ended.status < 0) or 255 in fault.statuses:
        return
    if ended.document is None:
        yield "RESULT: there is none"
        return
    yield from _of_result(fault, ended.document, names, node)


def _of_result(fault: LinkFault, result: Any, names: Sequence[str], node: str) -> Iterator[str]:
    findings = [one for one in result["findings"] if one["severity"] != "info"]
    said = [(one["rule"], one["hosts"], one["summary"][:150]) for one in findings]
    if not fault.rules:
        if result["status"] != "complete":
            yield f"RESULT: {result['status']} {said}"
        blamed = {host for one in findings if one["rule"] not in _OF_BOTH_ENDS for host in one["hosts"]} - {node}
        if blamed:
            yield f"CULPRIT: {blamed} are blamed for {node}: {said}"
        return
    if 3 in fault.statuses and result["status"] not in ("partial", "failed"):
        yield f"RESULT: {result['status']}"
    wanted = _culprits(fault, names, node)
    first = findings[0] if findings else {"rule": "", "hosts": ()}
    named = set(first["hosts"]) <= wanted and (first["hosts"] or fault.rules == _HEAD_LOST)  # which names no node
    if first["rule"] not in fault.rules or not named:
        yield f"CULPRIT: {fault.rules} of {sorted(wanted)} is not first: {said}"
    blamed = {host for one in findings for host in one["hosts"]} - wanted
    if blamed:
        yield f"BLAMED: {blamed}: {said}"


def _culprits(fault: LinkFault, names: Sequence[str], node: str) -> set[str]:
    if fault.culprit == "far half":
        return {"node3", "node4"}
    return set(names[1:]) if fault.culprit == "far" else {node}
