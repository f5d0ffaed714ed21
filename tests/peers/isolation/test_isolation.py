"""A suspect measured with healthy partners, over generated clusters: nobody healthy is ever confirmed."""

import random

import pytest

from raybench.peers.isolation.steps import MOST_MEASUREMENTS
from raybench.peers.isolation.suspect import Suspect
from raybench.peers.judgement import LARGE, MODERATE
from tests.peers.isolation.generated import FakeCluster


def node(name: str, **changes: object) -> Suspect:
    return Suspect(**({"node": name, "aspects": ("bandwidth",), "rules": ("slow-node",)} | changes))  # type: ignore[arg-type]


def path(one: str, other: str) -> Suspect:
    return Suspect(node=one, other=other, aspects=("bandwidth",), rules=("slow-way",))


@pytest.mark.parametrize("count", [3, 4, 5, 8, 16])
def test_a_bad_node_is_confirmed_by_one_measurement_with_it_and_one_without(count: int) -> None:
    cluster = FakeCluster(count=count, bad={"node02": 0.3})
    answer = cluster.isolate(node("node02"), [node("node02")])
    assert (answer.outcome, answer.aspect) == ("confirmed", "bandwidth")
    assert answer.share == pytest.approx(0.3, rel=0.1)
    assert len(cluster.measured) == 1 + 2  # the first is the run's own
    assert len(answer.slow_with) == min(count - 1 - (count > 3), 4)


def test_what_was_slow_once_is_withdrawn_by_one_measurement() -> None:
    cluster = FakeCluster(count=4)
    answer = cluster.isolate(node("node02"), [node("node02")])
    assert (answer.outcome, len(cluster.measured)) == ("not confirmed", 2)
    assert answer.share == pytest.approx(1.0, abs=0.1)


def test_two_bad_nodes_of_four_are_both_confirmed_with_the_two_others() -> None:
    suspects = [node("node02"), node("node04")]
    for suspect in suspects:
        cluster = FakeCluster(count=4, bad={"node02": 0.3, "node04": 0.5})
        answer = cluster.isolate(suspect, suspects)
        assert (answer.outcome, answer.slow_with) == ("confirmed", ("node01", "node03"))


def test_where_the_accused_are_healthy_and_the_others_bad_nobody_is_confirmed() -> None:
    suspects = [node("node01"), node("node03")]
    for suspect in suspects:
        answer = FakeCluster(count=4, bad={"node02": 0.3, "node04": 0.3}).isolate(suspect, suspects)
        assert answer.outcome != "confirmed"


@pytest.mark.parametrize(("count", "standing_out"), [(4, 2), (4, 3), (10, 3)])
@pytest.mark.parametrize("at_fault", [None, 0, 1])
def test_of_nodes_that_stand_out_only_the_one_at_fault_is_confirmed(
    count: int, standing_out: int, at_fault: int | None
) -> None:
    """As where a healthy path is acknowledged late beside a slow node: no finding names one of them."""
    names = FakeCluster(count=count).nodes[1 : 1 + standing_out]
    bad = {} if at_fault is None else {names[at_fault]: 0.02}
    suspects = [node(name, is_open=True) for name in names]
    for suspect in suspects:
        outcome = FakeCluster(count=count, bad=bad).isolate(suspect, suspects).outcome
        assert (outcome == "confirmed") == (suspect.node in bad)
        assert outcome != "path"
        assert outcome == "not confirmed" or suspect.node in bad or standing_out > count - 2


@pytest.mark.parametrize(("count", "accused"), [(2, 1), (3, 2), (4, 3)])
def test_without_two_healthy_partners_nothing_is_measured_and_that_is_said(count: int, accused: int) -> None:
    cluster = FakeCluster(count=count, bad={"node01": 0.1})
    suspects = [node(name) for name in cluster.nodes[:accused]]
    answer = cluster.isolate(suspects[0], suspects)
    assert (answer.outcome, len(cluster.measured)) == ("unknown", 1)
    assert "2 healthy ones are needed" in answer.reason


def test_a_slow_path_is_no_slow_node() -> None:
    cluster = FakeCluster(count=4, bad_paths={frozenset(("node02", "node03")): 0.2})
    assert cluster.isolate(path("node02", "node03"), [path("node02", "node03")]).outcome == "path"
    accused = cluster.isolate(node("node02"), [node("node02")])
    assert (accused.outcome, accused.slow_with) in (("path", ("node03",)), ("not confirmed", ()))  # it may be left out


def test_a_path_that_was_slow_once_is_withdrawn_and_one_of_a_bad_node_is_left_open() -> None:
    accused = path("node02", "node03")
    assert FakeCluster(count=4).isolate(accused, [accused]).outcome == "not confirmed"
    answer = FakeCluster(count=4, bad={"node03": 0.2}).isolate(accused, [accused])
    assert (answer.outcome, "node03 is slow with other nodes" in answer.reason) == ("unknown", True)


def test_a_bad_rail_is_nobodys_fault() -> None:
    """Of a rank's rail all pairs are as slow: by comparison the suspect is well, and its partners below the run's."""
    everyone = {f"node{number:02}": 0.3 for number in range(1, 9)}
    assert FakeCluster(count=8, bad=everyone).isolate(node("node02"), [node("node02")]).outcome == "not confirmed"


def test_partners_that_all_became_slow_since_withdraw_nothing() -> None:
    cluster = FakeCluster(count=4)
    suspect = node("node02")
    cluster.later = dict.fromkeys(cluster.nodes, 0.2)
    answer = cluster.isolate(suspect, [suspect])
    assert (answer.outcome, "all are slow now" in answer.reason) == ("unknown", True)


def test_a_node_that_works_slower_by_itself_is_confirmed_by_its_speed_alone() -> None:
    suspect = node("node02", aspects=("speed",), rules=("slow-rank",))
    answer = FakeCluster(count=4, slow_alone={"node02": 0.5}).isolate(suspect, [suspect])
    assert (answer.outcome, answer.aspect) == ("confirmed", "speed")
    assert FakeCluster(count=4).isolate(suspect, [suspect]).outcome == "not confirmed"
    assert FakeCluster(count=4, slow_alone={"node01": 0.5}).isolate(suspect, [suspect]).outcome == "not confirmed"


def test_a_node_that_breaks_each_measurement_is_confirmed_and_one_that_does_so_once_is_not() -> None:
    suspect = node("node02", aspects=("bandwidth", "speed"), rules=("rank-stopped",), broke=True)
    answer = FakeCluster(count=4, breaking=frozenset({"node02"})).isolate(suspect, [suspect])
    assert (answer.outcome, "again" in answer.reason) == ("confirmed", True)
    assert FakeCluster(count=4).isolate(suspect, [suspect]).outcome == "not confirmed"
    other = FakeCluster(count=4, breaking=frozenset({"node03"})).isolate(suspect, [suspect])
    assert other.outcome == "unknown"


def test_a_moderate_fault_is_judged_by_its_own_limit() -> None:
    suspect = node("node02", limit=MODERATE)
    assert FakeCluster(count=6, bad={"node02": 0.87}, noise=0.01).isolate(suspect, [suspect]).outcome == "confirmed"
    assert FakeCluster(count=6, noise=0.01).isolate(suspect, [suspect]).outcome == "not confirmed"
    large = node("node02", limit=LARGE)
    assert FakeCluster(count=6, bad={"node02": 0.87}, noise=0.01).isolate(large, [large]).outcome == "not confirmed"


def test_a_grave_fault_that_is_gone_is_withdrawn_whatever_the_noise_and_one_that_is_not_is_confirmed() -> None:
    """Pairs of a loaded machine differ by a factor of two, and the fault was one of thirty."""
    outcomes = {"gone": set(), "there": set()}  # type: dict[str, set[str]]
    for seed in range(20):
        for name, later in (("gone", {"node02": 1.0}), ("there", {})):
            cluster = FakeCluster(count=4, bad={"node02": 0.03}, later=later, noise=0.3, seed=seed)
            outcomes[name].add(cluster.isolate(node("node02"), [node("node02")]).outcome)
    assert "not confirmed" in outcomes["gone"] <= {"not confirmed", "unknown"}
    assert "confirmed" in outcomes["there"] <= {"confirmed", "unknown"}


def test_figures_that_vary_too_much_end_open_after_three_measurements() -> None:
    cluster = FakeCluster(count=4, bad={"node02": 0.75}, noise=0.6)
    answer = cluster.isolate(node("node02"), [node("node02")])
    assert answer.outcome == "unknown"
    assert len(cluster.measured) <= 1 + MOST_MEASUREMENTS + 1


@pytest.mark.parametrize("seed", range(60))
def test_never_is_a_healthy_node_confirmed(seed: int) -> None:
    """1 to 3 bad nodes of 3 to 16, accusations right and wrong, noise of 1 to 30 %, a bad path at times."""
    source = random.Random(seed)
    count = source.randint(3, 16)
    names = FakeCluster(count=count).nodes
    bad = {name: source.uniform(0.05, 0.9) for name in source.sample(names, source.randint(0, 3))}
    accused = [node(name) for name in source.sample(names, source.randint(1, max(count // 2, 1)))]
    accused += [node(name) for name in bad if source.random() < 0.7 and name not in {one.node for one in accused}]
    paths = {frozenset(source.sample(names, 2)): source.uniform(0.05, 0.7)} if source.random() < 0.4 else {}
    cluster = FakeCluster(count=count, bad=bad, bad_paths=paths, noise=source.uniform(0.01, 0.3), seed=seed)
    for suspect in accused:
        answer = cluster.isolate(suspect, accused)
        assert answer.outcome != "confirmed" or suspect.node in bad
        if 2 * len(bad) < count:  # else the healthy are no majority
            assert not (answer.outcome == "not confirmed" and bad.get(suspect.node, 1.0) < LARGE / 2)
