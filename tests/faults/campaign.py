"""The cases of a campaign, drawn from a seed: faults of processes at random, and every row of the tables of chaos."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.faults.chaos.agents import AGENT_FAULTS, AgentFault
from tests.faults.chaos.agents import play as play_agent
from tests.faults.chaos.hosts import HOST_FAULTS, HostFault
from tests.faults.chaos.hosts import play as play_host
from tests.faults.chaos.links import LINK_FAULTS, LinkFault
from tests.faults.chaos.links import play as play_link
from tests.faults.chaos.outcome import Outcome
from tests.faults.chaos.virtual import VIRTUAL_FAULTS, VirtualFault
from tests.faults.chaos.virtual import play as play_virtual
from tests.faults.commands import WORKLOADS
from tests.faults.judge import complaints
from tests.faults.plan import Fault, faults
from tests.faults.plant import Ending, plant

AnyFault = Fault | AgentFault | HostFault | LinkFault | VirtualFault
PROCESSES = "processes"
_LONGEST_DELAY_SECONDS = 1.5
_TABLES: Mapping[str, Sequence[AgentFault | HostFault | LinkFault | VirtualFault]] = {
    "agents": AGENT_FAULTS,
    "hosts": HOST_FAULTS,
    "links": LINK_FAULTS,
    "machines": VIRTUAL_FAULTS,
}
TABLES = (PROCESSES, *_TABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault with its number. ``pick`` draws the node that it is for."""

    number: int
    table: str
    fault: AnyFault
    delay_seconds: float
    pick: int = 0

    @property
    def kind(self) -> str:
        """What the table of results counts it as."""
        if isinstance(self.fault, Fault):
            return f"{self.fault.target.partition(' ')[0]} {self.fault.action}"
        return self.fault.kind

    @property
    def what(self) -> str:
        """The fault in a few words."""
        if isinstance(self.fault, Fault):
            return f"{self.fault.phase:9} {self.fault.target:12} {self.fault.action}"
        return f"{self.fault.kind}: {self.fault.what}"

    @property
    def workload(self) -> str:
        """The command that it is planted into."""
        return self.fault.workload


def cases(
    seed: int, count: int, *, tables: Sequence[str] = TABLES, workloads: Sequence[str] = tuple(WORKLOADS)
) -> list[Case]:
    """So many cases: each row of the tables once, what is left of ``count`` faults of processes, in random order."""
    draw = random.Random(seed)
    found = [
        Case(
            number=0,
            table=name,
            fault=row,
            delay_seconds=round(draw.uniform(0, _LONGEST_DELAY_SECONDS), 3),
            pick=draw.randrange(1000),
        )
        for name, rows in _TABLES.items()
        if name in tables
        for row in rows
    ]
    mixed = bool(found)
    if PROCESSES in tables:
        drawn = faults(seed, max(count - len(found), 0), workloads)
        found += [Case(number=0, table=PROCESSES, fault=one, delay_seconds=one.delay_seconds) for one in drawn]
    if mixed:
        draw.shuffle(found)
    return [replace(one, number=number) for number, one in enumerate(found[:count], 1)]


def play(case: Case) -> Outcome:
    """Do it, and judge how the command ended."""
    fault = case.fault
    if isinstance(fault, Fault):
        ending = plant(fault)
        return Outcome(
            planted=ending.planted,
            skipped=_not_started(ending),
            status=ending.status,
            seconds=ending.seconds,
            text=ending.text,
            complaints=tuple(complaints(fault, ending)) if ending.planted else (),
        )
    players: Mapping[type, Callable[..., Outcome]] = {
        AgentFault: play_agent,
        HostFault: play_host,
        LinkFault: play_link,
        VirtualFault: play_virtual,
    }
    return players[type(fault)](fault, case.delay_seconds, case.pick)


def _not_started(ending: Ending) -> str:
    """Why the command was never begun; empty where it was."""
    return " ".join(ending.text.split())[:300] if ending.status is None and not ending.planted else ""
