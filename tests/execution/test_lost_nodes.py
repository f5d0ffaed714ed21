"""Heads and raylets that do not answer at their ports: who is named, and who is only slow."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from raybench.errors import ClusterUnavailableError
from raybench.execution.node_actors import node_actors
from raybench.execution.placement import Candidate, PlacementPlan
from raybench.execution.ray_cluster import ray_calls
from raybench.execution.ray_cluster.lost_nodes import LostNodesError, head_incident, raylet_problems
from raybench.execution.ray_cluster.ray_calls import HeadWatch
from tests.processes.waiting import come_true

SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # the frame with which a server of HTTP/2 answers


@contextlib.contextmanager
def server(*, answers: bool) -> Iterator[int]:
    """A port that takes connections, as the kernel does for a process that is stopped; or a gRPC server's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].sendall(SETTINGS)

        if answers:
            threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def node(name: str, port: int, address: str = "127.0.0.1") -> Candidate:
    return Candidate(node_id=name, name=name, address=address, gpu_count=0, cpu_count=1, port=port)


def test_raylets_that_have_ended_or_are_stopped_are_told_from_those_that_answer() -> None:
    with socket.socket() as held, server(answers=False) as mute, server(answers=True) as good:
        held.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        closed = held.getsockname()[1]
        nodes = [node("ended", closed), node("stopped", mute), node("good", good), node("unknown", 0)]
        found = raylet_problems(nodes, 3.0)
    assert sorted(found) == ["ended", "stopped"]
    assert "refused" in found["ended"]
    assert "says nothing" in found["stopped"]


def test_a_head_that_takes_connections_and_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"_PROBE_SECONDS": 0.2, "_GONE_SECONDS": 600.0, "_MUTE_SECONDS": 600.0}
    for name, seconds in limits.items():
        monkeypatch.setattr(ray_calls, name, seconds)
    with server(answers=False) as port, contextlib.closing(HeadWatch(f"127.0.0.1:{port}")) as watch:
        assert come_true(lambda: watch._problem)
        assert watch.problem(in_trouble=True) is None  # a pause costs no run
        monkeypatch.setattr(ray_calls, "_GONE_SECONDS", 0.5)
        assert come_true(lambda: watch.problem(in_trouble=True))
        assert watch.problem() is None  # a run that has no other trouble goes on
        monkeypatch.setattr(ray_calls, "_MUTE_SECONDS", 1.0)
        assert come_true(watch.problem)


def test_a_head_that_answers_is_not_lost_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"_PROBE_SECONDS": 0.2, "_GONE_SECONDS": 3.0, "_MUTE_SECONDS": 3.0}.items():
        monkeypatch.setattr(ray_calls, name, seconds)
    with server(answers=True) as port, contextlib.closing(HeadWatch(f"127.0.0.1:{port}")) as watch:
        began = watch._answered
        assert come_true(lambda: watch._answered > began + 3.2)
        assert (watch.problem(in_trouble=True), watch.problem()) == (None, None)


def test_each_node_that_is_lost_is_named_and_the_rank_host_that_all_share_is_none() -> None:
    error = LostNodesError(
        {"gpu-7": "its node actor did not start (no answer within 30 s)"}, phase="starting the node actors"
    )
    (incident,) = error.incidents(share_a_host=False)
    assert (incident.kind, incident.node, incident.step) == ("node-lost", "gpu-7", "starting the node actors")
    said = "raybench.execution.ranks.rank_host_process.RankHostError: the rank host, process 7, has ended"
    shared = LostNodesError({"node-1": said}, phase="reserving the port")
    assert [(one.kind, one.node) for one in shared.incidents(share_a_host=True)] == [("rank-host-lost", None)]
    assert [(one.kind, one.node) for one in shared.incidents(share_a_host=False)] == [("rank-host-lost", "node-1")]


class Waiting:
    """A placement group that is never placed."""

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return False


def test_a_node_that_is_lost_while_the_run_is_placed_is_named_and_one_that_is_only_taken_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"_COURTESY_SECONDS": 0.1, "PLACE_SECONDS": 1.0, "_PATIENCE_SECONDS": 0.2, "_RAYLET_SECONDS": 30.0}
    for name, seconds in limits.items():
        monkeypatch.setattr(node_actors, name, seconds)
    asked: list[set[str]] = []
    monkeypatch.setattr(
        node_actors, "end_idle_node_actors", asked.append
    )  # asks Ray, which starts a cluster where there is none
    with server(answers=True) as good, server(answers=False) as mute:
        taken = PlacementPlan(nodes=(node("a", good), node("b", good)), ranks_per_node=1, backend="gloo")
        with pytest.raises(ClusterUnavailableError, match="did not become free"):
            node_actors._wait_for(Waiting(), taken)
        monkeypatch.setattr(node_actors, "PLACE_SECONDS", 60.0)
        monkeypatch.setattr(node_actors, "_RAYLET_SECONDS", 2.0)
        lost = PlacementPlan(nodes=(node("a", good), node("b", mute)), ranks_per_node=1, backend="gloo")
        with pytest.raises(LostNodesError, match="1 node lost during placement: b: its raylet"):
            node_actors._wait_for(Waiting(), lost)
    assert asked == [{"a", "b"}] * 2


def test_the_node_of_a_lost_head_is_named_where_there_is_no_doubt() -> None:
    nodes = [node("a", 1, "192.0.2.1"), node("b", 1, "192.0.2.2")]
    found = head_incident("192.0.2.2:6379", "it says nothing", nodes, "placement")
    assert (found.kind, found.node, found.component) == ("cluster-lost", "b", "GCS")
    twice = [*nodes, node("c", 1, "192.0.2.2")]
    assert head_incident("192.0.2.2:6379", "it says nothing", twice, "placement").node is None
    assert "192.0.2.9:6379" in head_incident("192.0.2.9:6379", "it says nothing", nodes, None).reason


def fails() -> None:
    raise RuntimeError("the GCS\nis gone")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: None, None),
        (fails, "RuntimeError: the GCS is gone"),
        (lambda: time.sleep(5), "giving back took more than 0 s"),
    ],
)
def test_a_bounded_call_says_why_it_did_not_come_to_its_end(call: Callable[[], None], told: str | None) -> None:
    assert ray_calls.call_with_timeout(0.3, call, "giving back") == told
