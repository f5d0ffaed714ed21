"""Who is to blame: causes are told from victims, and a hang from the rank that the others wait for."""

import pytest

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.cluster.incident import Incident, causes, culprits, failure_kind, first_cause, step_text
from raybench.cluster.messages import RankPosition

PLAN = (
    BenchmarkSpec(name="all_reduce", kind="collective", sizes=(1024, 2**20)),
    BenchmarkSpec(name="p2p_matrix", kind="p2p", sizes=(2**20,)),
)


def at(
    rank: int, *, iteration: int = 5, block: int = 1, state: str = "S", phase: str = "timing"
) -> tuple[str, RankPosition]:
    position = RankPosition(rank=rank, state=state, phase=phase, benchmark=0, point=1, block=block, iteration=iteration)
    return f"node-{rank}", position


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:4711",
        "RuntimeError: [gloo/transport/tcp/pair.cc:553] Read error [10.0.0.2]:4711: Connection reset by peer",
        "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 20000ms for recv to complete",
        "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or network error",
        "DistNetworkError: The client socket has failed to connect to any network address",
        "ConnectionError: store is gone",
    ],
)
def test_a_lost_connection_is_a_victims_view(error: str) -> None:
    assert failure_kind(error) == "connection-lost"


@pytest.mark.parametrize(
    "error",
    [
        "TypeError: Encoding objects of type TorchVersion is unsupported",  # holds the letters of 'peer'
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "ZeroDivisionError: division by zero",
        "RuntimeError: shape '[3]' is invalid for input of size 4",
        "ValueError: the socket is not the problem here",
    ],
)
def test_other_errors_are_the_ranks_own(error: str) -> None:
    assert failure_kind(error) == "rank-failed"


def test_the_dead_rank_is_the_cause_and_its_peers_are_victims() -> None:
    victims = [Incident(kind="connection-lost", reason="closed", node=f"n{rank}", rank=rank) for rank in (0, 2)]
    dead = Incident(kind="rank-died", reason="SIGKILL", node="n1", rank=1)
    assert first_cause([victims[0], dead, victims[1]]) is dead
    assert causes([*victims, dead]) == [dead]


def test_two_ranks_that_died_are_both_causes() -> None:
    first = Incident(kind="rank-died", reason="SIGKILL", node="n1", rank=1)
    second = Incident(kind="rank-died", reason="SIGSEGV", node="n3", rank=3)
    assert causes([first, Incident(kind="time-limit", reason="over"), second, first]) == [first, second]


def test_without_trouble_there_is_no_cause() -> None:
    assert first_cause([]) is None
    assert causes([]) == []


def test_a_stopped_rank_is_to_blame_even_where_others_are_behind() -> None:
    (blamed,) = culprits([at(0), at(1, state="T", iteration=6), at(2, iteration=4)], PLAN)
    assert (blamed.kind, blamed.rank, blamed.node) == ("rank-stopped", 1, "node-1")
    assert blamed.step == "all_reduce float32 1M, timing, block 2, iteration 7"


def test_the_rank_that_has_done_least_is_waited_for() -> None:
    (blamed,) = culprits([at(0), at(1), at(2, block=0, iteration=49), at(3)], PLAN)
    assert (blamed.kind, blamed.rank) == ("rank-behind", 2)


def test_ranks_that_are_level_leave_nobody_to_blame() -> None:
    assert culprits([at(0), at(1), at(2)], PLAN) == []


def test_most_ranks_cannot_all_be_behind() -> None:
    assert culprits([at(0, iteration=4), at(1, iteration=4), at(2)], PLAN) == []


def test_an_ended_process_is_to_blame_unless_it_finished_or_said_why() -> None:
    ended = at(1, state="Z")
    assert [one.kind for one in culprits([at(0), ended], PLAN)] == ["rank-died"]
    assert culprits([at(0), at(1, state="Z", phase="finished")], PLAN) == []
    assert culprits([at(0), ended], PLAN, spoken={1}) == []


def test_steps_name_size_or_pass_and_phases_before_the_plan() -> None:
    position = RankPosition(rank=0, state="S", phase="warming up", benchmark=1, point=3, block=0, iteration=0)
    assert step_text(position, PLAN) == "p2p_matrix float32 pass 4, warming up"
    joining = RankPosition(
        rank=0, state="S", phase="joining the process group", benchmark=0, point=0, block=0, iteration=0
    )
    assert step_text(joining, PLAN) == "joining the process group"


def test_an_incident_reads_as_who_where_what() -> None:
    incident = Incident(kind="rank-died", reason="killed by SIGKILL", node="n1", rank=7, step="all_reduce float32 1M")
    assert incident.text() == "rank 7 on node n1: killed by SIGKILL during all_reduce float32 1M"
    finding = incident.to_finding()
    assert (finding["ranks"], finding["hosts"], finding["severity"]) == ([7], ["n1"], "critical")
