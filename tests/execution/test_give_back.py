"""Giving the nodes of a joined cluster back: what went wrong is told, and nobody waits for a head that has gone."""

from types import SimpleNamespace
from typing import Any

import pytest

from raybench.config import RunConfig
from raybench.execution.incidents.incident import Incident, Kind
from raybench.execution.record import RunRecord
from raybench.execution.run import Run


class Channel:
    """What a run says at its end."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        """Kept."""
        self.said.append(text)

    def keep(self, record: RunRecord) -> None:
        """The record, with what ended the run."""
        assert record.incidents

    def end(self) -> None:
        """Kept."""
        self.said.append("through")


def given_back(*, problem: str | None = None, kind: Kind | None = None, emulated: bool = False) -> list[str]:
    channel = Channel()
    incidents = [Incident(kind=kind, reason="it is over")] if kind else []
    record = RunRecord(config=RunConfig(), run_id="a", incidents=incidents)
    run: Any = Run(record=record, channel=channel, interrupt=None, workplace=None)
    run._give_back(SimpleNamespace(close=lambda: problem), SimpleNamespace(emulated=emulated))
    return channel.said


def test_without_a_head_the_run_is_through_once_its_node_actors_have_ended() -> None:
    assert given_back(kind="cluster-lost") == ["through"]


@pytest.mark.parametrize(
    ("kind", "emulated"), [(None, False), ("time-limit", False), ("node-lost", False), ("cluster-lost", True)]
)
def test_a_cluster_that_answers_and_one_of_our_own_are_left_in_order(kind: Kind | None, emulated: bool) -> None:
    assert given_back(kind=kind, emulated=emulated) == []


def test_nodes_that_cannot_be_given_back_are_told_where_nothing_else_explains_it() -> None:
    (said,) = given_back(problem="giving back the nodes took more than 6 s")
    assert said.startswith("WARNING: the nodes could not be given back (giving back the nodes took more than 6 s)")
    assert given_back(problem="too long", emulated=True) == []
    assert given_back(problem="too long", kind="node-lost") == []
