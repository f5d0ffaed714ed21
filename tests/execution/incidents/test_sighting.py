"""Who is at fault by what the run's processes are seen to do, and who is not."""

from dataclasses import replace

import pytest

from raybench.execution.decision import Situation, decide
from raybench.execution.incidents.incident import Incident, causes
from raybench.execution.incidents.process_watch import component_of, is_of_cluster, node_of
from raybench.execution.incidents.sighting import (
    Component,
    Sighting,
    at_fault,
    conclusion,
    incident_of,
    overdue,
    with_missing_node,
)


def seen(component: Component, state: str, *, since: float = 0.0, node: str | None = None) -> Sighting:
    return Sighting(component=component, node=node, pid=100, state=state, since=since)


HEALTHY = [
    seen("driver", "S"),
    seen("GCS", "S"),
    seen("raylet", "R", node="node-1"),
    seen("raylet", "D", node="node-2"),
    seen("rank host", "S"),
]


NAMES = ["node-1", "node-2", "node-3"]


@pytest.mark.parametrize(
    ("sightings", "node"),
    [
        ([*HEALTHY, seen("raylet", "Z")], "node-3"),
        ([*HEALTHY[:3], seen("raylet", "Z")], None),  # node-3 may not have started yet
        ([*HEALTHY[:3], seen("raylet", "Z"), seen("raylet", "X")], None),  # two names, and nobody knows whose
        ([*HEALTHY, seen("raylet", "S", node="node-3"), seen("raylet", "Z")], None),  # no name is left
        ([replace(one, ours=False) for one in [*HEALTHY, seen("raylet", "Z")]], None),  # of a cluster that was joined
    ],
)
def test_a_raylet_that_was_never_seen_alive_is_of_the_node_that_no_other_is_of(
    sightings: list[Sighting], node: str | None
) -> None:
    named = with_missing_node(sightings, NAMES)
    found = next(one for one in named if one.component == "raylet" and one.ended)
    assert found.node == node
    assert [one for one in named if not one.ended] == [one for one in sightings if not one.ended]
    said = incident_of(found, None)
    assert said.node == node
    assert ("of this node" in said.reason) == (node is not None)  # which one, where no node is named?


def test_processes_that_run_sleep_or_wait_for_a_disk_are_never_at_fault() -> None:
    assert at_fault(HEALTHY) == []


@pytest.mark.parametrize("state", ["T", "X", "Z"])
def test_a_daemon_that_is_stopped_or_has_ended_is(state: str) -> None:
    raylet = seen("raylet", state, node="node-2")
    assert at_fault([*HEALTHY, raylet]) == [raylet]


def test_the_cause_comes_before_what_follows_from_it() -> None:
    actor, raylet = seen("node actor", "X", node="node-1"), seen("raylet", "X", since=0.5, node="node-1")
    assert at_fault([*HEALTHY, actor, raylet]) == [raylet, actor]


def test_what_ends_with_the_driver_is_not_why_the_driver_ended() -> None:
    driver = seen("driver", "Z", since=5.0)
    daemons = [seen("GCS", "X", since=5.0), seen("raylet", "X", since=6.0, node="node-1")]
    assert at_fault([driver, *daemons]) == [driver]
    before = seen("raylet", "X", since=4.0, node="node-1")
    assert at_fault([driver, before, seen("GCS", "S")])[0] == before


def test_an_idle_worker_may_end_and_an_unused_rank_host_too() -> None:
    assert at_fault([*HEALTHY, seen("worker", "X", node="node-1")]) == []
    theirs = replace(
        seen("GCS", "S"), ours=False
    )  # of a joined cluster the node actor tells of the rank host, if it has it
    assert at_fault([seen("driver", "S"), theirs, seen("rank host", "X")]) == []


@pytest.mark.parametrize(
    ("one", "measuring", "seconds"),
    [
        (seen("raylet", "T", node="node-1"), False, 10.0),
        (seen("raylet", "T", node="node-1"), True, 10.0),
        (seen("raylet", "X", node="node-1"), False, 3.0),
        (seen("raylet", "X", node="node-1"), True, 14.0),
        (seen("worker", "T", node="node-1"), False, 10.0),
    ],
)
def test_a_pause_is_forgiven_and_then_no_more(one: Sighting, measuring: bool, seconds: float) -> None:
    sightings = [seen("GCS", "S"), one]
    assert overdue(sightings, seconds - 0.1, measuring=measuring) == []
    assert overdue(sightings, seconds, measuring=measuring) == [one]


def test_a_stopped_worker_that_serves_nobody_ends_no_run_that_measures() -> None:
    assert overdue([seen("worker", "T", node="node-1")], 100.0, measuring=True) == []


def test_a_process_that_was_seen_explains_what_the_driver_says_from_afar() -> None:
    said = [
        Incident(kind="node-lost", node="node-1", reason="silent", step="all_reduce float32 1M"),
        Incident(kind="node-lost", node="node-2", reason="silent", step="all_reduce float32 1M"),
    ]
    (blamed,) = causes(conclusion(said, [seen("raylet", "T", node="node-2")], by_user=False))
    assert (blamed.kind, blamed.node, blamed.component) == ("node-lost", "node-2", "raylet")
    assert "raylet" in blamed.reason
    assert "stopped" in blamed.reason
    assert blamed.step == "all_reduce float32 1M"


def test_no_healthy_node_is_dropped_for_a_rank_host_that_all_share() -> None:
    said = [Incident(kind="node-lost", node=f"node-{number}", reason="silent") for number in (1, 2, 3)]
    found = conclusion(said, [seen("rank host", "T")], by_user=False)
    assert (found[0].kind, found[0].node) == ("rank-host-lost", None)
    assert not [one for one in found if one.kind == "node-lost"]


def test_a_cluster_that_was_not_joined_is_explained_by_the_daemon_that_died() -> None:
    found = conclusion([], [seen("GCS", "X")], by_user=False, error="Timed out waiting for file", step="placement")
    assert [(one.kind, one.component) for one in causes(found)] == [("cluster-lost", "GCS")]
    assert found[0].step == "placement"
    assert any("Timed out" in one.reason for one in found)


def test_where_nobody_was_seen_the_word_of_the_driver_stands() -> None:
    (found,) = conclusion([], [], by_user=False, error="no port for the rendezvous")
    assert (found.kind, found.component, found.reason) == ("cluster-lost", None, "no port for the rendezvous")


def test_a_run_that_its_user_ended_was_ended_by_its_user() -> None:
    for said in ([], [Incident(kind="interrupted", reason="stopped by you")]):
        (found,) = conclusion(said, [seen("raylet", "T", node="node-2")], by_user=True)
        assert (found.kind, found.node) == ("interrupted", None)


def test_that_we_asked_the_driver_to_end_is_nobodys_interrupt() -> None:
    asked = [Incident(kind="interrupted", reason="stopped by you", step="all_reduce float32 1M")]
    (found,) = conclusion(asked, [seen("GCS", "T")], by_user=False)
    assert (found.component, found.step) == ("GCS", "all_reduce float32 1M")


@pytest.mark.parametrize(
    ("situation", "verdict"),
    [
        (Situation(), "wait"),
        (Situation(silent=60.0), "wait"),  # Ray has the lock: that alone is no fault
        (Situation(over=3.0), "wait"),  # the driver keeps its limits itself
        (Situation(over=10.5), "kill"),
        (Situation(over=4.5, silent=5.0), "kill"),
        (Situation(signals=1), "ask"),
        (Situation(signals=1, silent=60.0), "ask"),
        (Situation(signals=2), "kill"),
        (Situation(signals=2, asked=0.1), "kill"),
        (Situation(suspects=True), "ask"),
        (Situation(suspects=True, leaving=True), "wait"),  # all is brought home
        (Situation(suspects=True, deaf=True), "kill"),  # a stopped driver cannot do as it is asked
        (Situation(suspects=True, deaf=True, leaving=True), "wait"),
        (Situation(signals=1, asked=1.0), "wait"),
        (Situation(signals=1, asked=5.0, silent=5.0), "kill"),  # it cannot hear
        (Situation(signals=1, asked=12.5), "kill"),
        (Situation(suspects=True, asked=2.0, leaving=True), "kill"),
        (Situation(suspects=True, asked=2.0), "wait"),
        (Situation(headless=True), "ask"),
        (Situation(headless=True, leaving=True), "wait"),
        (Situation(headless=True, asked=2.0, leaving=True), "wait"),  # node actors are told to end
    ],
)
def test_what_is_done(situation: Situation, verdict: str) -> None:
    assert decide(situation) == verdict


@pytest.mark.parametrize(
    ("command", "parent", "component"),
    [
        (["/x/ray/core/src/ray/gcs/gcs_server", "--log_dir=/tmp"], "driver", "GCS"),
        (["/x/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=/t/r0"], "driver", "raylet"),
        (["/x/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=/t/r0"], "raylet", "worker"),  # not yet exec'd
        (["ray::RayNodeActor.poll   "], "raylet", "node actor"),
        (["ray::IDLE"], "raylet", "worker"),
        (["python", "/x/ray/_private/workers/default_worker.py", "--node-ip-address=1"], "raylet", "worker"),
        (["python", "-P", "-m", "raybench.execution.ranks.rank_host", "/t/ranks"], None, "rank host"),
        (["python", "-P", "-m", "raybench.execution.ranks.rank_host", "/t/ranks"], "rank host", None),  # a rank
        (["/usr/bin/cat"], "raylet", None),
        ([], None, None),
    ],
)
def test_what_a_process_is(command: list[str], parent: Component | None, component: Component | None) -> None:
    assert component_of(command, parent) == component


@pytest.mark.parametrize(
    ("words", "node"),
    [
        (["raylet", "--node_ip_address=192.0.2.7", "--node-name=node-2"], "node-2"),
        (["raylet", "--node_ip_address=192.0.2.7"], "192.0.2.7"),
        (["raylet"], None),
    ],
)
def test_the_node_of_a_raylet(words: list[str], node: str | None) -> None:
    assert node_of(words) == node


@pytest.mark.parametrize(
    ("command", "belongs"),
    [
        (["/x/gcs_server", "--gcs_server_port=6379"], True),
        (["/x/gcs_server", "--gcs_server_port=6380"], False),
        (["/x/gcs_server", "--gcs_server_port=6379", "--node-ip-address=192.0.2.1"], True),
        (["/x/gcs_server", "--gcs_server_port=6379", "--node-ip-address=192.0.2.7"], False),  # another
        (["/x/raylet", "--python_worker_command=python x --gcs-address=192.0.2.1:6379 --webui=None"], True),
        (["/x/raylet", "--python_worker_command=python x --gcs-address=192.0.2.1:63790"], False),
    ],
)
def test_the_daemons_of_the_cluster_that_is_joined(command: list[str], belongs: bool) -> None:
    assert is_of_cluster(command, "192.0.2.1:6379") == belongs


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "head"])
def test_a_head_may_be_named_otherwise_than_it_names_itself(host: str) -> None:
    assert is_of_cluster(["/x/gcs_server", "--gcs_server_port=6379", "--node-ip-address=192.0.2.7"], f"{host}:6379")


def test_a_daemon_that_has_ended_is_of_no_cluster() -> None:
    assert not is_of_cluster([], "127.0.0.1:6379")  # as psutil gives the command line of a zombie
