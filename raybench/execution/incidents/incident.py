"""What broke a run: pure judgement of which of several reports is the cause and which are its victims."""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal

from diagnostics.findings import Confidence, Evidence, Finding, Recommendation
from raybench.benchmarks.rank.progress import PHASES, Position
from raybench.benchmarks.registry import labels_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.node_actors.messages import RankPosition
from raybench.finding_rules.incidents import incident_rule

Kind = Literal[
    "rank-stopped",  # the process is stopped (SIGSTOP, a debugger)
    "rank-died",  # the process was killed, or ended without a word
    "node-lost",  # the node's actor does not answer
    "collective-mismatch",  # ranks are in operations that do not fit together
    "init-hang",  # ranks have not come to the process group
    "rank-behind",  # the others wait for the rank
    "collective-stuck",  # all ranks are inside one operation, and nothing moves
    "rank-failed",  # an exception that is not about a connection
    "time-limit",  # the benchmark's time is over; nobody stands out
    "connection-lost",  # an exception about a connection: most often another rank's death seen from here
    "cluster-lost",  # Ray itself does not answer
    "rank-host-lost",  # the process that holds the ranks is stopped, or has ended
    "driver-lost",  # the process of raybench that talks to Ray is stopped, or has ended
    "interrupted",  # Ctrl-C or SIGTERM
]

# Which kind explains which: a cause further up has the ones below as its victims.
_RANKING: tuple[Kind, ...] = (
    "interrupted",
    "cluster-lost",
    "driver-lost",
    "rank-host-lost",
    "rank-stopped",
    "collective-mismatch",
    "rank-died",
    "node-lost",
    "rank-failed",
    "init-hang",
    "rank-behind",
    "collective-stuck",
    "time-limit",
    "connection-lost",
)

_SHOWN = 8

# Types of exception, and words in them, by which a rank reports that it lost another one.
_CONNECTION_TYPES = (
    "RuntimeError",
    "DistBackendError",
    "DistNetworkError",
    "DistStoreError",
    "Connection",
    "BrokenPipeError",
)
_CONNECTION_WORDS = re.compile(
    r"connection (closed|reset|refused|was)|broken pipe|timed? ?out|remote (process|peer)|\bsockets?\b|\bpeer\b"
    r"|nccl ?(error|communicator)|remoteerror|systemerror|unhandled (system|cuda) error|\bstore\b"
    r"|read error|write error",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One report of trouble. ``step`` says where the rank was; ``reason`` what happened, in a person's words.

    ``others``: further (rank, node) of which the same is true. ``advice``: what to do next, a sentence each.
    """

    kind: Kind
    reason: str
    node: str | None = None
    rank: int | None = None
    step: str | None = None
    others: tuple[tuple[int, str], ...] = ()
    explanation: str = ""
    confidence: Confidence | None = None
    quotes: tuple[Evidence, ...] = ()
    advice: tuple[str, ...] = ()
    component: str | None = None  # the process at fault, where one was seen to be: raylet, GCS, rank host, ...

    def to_finding(self, victims: Sequence[str] = ()) -> Finding:
        """The incident as what ended the run; ``victims`` are the texts of incidents that follow from it."""
        usual: Confidence = "likely" if self.kind in ("rank-behind", "connection-lost") else "certain"
        others = [node for _, node in self.others]
        return incident_rule(self.kind).finding(
            confidence=self.confidence or usual,
            summary=self.text(),
            explanation=self.explanation or self.reason,
            ranks=() if self.rank is None else (self.rank, *(rank for rank, _ in self.others)),
            hosts=() if self.node is None else tuple(dict.fromkeys([self.node, *others])),
            step=self.step,
            component=self.component,
            evidence=self.quotes,
            recommendations=tuple(Recommendation(action=self.kind, text=text) for text in self.advice),
            broken_with=tuple(victims),
        )

    def text(self) -> str:
        """One line: who, where, what."""
        ranks = [] if self.rank is None else [self.rank, *(rank for rank, _ in self.others)]
        nodes = [] if self.node is None else list(dict.fromkeys([self.node, *(node for _, node in self.others)]))
        who = [numbered("rank", ranks)] if ranks else []
        who += [numbered("node", nodes)] if nodes else []
        subject = " on ".join(who)
        place = f" during {self.step}" if self.step else ""
        return f"{subject}: {self.reason}{place}" if subject else f"{self.reason}{place}"


def numbered(noun: str, names: Sequence[object]) -> str:
    """``rank 3``, ``ranks 0, 1 and 2``; of many, the first eight and how many more."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    shown = [str(name) for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        return f"{noun}s {', '.join(shown)} and {len(names) - _SHOWN} more"
    return f"{noun}s {', '.join(shown[:-1])} and {shown[-1]}"


def failure_kind(error: str) -> Kind:
    """Whether an exception's text is about a connection (a victim's view) or about the rank itself."""
    lost = error.startswith(_CONNECTION_TYPES) and _CONNECTION_WORDS.search(error)
    return "connection-lost" if lost else "rank-failed"


def first_cause(incidents: Sequence[Incident]) -> Incident | None:
    """The incident that explains the others: a process seen to be at fault first; among equals, the first reported."""
    return min(incidents, key=_place, default=None)


def _place(incident: Incident) -> tuple[bool, int]:
    seen = incident.component is not None or incident.kind == "interrupted"
    return not seen, _RANKING.index(incident.kind)


def causes(incidents: Sequence[Incident]) -> list[Incident]:
    """The first cause, and every other incident of the same kind about another rank or node (two ranks may die)."""
    first = first_cause(incidents)
    if first is None:
        return []
    found = [first]
    for incident in incidents:
        same = incident.kind == first.kind and (incident.node, incident.rank) != (first.node, first.rank)
        if same and (incident.node, incident.rank) not in [(one.node, one.rank) for one in found]:
            found.append(incident)
    return found


def culprits(
    positions: Sequence[tuple[str, RankPosition]],
    plan: Sequence[BenchmarkSpec],
    spoken: Container[int] = (),
    *,
    world_size: int,
) -> list[Incident]:
    """The ranks, of every reachable rank's ``(node, position)``, whose process is stopped, or has ended without a word.

    Ranks in ``spoken`` said why.
    """
    ended = [(node, position) for node, position in positions if has_ended(position) and position.rank not in spoken]
    blamed = stopped(positions, plan, world_size=world_size)
    return blamed + _incidents("rank-died", "the process has ended", ended, plan, world_size)


def has_ended(position: RankPosition) -> bool:
    """Whether the rank's process is no more, and had not come to the end of its plan."""
    return position.state in ("X", "Z") and position.phase != "finished"


def behind(
    positions: Sequence[tuple[str, RankPosition]], plan: Sequence[BenchmarkSpec], *, world_size: int
) -> list[Incident]:
    """The ranks that have done less than the rest, where nothing moves, unless that is most of them.

    In a collective all wait for the slowest, so the one behind is the one that the others wait for.
    """
    reason = "the rank has done less than the others, which wait for it"
    return _incidents("rank-behind", reason, _behind(positions), plan, world_size)


def stopped(
    positions: Sequence[tuple[str, RankPosition]], plan: Sequence[BenchmarkSpec], *, world_size: int
) -> list[Incident]:
    """The ranks whose process somebody has stopped."""
    reason = "the process is stopped (SIGSTOP or a debugger); continue it with SIGCONT, or end it"
    found = [(node, position) for node, position in positions if position.state in ("T", "t")]
    return _incidents("rank-stopped", reason, found, plan, world_size)


def _incidents(
    kind: Kind,
    reason: str,
    positions: Sequence[tuple[str, RankPosition]],
    plan: Sequence[BenchmarkSpec],
    world_size: int,
) -> list[Incident]:
    return [
        Incident(kind=kind, node=node, rank=position.rank, step=step_text(position, plan, world_size), reason=reason)
        for node, position in positions
    ]


def _behind(positions: Sequence[tuple[str, RankPosition]]) -> list[tuple[str, RankPosition]]:
    orders = [order_of(position) for _, position in positions]
    if not orders or min(orders) == max(orders):
        return []
    last = [(node, position) for node, position in positions if order_of(position) == min(orders)]
    return last if len(last) * 2 <= len(positions) else []


def order_of(position: RankPosition) -> tuple[int, int, int, int, int]:
    """A key that grows as the run goes on."""
    phase = PHASES.index(position.phase)  # a new phase starts its blocks and iterations from zero
    return position.benchmark, position.point, phase, position.block, position.iteration


def point_text(spec: BenchmarkSpec, point: int, world_size: int) -> str:
    """What is measured: ``all_reduce float32 1M``, ``p2p_matrix float32 4M pass 3``, ``ddp tiny``."""
    labels = labels_of(spec, world_size)
    label = labels[min(point, len(labels) - 1)] if labels else ""
    return workload_of(spec.kind).place(spec, label, point)


def next_step(spec: BenchmarkSpec, measured: int, world_size: int) -> str:
    """What a benchmark turns to after so many points: ``all_reduce float32 1M``."""
    labels = labels_of(spec, world_size)
    label = labels[measured] if measured < len(labels) else ""
    return workload_of(spec.kind).place(spec, label, None)


def step_text(position: RankPosition | Position, plan: Sequence[BenchmarkSpec], world_size: int) -> str:
    """Where a rank is: ``all_reduce float32 1M, timing, block 3, iteration 17``."""
    if position.phase in ("not started", "joining the process group") or position.benchmark >= len(plan):
        return position.phase
    spec = plan[position.benchmark]
    where = f"{point_text(spec, position.point, world_size)}, {position.phase}"
    if position.phase == "timing":
        where += f", block {position.block + 1}, iteration {position.iteration + 1}"
    return where
