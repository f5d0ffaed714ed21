"""Which faults to plant, where and when: drawn from a seed, so that a campaign can be repeated."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.faults.commands import WORKLOADS, Workload

# A phase begins when its first process, or sample, is there.
PHASES = ("start", "cluster", "placing", "joining", "measuring", "ending")
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGINT twice", "SIGKILL")
_HARMLESS = ("pause", "garbage")
IN_RANK = ("sleep", "mismatch", "skip")  # done by the rank itself: see site/sitecustomize.py
_EARLIEST = {"start": 0.1}  # before, Python itself starts, and ends by the signal
# How long after its phase began a fault may come, in seconds.
_LATEST = {"start": 1.2, "cluster": 0.8, "placing": 0.4, "joining": 0.4, "measuring": 2.0, "ending": 0.3}
_FIRST_PHASE = {"driver": 1, "gcs": 1, "raylet": 1, "node_actor": 2, "rank_host": 2, "rank": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: what is done to whom, in which workload, so long after a phase began."""

    number: int
    workload: str
    phase: str
    delay_seconds: float
    target: str
    action: str

    @property
    def harmless(self) -> bool:
        """Whether the command must end as if nothing had been."""
        return self.action in _HARMLESS


def faults(seed: int, count: int, workloads: Sequence[str] = tuple(WORKLOADS)) -> list[Fault]:
    """So many faults: every kind before any comes again, then at random."""
    draw = random.Random(seed)
    kinds: list[tuple[str, str, str, str]] = []
    while len(kinds) < count:
        fresh = [kind for name in workloads for kind in _kinds(WORKLOADS[name])]
        draw.shuffle(fresh)
        kinds += _spread(fresh)
    return [
        Fault(
            number=number,
            workload=workload,
            phase=phase,
            delay_seconds=round(max(draw.uniform(0, _LATEST[phase]), _EARLIEST.get(phase, 0.0)), 3),
            target=target,
            action=action,
        )
        for number, (workload, phase, target, action) in enumerate(kinds[:count], 1)
    ]


def _spread(kinds: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """In such an order that the first hundred hold each target and action in many phases and workloads."""
    waiting: dict[tuple[str, str], list[tuple[str, str, str, str]]] = {}
    for kind in kinds:
        waiting.setdefault((kind[2].partition(" ")[0], kind[3]), []).append(kind)
    ordered = []
    while waiting:
        for key in list(waiting):
            ordered.append(waiting[key].pop())
            if not waiting[key]:
                del waiting[key]
    return ordered


def _kinds(workload: Workload) -> Iterator[tuple[str, str, str, str]]:
    for index, phase in enumerate(PHASES):
        yield from ((workload.name, phase, "command", action) for action in _SIGNALS)
        for target in _targets(workload):
            part = target.partition(" ")[0]
            if index >= _FIRST_PHASE[part] and not (phase == "ending" and part == "rank"):  # they have ended
                yield from ((workload.name, phase, target, action) for action in ("SIGKILL", "SIGSTOP"))
    yield workload.name, "measuring", "command", "pause"
    yield workload.name, "measuring", f"rank {workload.ranks - 1}", "pause"
    yield workload.name, "measuring", "ports", "garbage"
    yield workload.name, "measuring", "output", "full"
    yield workload.name, "measuring", "output", "removed"
    if workload.name in ("run", "run4", "train"):
        yield workload.name, "measuring", f"rank {workload.ranks - 1}", "sleep"
    if workload.ranks > 2:  # of two ranks, nobody can say which is the odd one
        yield from ((workload.name, "measuring", "rank 2", action) for action in ("mismatch", "skip"))


def _targets(workload: Workload) -> Iterator[str]:
    yield from ("driver", "gcs", "rank_host")
    for node in range(1, workload.nodes + 1):
        yield from (f"raylet {node}", f"node_actor {node}")
    yield from (f"rank {rank}" for rank in range(workload.ranks))
