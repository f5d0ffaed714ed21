"""Which rank is slow by itself, and what a run says of it."""

import random

import pytest
from msgspec.structs import replace

from raybench.documents.run.result import RunResult
from raybench.peers.findings import with_peers
from raybench.peers.isolation.suspect import suspects_of
from raybench.peers.own_speed import judge_speed
from tests.peers.sample import matrix, own_times
from tests.reports.sample import cluster, pairs, point, run_result, sweep


@pytest.mark.parametrize("ranks", [2, 4, 16])
@pytest.mark.parametrize("seed", range(10))
def test_ranks_alike_accuse_nobody(ranks: int, seed: int) -> None:
    assert judge_speed(own_times(ranks, seed=seed), emulated=True).slow == ()
    assert judge_speed(own_times(ranks, seed=seed, noise=0.02), emulated=False).slow == ()


@pytest.mark.parametrize("ranks", [2, 4, 16])
@pytest.mark.parametrize("seed", range(10))
def test_a_rank_that_runs_half_of_the_time_is_named(ranks: int, seed: int) -> None:
    judgement = judge_speed(own_times(ranks, {1: 0.5}, seed=seed), emulated=True)
    assert [(one.rank, one.severity) for one in judgement.slow] == [(1, "critical")]


def test_two_slow_ranks_of_sixteen_are_both_named() -> None:
    judgement = judge_speed(own_times(16, {3: 0.4, 9: 0.5}), emulated=False)
    assert sorted(one.rank for one in judgement.slow) == [3, 9]


def test_one_long_stall_names_nobody() -> None:
    times = own_times(4)
    times[2][7] += 3.0
    assert judge_speed(times, emulated=False).slow == ()


def test_slightly_slow_is_a_warning_on_machines_of_their_own_and_nothing_on_emulated_ones() -> None:
    times = own_times(4, noise=0.01)
    times[2] = [seconds * 1.15 for seconds in times[2]]
    assert [(one.rank, one.severity) for one in judge_speed(times, emulated=False).slow] == [(2, "warning")]
    assert judge_speed(times, emulated=True).slow == ()


def test_few_samples_and_one_rank_are_not_judged() -> None:
    assert judge_speed(own_times(4, count=9), emulated=False).not_judged is not None
    assert judge_speed(own_times(1), emulated=False).not_judged == "one rank alone"


def run_of(times: dict[int, list[float]], *, emulated: bool = True) -> RunResult:
    where = cluster(4, 1, emulated=emulated, backend="gloo")
    rows = tuple(tuple(times[rank]) for rank in sorted(times))
    return run_result(sweep(points=(point(own_seconds=rows),)), cluster=where)


def test_the_run_says_so_and_ends_with_1() -> None:
    judged = with_peers(run_of(own_times(4, {2: 0.55})))
    (finding,) = judged.findings
    assert (finding.rule, finding.ranks, finding.hosts) == ("slow-rank", (2,), ("node-2",))
    assert finding.summary.startswith("rank 2 (node-2) works at 0.")
    assert finding.summary.endswith("(emulated)")
    assert (judged.conclusion.verdict, judged.conclusion.exit_code) == ("critical", 1)
    assert "(emulated)" not in str(with_peers(run_of(own_times(4, {2: 0.55}), emulated=False)).findings)


@pytest.mark.parametrize(
    ("processors", "wait", "verdict"),
    [(2, "counted", "critical"), (2, "not counted", "warning"), (2, None, "warning"), (4, None, "critical")],
)
def test_a_crowd_excuses_a_slow_rank_only_where_its_waiting_is_not_counted(
    processors: int, wait: str | None, verdict: str
) -> None:
    judged = with_peers(crowded(run_of(own_times(4, {2: 0.55})), processors, wait))
    assert judged.findings[0].ranks == (2,)
    assert judged.conclusion.verdict == verdict
    assert ("share this machine's processors" in judged.findings[0].summary) == (verdict == "warning")


def test_slow_pairs_of_a_crowd_are_worth_a_warning() -> None:
    points = tuple(matrix(4, 1, lambda pair: 0.55 if 1 in pair else 1.0))
    run = run_result(pairs(points=points), cluster=cluster(4, 1, emulated=True))
    assert with_peers(crowded(run, 2, "counted")).conclusion.verdict == "warning"
    assert with_peers(crowded(run, 4, "counted")).conclusion.verdict == "critical"


def crowded(run: RunResult, processors: int, wait: str | None) -> RunResult:
    """The run on a machine of so many processors, whose kernel counts what waits for one or does not."""
    nodes = tuple(
        replace(
            node,
            facts={
                **node.facts,
                "cpu_count": processors,
                "ranks": {str(rank): {"processor_wait": wait} if wait else {} for rank in node.ranks},
            },
        )
        for node in run.cluster.nodes
    )
    return replace(run, cluster=replace(run.cluster, nodes=nodes))


def test_a_clean_run_says_what_was_compared() -> None:
    judged = with_peers(run_of(own_times(4)))
    assert (judged.conclusion.verdict, judged.conclusion.reason) == ("ok", "data verified, ranks alike, no finding")


def test_a_slow_pair_matrix_is_a_finding_of_the_run() -> None:
    points = tuple(matrix(4, 1, lambda pair: 0.55 if 1 in pair else 1.0))
    judged = with_peers(run_result(pairs(points=points), cluster=cluster(4, 1)))
    assert [finding.rule for finding in judged.findings] == ["slow-node"]
    assert "node node-1 reaches 0.55 of its peers' bandwidth between nodes" in judged.conclusion.reason
    assert judged.conclusion.exit_code == 1


def test_a_slow_path_that_noise_hides_leaves_the_verdict_unknown() -> None:
    noisy = {"noise": 0.4, "common": 0.3, "seed": 1}
    slow = tuple(matrix(4, 2, lambda pair: 0.1 if set(pair) == {0, 2} else 1.0, **noisy))
    for points, verdict in ((slow, ("unknown", 3)), (tuple(matrix(4, 2, **noisy)), ("ok", 0))):
        judged = with_peers(run_result(pairs(points=points), cluster=cluster(4, 2)))
        assert (judged.conclusion.verdict, judged.exit_code) == verdict
        assert "pairs not compared (healthy pairs differ among themselves too much" in judged.conclusion.reason
        again = RunResult.of_json(judged.to_json(), "here")
        assert again.conclusion == judged.conclusion
        assert again.checks[-1].undecided == (verdict == ("unknown", 3))
        open_nodes = ["node-0", "node-1"] if verdict == ("unknown", 3) else []
        assert [one.node for one in suspects_of(again)] == open_nodes  # for --isolate
    emulated = with_peers(run_result(pairs(points=slow), cluster=cluster(4, 2, emulated=True)))
    assert emulated.conclusion.verdict == "ok"


def test_what_the_rank_itself_explains_is_said_once() -> None:
    points = tuple(matrix(4, 1, lambda pair: 0.55 if 1 in pair else 1.0))
    own = run_of(own_times(4, {1: 0.5})).benchmarks
    judged = with_peers(run_result(*own, pairs(points=points), cluster=cluster(4, 1)))
    assert [finding.rule for finding in judged.findings] == ["slow-rank"]


def restless(slow: float = 1.0, *, until: int = 60, seed: int = 1) -> dict[int, list[float]]:
    """Four ranks that all stand still now and then, for ten times what a piece of work takes."""
    source = random.Random(seed)
    times = {rank: [1 + (source.random() < 0.1) * source.expovariate(0.1) for _ in range(60)] for rank in range(4)}
    times[2] = [one * (slow if place < until else 1) for place, one in enumerate(times[2])]
    return times


def test_a_rank_that_is_far_slower_among_restless_ones_leaves_the_verdict_unknown() -> None:
    judgement = judge_speed(restless(3.0, seed=4), emulated=False)
    assert judgement.slow == ()
    assert judgement.undecided
    assert "rank 2 reached 0." in str(judgement.not_judged)
    judged = with_peers(run_of(restless(3.0, seed=4)))
    assert judged.conclusion.verdict == "ok"  # of emulated nodes, whose ranks share processors
    judged = with_peers(run_of(restless(3.0, seed=4), emulated=False))
    assert (judged.conclusion.verdict, judged.exit_code) == ("unknown", 3)
    assert [(one.node, one.rules) for one in suspects_of(judged)] == [("node-2", ("slow-rank",))]
    again = RunResult.of_json(judged.to_json(), "here")
    assert again.conclusion == judged.conclusion


@pytest.mark.parametrize("until", [0, 20])
def test_restless_ranks_alone_or_slow_for_a_while_leave_nothing_open(until: int) -> None:
    assert sum(judge_speed(restless(3.0, until=until, seed=seed), emulated=False).undecided for seed in range(100)) <= 1
