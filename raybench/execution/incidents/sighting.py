"""What the processes of a run are seen to do, and who is at fault by that. Pure.

Only what is seen counts: a process that is stopped (state T of proc(5)) or has ended. One that is merely slow, or does
not answer, is never accused here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from raybench.execution.incidents.incident import Incident, Kind

Component = Literal["GCS", "raylet", "worker", "node actor", "rank host", "driver"]

STOPPED_SECONDS = 10.0  # as long as a node may be silent: a shorter pause of one process costs no run
_ENDED_SECONDS = 3.0  # the driver may see it by itself, and knows more of it
_ENDED_MEASURING_SECONDS = 14.0  # there it does, within ten

# Whose end explains whose: a daemon's the end of its workers, these the end of what they hold.
_CAUSE_FIRST: tuple[Component, ...] = ("GCS", "raylet", "rank host", "node actor", "worker", "driver")
_KINDS: dict[Component, Kind] = {
    "GCS": "cluster-lost",
    "raylet": "node-lost",
    "worker": "node-lost",
    "node actor": "node-lost",
    "rank host": "rank-host-lost",
    "driver": "driver-lost",
}
_OF_THIS_NODE = " of this node"
_WHAT: dict[Component, str] = {
    "GCS": "the GCS (gcs_server, the head of the Ray cluster)",
    "raylet": f"the raylet (Ray's daemon){_OF_THIS_NODE}",
    "worker": f"a Ray worker{_OF_THIS_NODE}",
    "node actor": f"the node actor (the Ray worker that holds the ranks){_OF_THIS_NODE}",
    "rank host": "the rank host (the process that holds the ranks)",
    "driver": "the driver (the process of raybench that talks to Ray)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A process of the run. ``state`` as in proc(5), X where it is gone; ``since``: when it was first seen so."""

    component: Component
    node: str | None
    pid: int
    state: str
    since: float
    ours: bool = True  # started for this run, and not of the cluster that it joined
    node_id: str | None = None  # of a raylet, as Ray has it

    @property
    def stopped(self) -> bool:
        """Whether somebody has stopped it."""
        return self.state in ("T", "t")

    @property
    def ended(self) -> bool:
        """Whether it is no more."""
        return self.state in ("X", "Z")


def with_missing_node(sightings: Sequence[Sighting], nodes: Sequence[str]) -> tuple[Sighting, ...]:
    """Of an embedded cluster of these nodes: a raylet that was never seen alive is of the one that nobody else is of.

    Its name stands in its command line, and of a process that has ended there is none.
    """
    raylets = [one for one in sightings if one.component == "raylet" and one.ours]
    missing = [name for name in nodes if all(one.node != name for one in raylets)]
    unnamed = [one for one in raylets if one.node is None]
    embedded = any(one.component == "GCS" and one.ours for one in sightings)
    if not embedded or len(missing) != 1 or len(unnamed) != 1:
        return tuple(sightings)
    return tuple(replace(one, node=missing[0]) if one is unnamed[0] else one for one in sightings)


def at_fault(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Those that are stopped or have ended, causes first; workers that serve nobody may end as they like."""
    seen = list(sightings)
    end = min((one.since for one in seen if one.component == "driver" and one.ended), default=math.inf)
    embedded = any(one.component == "GCS" and one.ours for one in seen)
    found = [one for one in seen if one.stopped or (one.ended and one.component != "worker")]
    found = [
        one for one in found if one.component != "rank host" or embedded
    ]  # of others the node actor tells, if it is used
    found = [one for one in found if one.since < end or one.component == "driver"]  # the others ended with the driver
    return sorted(found, key=lambda one: (_CAUSE_FIRST.index(one.component), one.since))


def overdue(sightings: Iterable[Sighting], now: float, *, measuring: bool) -> list[Sighting]:
    """Those at fault for so long that the run need not wait any more. While it measures an idle worker is nobody."""
    patience = _ENDED_MEASURING_SECONDS if measuring else _ENDED_SECONDS
    return [
        one
        for one in at_fault(sightings)
        if now - one.since >= (STOPPED_SECONDS if one.stopped else patience)
        and not (measuring and one.component == "worker")
    ]


def incident_of(sighting: Sighting, step: str | None) -> Incident:
    """What a process that is at fault means for the run."""
    what = _WHAT[sighting.component]
    if sighting.node is None:
        what = what.replace(_OF_THIS_NODE, " of a node that was still starting")
    return Incident(
        kind=_KINDS[sighting.component],
        reason=f"{what}, process {sighting.pid}, {_state_text(sighting)}",
        node=sighting.node,
        step=step,
        component=sighting.component,
    )


def _state_text(sighting: Sighting) -> str:
    if sighting.stopped:
        return "is stopped (SIGSTOP or a debugger); continue it with SIGCONT, or end it"
    return "has ended: it was killed, or it crashed ('dmesg' shows whether the kernel did it when memory ran out)"


def conclusion(
    incidents: Sequence[Incident],
    guilty: Sequence[Sighting],
    *,
    by_user: bool,
    error: str | None = None,
    unexplained: str | None = None,
    step: str | None = None,
) -> list[Incident]:
    """What went on record of a run that did not end by itself, the cause first.

    ``incidents`` are the driver's, ``error`` is what it raised, and ``unexplained`` says how it was ended where it said
    nothing. A run that the user ended was ended by the user. Else what is seen of processes explains what the driver
    says of them from afar.
    """
    if by_user:
        return list(incidents) or [Incident(kind="interrupted", reason="stopped by you", step=step)]
    known = [one for one in incidents if one.kind != "interrupted"]  # that was us, who asked the driver to end
    step = next((one.step for one in incidents if one.step), None) or step
    if error is not None and not known:
        known.append(Incident(kind="cluster-lost", reason=error))
    if guilty:
        return _explained(known, guilty, step)
    if unexplained is not None and not known:
        known.append(Incident(kind="driver-lost", reason=unexplained, step=step, component="driver"))
    return known


def _explained(incidents: Sequence[Incident], guilty: Sequence[Sighting], step: str | None) -> list[Incident]:
    """The incidents that processes prove, then the driver's: what it lost from afar are their victims."""
    first = guilty[0]
    proved = [incident_of(one, step) for one in guilty if (one.component, one.ended) == (first.component, first.ended)]
    afar = {"node-lost", "cluster-lost", "rank-host-lost"}
    return proved + [replace(one, kind="connection-lost") if one.kind in afar else one for one in incidents]
