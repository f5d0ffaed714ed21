"""Who holds up a run in which nothing moves: pure, from what each rank was seen to do.

In this order: a rank that is in no operation while others wait for it; ranks whose operations do not fit together; all
inside one operation, so that the network or its library is stuck. What cannot be determined blames nobody.
"""

from collections.abc import Sequence

from diagnostics.findings import Confidence
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.incidents.activity_text import explanation_of, quotes_of
from raybench.execution.incidents.doing import (
    Seen,
    decisive_frames,
    doing_text,
    frame_text,
    is_idle,
    operation_text,
    state_of,
    waited_in,
)
from raybench.execution.incidents.incident import Incident, Kind, behind, numbered, step_text
from raybench.execution.incidents.mismatch import is_transfer, mismatch_of

_PATIENCE = 1.5  # times as long as a step took before, for a rank that does nothing at all
_BUSY_PATIENCE = 3.0  # and for one that computes: it may be slow
_LEAST_QUIET_SECONDS = 0.5
_MISMATCH_ADVICE = (
    "Every rank has to issue the same operations in the same order, with the same sizes and types: look for a branch "
    "on the rank, on its data or on an error at the lines quoted."
)
_NETWORK_ADVICE = (
    "Look at the links and switches between these nodes (raybench fabric, dmesg, ethtool -S, ibqueryerrors); with "
    "NCCL, at its log and its RAS service (ncclras): 'raybench diagnose' reads the run's logs/."
)
_BLOCKED_ADVICE = (
    "It waits in the kernel, most often for a disk or a network file system: look at dmesg, at the mounts of its node, "
    "and at the storage that its line of code uses."
)
_LINE_ADVICE = "Look at the line quoted, where the rank is stuck; its whole stack is in logs/activity.txt."


def hang(ranks: Sequence[Seen], plan: Sequence[BenchmarkSpec], *, world_size: int) -> list[Incident]:
    """The culprits of a hang; none where ranks still move, or where it cannot be determined."""
    alive = [one for one in ranks if state_of(one) not in ("ended", "finished")]
    waiting = [one for one in alive if state_of(one) == "waiting"]
    elsewhere = [one for one in alive if state_of(one) != "waiting"]
    if not alive or any(one.activity.is_moving for one in alive):
        return []
    if not elsewhere and (found := mismatches(ranks, plan, world_size=world_size)):
        return found  # however short they have stood so: no rank can go on
    if not is_stalled(alive):
        return []
    if elsewhere:
        return [_behind(one, waiting, plan, world_size) for one in _absent(elsewhere, waiting)]
    is_missing = len(ranks) < world_size or any(state_of(one) == "ended" for one in ranks)
    return [] if is_missing else _stuck(waiting, plan, world_size)  # of a node that does not answer nothing is known


def is_stalled(ranks: Sequence[Seen], patience: float = _PATIENCE) -> bool:
    """Whether every rank has stood still for longer than its steps took before."""
    if any(one.activity.is_moving for one in ranks):
        return False
    quiet = min((one.activity.quiet_seconds or 0.0 for one in ranks), default=0.0)
    return quiet > patience * _usual_seconds(ranks) + _LEAST_QUIET_SECONDS


def _usual_seconds(ranks: Sequence[Seen]) -> float:
    """The second longest of the steps of a rank that are kept, of all ranks: the longest may be its preparation."""
    steps = [sorted(one.activity.step_seconds)[-2:] for one in ranks]
    return max((one[0] for one in steps if one), default=0.0)


def mismatches(ranks: Sequence[Seen], plan: Sequence[BenchmarkSpec], *, world_size: int) -> list[Incident]:
    """The ranks whose operation is not what the others do in its place; also of ranks that have ended by it."""
    found = mismatch_of(ranks, plan, world_size=world_size)
    if found is None:
        return []
    blamed = [one for one in ranks if one.rank in found.culprits]
    return [
        _incident(
            "collective-mismatch",
            found.text + _place_of(blamed[0]),
            blamed,
            explanation=explanation_of(ranks),
            confidence="certain" if found.is_certain else "likely",
            advice=_MISMATCH_ADVICE,
            step=step_text(blamed[0].position, plan, world_size),
        )
    ]


def _place_of(one: Seen) -> str:
    """The line of a rank's program that is in its operation; empty where only libraries are seen."""
    frames = decisive_frames(one.activity.stack)
    return f"; rank {one.rank} is at {frame_text(frames[0])}" if len(frames) > 1 else ""


def _absent(elsewhere: Sequence[Seen], waiting: Sequence[Seen]) -> list[Seen]:
    """Ranks that are in no operation. One that computes may be slow: it has to have done the same quicker before."""
    idle = [one for one in elsewhere if state_of(one) in ("asleep", "blocked", "stopped")]
    if idle or not waiting or not is_stalled([*elsewhere, *waiting], _BUSY_PATIENCE):
        return idle
    return [one for one in elsewhere if state_of(one) == "busy" and one.position.iteration + one.position.block > 0]


def _behind(one: Seen, waiting: Sequence[Seen], plan: Sequence[BenchmarkSpec], world_size: int) -> Incident:
    joining = one.position.phase == "joining the process group"
    kind: Kind = "init-hang" if joining else "rank-behind"
    awaited = [made for other in waiting if (made := waited_in(other.activity)) is not None]
    reason = f"the rank is {doing_text(one)}"
    if awaited:
        names = numbered("rank", [other.rank for other in waiting])
        reason += f"; {names} {'waits' if len(waiting) == 1 else 'wait'} for it in {operation_text(awaited[0])}"
    return _incident(
        kind,
        reason,
        [one],
        explanation=explanation_of([one, *waiting]),
        confidence="certain" if waiting and state_of(one) != "busy" else "likely",
        advice=_BLOCKED_ADVICE if state_of(one) == "blocked" else _LINE_ADVICE,
        step=step_text(one.position, plan, world_size),
    )


def _stuck(waiting: Sequence[Seen], plan: Sequence[BenchmarkSpec], world_size: int) -> list[Incident]:
    """All wait, and in what fits together."""
    inner = _innermost(waiting)
    operation = waited_in(inner[0].activity) if inner else None
    if operation is None or not is_stalled(waiting, _BUSY_PATIENCE):
        return []
    if operation.name == "device":  # without PyTorch's record, what is queued on a GPU is known by what it completed
        return behind([(one.node, one.position) for one in waiting], plan, world_size=world_size)
    reason = (
        f"all of them are inside {operation_text(operation)} and nobody is missing, but nothing moves: the network or "
        f"the communication library is stuck ({_use(inner)})"
    )
    return [
        _incident(
            "collective-stuck",
            reason,
            inner,
            explanation=explanation_of(waiting),
            confidence="likely",
            advice=_NETWORK_ADVICE,
            step=step_text(inner[0].position, plan, world_size),
        )
    ]


def _innermost(waiting: Sequence[Seen]) -> list[Seen]:
    """Ranks in the operation that has to end first: a transfer between two, else the earliest of the sequence."""
    inside = [(made, one) for one in waiting if (made := waited_in(one.activity)) is not None]
    transfers = [one for made, one in inside if is_transfer(made)]
    least = min((made.sequence for made, _ in inside), default=0)
    return transfers or [one for made, one in inside if made.sequence == least]


def _use(ranks: Sequence[Seen]) -> str:
    busy = [one.rank for one in ranks if not is_idle(one.activity)]
    idle = [one.rank for one in ranks if is_idle(one.activity)]
    texts = [f"{numbered('rank', busy)} {'uses' if len(busy) == 1 else 'use'} the processor"] if busy else []
    texts += [f"{numbered('rank', idle)} {'is' if len(idle) == 1 else 'are'} idle"] if idle else []
    return ", ".join(texts)


def _incident(
    kind: Kind,
    reason: str,
    blamed: Sequence[Seen],
    *,
    explanation: str,
    confidence: Confidence,
    advice: str,
    step: str,
) -> Incident:
    first, *others = blamed
    return Incident(
        kind=kind,
        reason=reason,
        rank=first.rank,
        node=first.node,
        others=tuple((one.rank, one.node) for one in others),
        step=step,
        explanation=explanation,
        confidence=confidence,
        quotes=quotes_of(blamed),
        advice=(advice,),
    )
