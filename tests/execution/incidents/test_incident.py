"""Which of several reports is the cause, and who is to blame for a hang."""

from typing import Any

import pytest

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.incidents.incident import (
    Incident,
    Kind,
    behind,
    causes,
    culprits,
    failure_kind,
    first_cause,
    step_text,
)
from raybench.execution.incidents.investigation import Investigation
from raybench.execution.node_actors.messages import RankPosition
from raybench.execution.placement import Candidate, PlacementPlan

PLAN = (
    BenchmarkSpec(name="all_reduce", kind="collective", sizes=(1024, 2**20), reduce_op="sum"),
    BenchmarkSpec(name="p2p_matrix", kind="p2p", sizes=(4096,), dtype="int8"),
)

NODES = tuple(
    Candidate(node_id=f"id{index}", name=f"node{index}", address="127.0.0.1", gpu_count=0, cpu_count=1)
    for index in range(2)
)
PLACES = PlacementPlan(nodes=NODES, ranks_per_node=1, backend="gloo")


def at(
    rank: int,
    *,
    state: str = "S",
    phase: str = "timing",
    benchmark: int = 0,
    point: int = 0,
    block: int = 0,
    done: int = 0,
) -> tuple[str, RankPosition]:
    position = RankPosition(
        rank=rank, state=state, phase=phase, benchmark=benchmark, point=point, block=block, iteration=done
    )
    return f"node{rank}", position


def blamed(*positions: tuple[str, RankPosition], spoken: tuple[int, ...] = ()) -> list[tuple[str, int]]:
    found = culprits(positions, PLAN, spoken, world_size=2) or behind(positions, PLAN, world_size=2)
    return [(one.kind, one.rank) for one in found if one.rank is not None]


@pytest.mark.parametrize("state", ["T", "t"])
def test_a_stopped_rank_is_to_blame_though_others_are_behind_it(state: str) -> None:
    assert blamed(at(0, done=3), at(1, state=state, done=9), at(2, done=9)) == [("rank-stopped", 1)]


@pytest.mark.parametrize("state", ["X", "Z"])
def test_an_ended_rank_is_to_blame_unless_it_was_through_or_said_why(state: str) -> None:
    assert blamed(at(0), at(1, state=state)) == [("rank-died", 1)]
    assert blamed(at(0, phase="finished"), at(1, state=state, phase="finished")) == []
    assert blamed(at(0), at(1, state=state), spoken=(1,)) == []


@pytest.mark.parametrize("noticed", ["init-hang", "collective-stuck", "rank-behind", "connection-lost", "time-limit"])
@pytest.mark.parametrize(("state", "kind"), [("Z", "rank-died"), ("T", "rank-stopped")])
def test_a_rank_that_has_died_or_is_stopped_is_the_cause_whatever_was_noticed_first(
    noticed: Kind, state: str, kind: Kind
) -> None:
    joining = {"phase": "joining the process group"}
    positions = [at(0, state=state, **joining), at(1, **joining)]
    first = Incident(kind=noticed, reason="it waits in init_process_group", rank=1, node="node1")
    nobody: Any = None
    investigation = Investigation(actors=nobody, plan=PLACES, specs=PLAN)
    found = first_cause([first, *investigation.blamed([first], positions, [])])
    assert found is not None
    assert (found.kind, found.rank, found.step) == (kind, 0, "joining the process group")
    assert [(one.kind, one.rank) for one in investigation.missing(positions)] == [(kind, 0)]


def test_a_rank_that_said_why_it_ended_is_not_accused_of_having_died() -> None:
    failed = Incident(kind="rank-failed", reason="ValueError: no such model", rank=0, node="node0")
    nobody: Any = None
    investigation = Investigation(actors=nobody, plan=PLACES, specs=PLAN)
    assert investigation.blamed([failed], [at(0, state="Z"), at(1)], []) == []


@pytest.mark.parametrize(
    "behind",
    [
        at(2, done=4),
        at(2, block=0, done=17),
        at(2, phase="warming up", block=9, done=9),
        at(2, point=0, phase="verifying"),
        at(2, benchmark=0, point=1, block=4, done=9),
    ],
    ids=["iteration", "block", "phase", "size", "benchmark"],
)
def test_the_rank_that_has_done_less_is_behind(behind: tuple[str, RankPosition]) -> None:
    if behind[1].point == 1:
        rest = [at(rank, benchmark=1) for rank in (0, 1, 3)]
    elif behind[1].phase == "verifying":
        rest = [at(rank, point=1, phase="warming up") for rank in (0, 1, 3)]
    else:
        rest = [at(rank, block=1, done=5 if behind[1].block else 0) for rank in (0, 1, 3)]
        rest = [at(rank, block=0, done=5) for rank in (0, 1, 3)] if behind[1].iteration == 4 else rest
    assert blamed(*rest, behind) == [("rank-behind", 2)]


def test_a_rank_that_verifies_is_ahead_of_one_that_still_times() -> None:
    """Verifying starts its blocks and iterations from zero."""
    assert blamed(at(0, phase="verifying"), at(1, block=4, done=19), at(2, phase="verifying")) == [("rank-behind", 1)]


def test_nobody_is_behind_where_all_stand_alike_or_most_stand_back_or_all_move() -> None:
    assert blamed(at(0, done=4), at(1, done=4)) == []
    assert blamed(at(0, done=4), at(1, done=4), at(2, done=5)) == []
    assert blamed(at(0, done=4), at(1, done=4), at(2, done=5), at(3, done=5)) == [
        ("rank-behind", 0),
        ("rank-behind", 1),
    ]
    assert blamed() == []


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (at(0, block=2, done=16), "all_reduce float32 1K, timing, block 3, iteration 17"),
        (at(0, point=1, phase="verifying"), "all_reduce float32 1M, verifying"),
        (at(0, benchmark=1, point=3, phase="warming up"), "p2p_matrix int8 4K pass 4, warming up"),
        (at(0, phase="joining the process group"), "joining the process group"),
        (at(0, phase="not started"), "not started"),
        (at(0, benchmark=2, phase="finished"), "finished"),
    ],
)
def test_a_step_says_where_a_rank_was(position: tuple[str, RankPosition], text: str) -> None:
    assert step_text(position[1], PLAN, 2) == text


def incident(kind: Kind, rank: int | None = None, node: str | None = None) -> Incident:
    return Incident(kind=kind, reason=kind, rank=rank, node=node)


@pytest.mark.parametrize(
    ("cause", "victim"),
    [
        ("interrupted", "rank-died"),
        ("cluster-lost", "node-lost"),
        ("rank-stopped", "rank-died"),
        ("rank-stopped", "time-limit"),
        ("rank-died", "connection-lost"),
        ("collective-mismatch", "rank-died"),
        ("collective-mismatch", "time-limit"),
        ("init-hang", "time-limit"),
        ("collective-stuck", "time-limit"),
        ("node-lost", "connection-lost"),
        ("node-lost", "rank-behind"),
        ("rank-failed", "connection-lost"),
        ("rank-failed", "rank-behind"),
        ("rank-behind", "time-limit"),
        ("time-limit", "connection-lost"),
    ],
)
def test_a_cause_stands_before_its_victims_whoever_spoke_first(cause: Kind, victim: Kind) -> None:
    one, other = incident(cause, rank=1), incident(victim, rank=0)
    assert first_cause([one, other]) == first_cause([other, one]) == one


def test_nothing_has_no_cause() -> None:
    assert (first_cause([]), causes([])) == (None, [])


def test_several_of_one_kind_are_all_causes_and_each_once() -> None:
    first, second = incident("rank-died", rank=1, node="a"), incident("rank-died", rank=2, node="a")
    victim = incident("connection-lost", rank=0, node="b")
    assert causes([victim, first, second, first]) == [first, second]


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1234",
        "RuntimeError: [../unbound_buffer.cc:78] Timed out waiting 10000ms for recv operation to complete",
        "DistBackendError: NCCL error in: ... ncclRemoteError: A call failed possibly due to a network error",
        "DistNetworkError: The client socket has timed out after 60000ms",
        "DistStoreError: wait timeout after 60000ms",
        "ConnectionResetError: Connection reset by peer",
        "RuntimeError: Broken pipe",
    ],
)
def test_an_exception_about_a_connection_is_a_victims(error: str) -> None:
    assert failure_kind(error) == "connection-lost"


@pytest.mark.parametrize(
    "error",
    [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "AttributeError: ReduceOp has no attribute 'PROD'",
        "ValueError: the socket of another thing",
        "RuntimeError: shape '[3]' is invalid for input of size 4",
    ],
)
def test_any_other_exception_is_the_ranks_own(error: str) -> None:
    assert failure_kind(error) == "rank-failed"


def test_an_incident_reads_as_a_line_and_as_a_finding() -> None:
    whole = Incident(kind="rank-died", reason="killed", node="node2", rank=3, step="all_reduce float32 1K")
    assert whole.text() == "rank 3 on node node2: killed during all_reduce float32 1K"
    assert Incident(kind="interrupted", reason="stopped").text() == "stopped"
    finding = whole.to_finding()
    assert {"rule", "severity", "confidence", "summary", "ranks", "hosts", "step", "evidence"} <= set(finding.to_json())
    assert (finding.ranks, finding.hosts, finding.severity) == ((3,), ("node2",), "critical")
    assert incident("time-limit").to_finding().ranks == ()
    assert incident("rank-behind", rank=0).to_finding().confidence == "likely"
