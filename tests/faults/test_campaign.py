"""The campaign itself: what counts as planted, and which exit codes it takes for right."""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults import __main__ as campaign
from tests.faults import plant
from tests.faults.campaign import cases
from tests.faults.chaos.agents import AGENT_FAULTS
from tests.faults.chaos.agents import complaints as of_agent
from tests.faults.chaos.hosts import HOST_FAULTS, HostFault
from tests.faults.chaos.hosts import complaints as of_host
from tests.faults.chaos.links import LINK_FAULTS
from tests.faults.chaos.links import complaints as of_link
from tests.faults.chaos.outcome import Ended, ended_well
from tests.faults.chaos.virtual import VIRTUAL_FAULTS, VirtualFault
from tests.faults.chaos.virtual import play as play_virtual
from tests.faults.judge import complaints
from tests.faults.plan import Fault, faults
from tests.lab.requirement import lab_available
from tests.lab.virtual.image import FOLDER_VARIABLE
from tests.measurements.process import LaunchError
from tests.measurements.ray_head import RayHead


@contextmanager
def no_head(**_: object) -> Iterator[RayHead]:
    raise LaunchError("ray start did not come up: no room")
    yield


def test_a_cluster_that_does_not_start_is_counted_as_not_planted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plant, "ray_head", no_head)
    monkeypatch.setattr(sys, "argv", ["faults", "--count", "2", "--tables", "processes", "--workloads", "joined"])
    assert campaign.main() == 1  # nothing was planted at all
    said = capsys.readouterr().out
    assert said.count("not planted: ray start did not come up: no room") == 2
    assert "0 planted" in said


STEPS = 1000  # of each trial of the campaign's study
Documents = list[dict[str, Any]]


def study_and_trials() -> Documents:
    """What a study of two trials leaves that measured all it was asked for."""
    runs = ("20261122-204705-ec40", "20261122-204718-25dc")
    point = {"samples_seconds": [0.01] * STEPS, "verified": True}
    trials = [{"variant": name, "status": "complete", "run": run} for name, run in zip("ab", runs, strict=True)]
    study = {"status": "complete", "order": [["a", "b"]], "trials": trials, "findings": []}
    results = [{"run_id": run, "status": "complete", "benchmarks": [{"points": [dict(point)]}]} for run in runs]
    return [study, *results]


def exits_wrongly(documents: Documents, status: int = 0, **planted: str) -> bool:
    what = {"workload": "study", "phase": "placing", "target": "gcs", "action": "SIGSTOP"} | planted
    fault = Fault(number=31, delay_seconds=0.1, **what)
    ending = plant.Ending(
        planted=True, seconds=9.0, status=status, text="", documents=tuple(documents), left_processes=(), left_files=(),
        samples_kept=True, report=True,
    )  # fmt: skip
    return any(one.startswith("EXIT") for one in complaints(fault, ending))


def test_a_daemon_that_stops_after_it_placed_the_ranks_may_do_no_harm() -> None:
    assert not exits_wrongly(study_and_trials(), status=0)
    assert not exits_wrongly(study_and_trials(), status=0, target="raylet 1", phase="joining")
    assert not exits_wrongly(study_and_trials(), status=3)


def _cut(documents: Documents) -> None:
    documents[1]["benchmarks"][0]["points"][0]["samples_seconds"].pop()


def _unverified(documents: Documents) -> None:
    documents[2]["benchmarks"][0]["points"][0]["verified"] = None


def _foreign(documents: Documents) -> None:
    documents[2]["run_id"] = documents[1]["run_id"]


UNPROVED: list[Callable[[Documents], object]] = [
    _cut,
    _unverified,
    _foreign,
    lambda documents: documents.pop(),  # a trial without a result
    lambda documents: documents.pop(0),  # no study
    lambda documents: documents[0].update(status="partial"),
    lambda documents: documents[0]["order"][0].append("c"),  # a trial that was never begun
    lambda documents: documents[1].update(status="partial"),
    lambda documents: documents[1].update(benchmarks=[]),
    lambda documents: documents.append({"torn": "result.json"}),
    lambda documents: documents.clear(),
]


@pytest.mark.parametrize("change", UNPROVED)
def test_a_zero_that_nothing_proves_is_a_wrong_exit_code(change: Callable[[Documents], object]) -> None:
    documents = copy.deepcopy(study_and_trials())
    change(documents)
    assert exits_wrongly(documents, status=0)


@pytest.mark.parametrize(
    "planted",
    [
        {"phase": "cluster"},  # nobody places ranks without a GCS
        {"action": "SIGKILL"},
        {"target": "rank 0"},
        {"target": "node_actor 1"},
        {"target": "rank_host"},
        {"target": "driver"},
    ],
)
def test_what_ranks_need_does_harm_whatever_a_result_says(planted: dict[str, str]) -> None:
    assert exits_wrongly(study_and_trials(), status=0, **planted)


def test_one_command_plants_each_row_of_the_tables_once_and_is_the_same_for_a_seed() -> None:
    drawn = cases(1, 122)
    assert [one.number for one in drawn] == list(range(1, 123))
    assert drawn == cases(1, 122) != cases(2, 122)
    rows = [one.fault for one in drawn if one.table != "processes"]
    assert sorted(map(repr, rows)) == sorted(map(repr, (*AGENT_FAULTS, *HOST_FAULTS, *LINK_FAULTS, *VIRTUAL_FAULTS)))
    assert {one.kind for one in drawn} >= {"agent", "sshd", "Ansible", "host", "disk", "link", "partition", "reboot"}
    alone = cases(1, 90, tables=["processes"])
    assert [one.delay_seconds for one in alone] == [one.delay_seconds for one in faults(1, 90)]


def test_no_row_with_a_culprit_is_content_with_a_run_that_ends_with_0() -> None:
    assert [one.what for one in LINK_FAULTS if one.rules and 0 in one.statuses] == []


HEALTHY: dict[str, Any] = {"hosts": [{"name": f"node{n}", "problems": [], "status": "complete"} for n in (1, 2, 3, 4)]}


@pytest.mark.parametrize(
    ("node", "why", "status", "complaint"),
    [
        ("node3", "Connection refused", 3, ""),
        ("node3", "it fell over", 3, "CULPRIT"),
        ("node3", "", 3, "CULPRIT"),
        ("node2", "Connection refused", 3, "BLAMED"),
        ("node3", "Connection refused", 0, "EXIT"),
        ("node3", "", 0, "EXIT"),
    ],
)
def test_a_host_is_named_with_its_reason_and_no_other(node: str, why: str, status: int, complaint: str) -> None:
    document = copy.deepcopy(HEALTHY)
    next(one for one in document["hosts"] if one["name"] == node)["problems"] = [why] if why else []
    fault = HostFault(kind="sshd", what="killed", command="collect", says="refused")
    ended = Ended(status=status, seconds=3.0, text="", document=document)
    said = [one.partition(":")[0] for one in of_host(fault, ended, ["node1", "node2", "node3", "node4"], "node3")]
    assert (complaint in said) if complaint else said == []


@pytest.mark.parametrize(
    ("rule", "host", "complaint"),
    [
        ("node-lost", "node3", ""),
        ("node-lost", "node2", "CULPRIT"),
        ("node-lost", "", "CULPRIT"),
        ("rank-died", "node3", "CULPRIT"),
    ],
)
def test_a_node_that_was_hit_is_named_and_no_other(rule: str, host: str, complaint: str) -> None:
    finding = {"rule": rule, "hosts": [host] if host else [], "severity": "critical", "summary": "lost"}
    ended = Ended(status=3, seconds=9.0, text="", document={"status": "partial", "findings": [finding]})
    said = [one.partition(":")[0] for one in of_link(LINK_FAULTS[0], ended, names=["node1", "node2"], node="node3")]
    assert (complaint in said) if complaint else said == []


def test_a_host_that_a_fault_only_slows_down_has_to_be_done() -> None:
    document = copy.deepcopy(HEALTHY)
    slow = HostFault(kind="host", what="login takes 2 s", command="collect", statuses=(0, 1))
    ended = Ended(status=1, seconds=3.0, text="", document=document)
    names = ["node1", "node2", "node3", "node4"]
    assert not list(of_host(slow, ended, names, "node3"))
    document["hosts"][2]["problems"] = ["no answer within 5 s"]
    assert [one.partition(":")[0] for one in of_host(slow, ended, names, "node3")] == ["NOT DONE"]


@pytest.mark.parametrize("prefix", ["", "(pid=71) ", "node3: "])
def test_a_stack_trace_is_seen_behind_whatever_its_line_begins_with(prefix: str) -> None:
    text = f"{prefix}Traceback (most recent call last):\n"
    ended = Ended(status=3, seconds=1.0, text=text)
    assert [one.partition(":")[0] for one in ended_well(ended, statuses=(3,), limit_seconds=9.0)] == ["TRACE"]


def test_what_an_agent_did_not_sample_is_said_and_no_point_is_missing() -> None:
    points = [{"verified": True}] * AGENT_FAULTS[0].points
    missing = {"rule": "agent-missing", "summary": "no agent watched node-1"}
    whole = {"status": "complete", "benchmarks": [{"points": points}], "findings": [missing]}
    for change, complaint in (({}, ""), ({"findings": []}, "CULPRIT"), ({"status": "partial"}, "RESULT")):
        ended = Ended(status=0, seconds=9.0, text="", document=whole | change)
        said = [one.partition(":")[0] for one in of_agent(AGENT_FAULTS[0], ended)]
        assert said == ([complaint] if complaint else [])


def test_a_row_that_needs_a_virtual_machine_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    outcome = play_virtual(VirtualFault(what="", command="top"), 0.0, 0)
    assert not outcome.planted
    assert outcome.skipped == lab_available() or FOLDER_VARIABLE in outcome.skipped
