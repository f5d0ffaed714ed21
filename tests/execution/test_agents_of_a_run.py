"""The agents of a run in its account: those that say nothing while ranks do, and those that nobody started."""

import pytest

from diagnostics.agent.messages import Clock, Reading, encode
from raybench.config import RunConfig
from raybench.execution.account import Account
from raybench.execution.driver_channel import AgentPiece, ClockRead, Heard
from raybench.execution.record import RunRecord
from tests.execution.test_rank_assignments import planned


def account(*, agent: bool = True) -> Account:
    record = RunRecord(config=RunConfig(agent=agent), run_id="20261123-031551-af6d", clock=1000.0)
    record.planned = planned()
    return Account(record=record)


@pytest.mark.parametrize(("agent", "seconds", "missing"), [(True, 60.0, 2), (True, 5.0, 0), (False, 60.0, 0)])
def test_machines_that_nobody_watched_are_said(agent: bool, seconds: float, missing: int) -> None:
    heard = account(agent=agent)
    heard.events = [Heard(launch=0, data=b"", at=at) for at in (1001.0, 1001.0 + seconds)]
    found = heard._silent_agents()
    assert [one.rule for one in found] == ["agent-missing"] * missing
    assert all("it has said nothing at all" in one.summary for one in found)


def test_the_clock_of_another_machine_is_known_to_half_of_a_round_trip() -> None:
    heard = account()
    name = heard.record.need().machines[1].name
    line = encode(Clock(wall_seconds=1.8e9, monotonic_seconds=7.0, host=name, interval_seconds=1.0))
    reading = encode(Reading(monotonic_seconds=7.0, source="host", values={"host/cpu/busy_seconds": 1.0}))
    heard.take(ClockRead(node=1, asked_seconds=1010.0, there_seconds=8.0, answered_seconds=1010.004))
    heard.hear_agent(AgentPiece(node=1, data=f"{line}\n{reading}\n".encode()))
    samples = heard.samples.samples()
    assert samples is not None
    (clock,) = [one.clock for one in samples.nodes]
    assert clock.bound_seconds == pytest.approx(0.002)
    assert clock.offset_seconds == pytest.approx(2.002)  # 1010.002 of ours at 8.0 of its own; the run began at 1000


def test_what_comes_of_a_node_that_the_run_has_not_is_nobodys_word() -> None:
    assert account().hear_agent(AgentPiece(node=7, data=b"x\n")) == []


def test_another_node_of_a_machine_does_not_speak_for_it() -> None:
    """Only the first was told to start an agent: what a second says, it has made up."""
    heard = account()
    heard.record.planned = planned(emulated=True, facts=[{"hostname": "vm"}, {"hostname": "vm"}])
    (machine,) = heard.record.need().machines
    line = encode(Clock(wall_seconds=1.8e9, monotonic_seconds=7.0, host="vm", interval_seconds=1.0))
    reading = encode(Reading(monotonic_seconds=7.0, source="host", values={"host/cpu/cores": 2.0}))
    pieces = f"{line}\n{reading}\n".encode()
    assert heard.hear_agent(AgentPiece(node=1, data=pieces)) == []
    heard.take(ClockRead(node=1, asked_seconds=1010.0, there_seconds=8.0, answered_seconds=1010.004))
    assert heard.samples.samples() is None
    assert heard.agents == {}
    heard.hear_agent(AgentPiece(node=0, data=pieces))
    samples = heard.samples.samples()
    assert samples is not None
    assert [node.name for node in samples.nodes] == [machine.name]


def test_what_comes_before_the_facts_of_the_nodes_waits_for_the_next() -> None:
    """A snapshot may hold the plan without them: which nodes share a machine is not known then."""
    heard = account()
    facts, heard.record.need().facts = heard.record.need().facts, []
    read = ClockRead(node=1, asked_seconds=1010.0, there_seconds=8.0, answered_seconds=1010.004)
    heard.take(read)
    assert heard.hear_agent(AgentPiece(node=1, data=b"x\n")) == []
    assert heard.agents == {}
    heard.record.need().facts = facts
    heard.take(read)
    assert list(heard.agents) == [1]
