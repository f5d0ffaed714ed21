"""From slow pairs to what is at fault: planted faults are found exactly, nobody is named without a second partner."""

import pytest

from raybench.preflight.fabric.evidence import Evidence, PairVerdict
from raybench.preflight.fabric.localise import leaf_faults, locate, next_round
from raybench.preflight.fabric.rounds import Pair, leaves_by_size, plan_rounds, sample_rounds
from raybench.preflight.fabric.simulate import EXTRA_ROUNDS, Planted, simulate

SLOW, GOOD, FAILED = PairVerdict.SLOW, PairVerdict.GOOD, PairVerdict.FAILED


def scanned(host_count: int, good: list[Pair], bad: dict[Pair, PairVerdict]) -> Evidence:
    evidence = Evidence(host_count=host_count)
    measured: dict[int, int] = {}
    for pair in (*good, *bad):
        for host in pair:
            measured[host] = measured.get(host, 0) + 1
    evidence.add_scan(measured, bad)
    return evidence


@pytest.mark.parametrize("host_count", [10, 100, 1000])
@pytest.mark.parametrize("matchings", [1, 4])
def test_400_trials_are_exact_in_three_extra_rounds(host_count: int, matchings: int) -> None:
    rounds = sample_rounds(host_count, matchings, seed=7)
    done = simulate(host_count, rounds, trials=400, seed=11)
    assert done.exact == 400
    assert max(done.extra_rounds) <= EXTRA_ROUNDS
    assert sum(bool(trial.planted.hosts) for trial in done.trials) > 50
    assert sum(bool(trial.planted.links) for trial in done.trials) > 50


def test_100_trials_over_leaves() -> None:
    leaves = leaves_by_size(1000, 32)
    leaf_of = [leaf for leaf, hosts in enumerate(leaves) for _ in hosts]
    done = simulate(1000, plan_rounds(1000, "sample", leaves=leaves), trials=100, seed=3, leaf_of=leaf_of)
    assert done.exact == 100


def test_the_simulation_can_fail() -> None:
    """Half of all hosts bad leaves too few good ones to compare with in three rounds."""
    done = simulate(20, sample_rounds(20, 1, 0), trials=50, seed=1, fraction=(0.5, 0.9))
    assert done.exact < 50


def test_a_host_is_named_only_after_two_good_partners() -> None:
    evidence = scanned(6, [(2, 3), (4, 5)], {(0, 1): SLOW})
    assert locate(evidence).hosts == ()
    first = next_round(evidence)
    assert len(first) == 2  # both suspects, each with a proven host
    assert {host for pair in first for host in pair} > {0, 1}
    bad = Planted(hosts=frozenset({0}), links=frozenset())
    evidence.add_tests((pair, bad.outcome(pair)) for pair in first)
    (named,) = locate(evidence).hosts  # 1 has turned out good, so 0 was slow with two good hosts
    assert named.hosts == (0,)
    assert set(named.partners) == {1, *(host for pair in first if 0 in pair for host in pair)} - {0}
    assert next_round(evidence) == ()


def test_two_bad_hosts_of_one_pair_take_a_second_good_partner_each() -> None:
    evidence = scanned(6, [(2, 3), (4, 5)], {(0, 1): SLOW})
    both = Planted(hosts=frozenset({0, 1}), links=frozenset())
    evidence.add_tests((pair, both.outcome(pair)) for pair in next_round(evidence))
    assert locate(evidence).hosts == ()
    evidence.add_tests((pair, both.outcome(pair)) for pair in next_round(evidence))
    assert [fault.hosts for fault in locate(evidence).hosts] == [(0,), (1,)]
    assert all(len(set(fault.partners)) == 2 for fault in locate(evidence).hosts)


def test_a_way_is_named_when_both_ends_are_good_and_it_is_slow_again() -> None:
    evidence = scanned(4, [(0, 2), (1, 3)], {(0, 1): SLOW})
    assert next_round(evidence) == ((0, 1),)
    assert locate(evidence).open_pairs == ((0, 1),)
    evidence.add_tests([((0, 1), SLOW)])
    assert [fault.hosts for fault in locate(evidence).links] == [(0, 1)]


def test_a_pair_that_is_good_when_repeated_is_not_named() -> None:
    evidence = scanned(4, [(0, 2), (1, 3)], {(0, 1): SLOW})
    evidence.add_tests([((0, 1), GOOD)])
    found = locate(evidence)
    assert (found.hosts, found.links, found.passed) == ((), (), ((0, 1),))


def test_two_hosts_or_a_fabric_that_is_slow_everywhere_name_nobody() -> None:
    for evidence in (scanned(2, [], {(0, 1): SLOW}), scanned(4, [], {(0, 1): SLOW, (2, 3): SLOW})):
        assert next_round(evidence) == ()
        assert (locate(evidence).hosts, locate(evidence).links) == ((), ())


def test_a_host_that_cannot_be_tested_is_not_called_slow() -> None:
    evidence = scanned(4, [(1, 2), (1, 3), (2, 3)], {(0, 1): FAILED, (0, 2): FAILED, (0, 3): FAILED})
    (fault,) = locate(evidence).hosts
    assert (fault.hosts, fault.outcome) == ((0,), FAILED)


def test_what_several_bad_ways_have_in_common_is_said() -> None:
    evidence = scanned(6, [(0, 5), (1, 5), (2, 5), (3, 5)], {(0, 1): SLOW, (0, 2): SLOW, (0, 3): SLOW})
    for _ in range(3):
        evidence.add_tests((pair, SLOW) for pair in next_round(evidence))
    found = locate(evidence)
    assert [fault.hosts for fault in found.links] == [(0, 1), (0, 2), (0, 3)]
    assert [fault.hosts for fault in found.common] == [(0,)]


def test_a_partner_of_the_same_leaf_comes_first_and_absent_hosts_do_not() -> None:
    leaf_of = [0, 0, 0, 0, 1, 1, 1, 1]
    evidence = scanned(8, [(1, 2), (5, 6), (3, 7)], {(0, 4): SLOW})
    pairs = dict(next_round(evidence, leaf_of=leaf_of))
    assert leaf_of[pairs[0]] == 0
    absent = next_round(evidence, leaf_of=leaf_of, absent={0, 1, 5})
    assert not {0, 1, 5} & {host for pair in absent for host in pair}


def test_leaves_all_of_whose_ways_are_bad() -> None:
    leaf_of = [0, 0, 1, 1, 2, 2]
    measured = {(0, 1): 2, (0, 2): 2}
    assert leaf_faults([(0, 2), (1, 3), (0, 4)], measured, leaf_of) == ((0, 1),)


def test_software_pairs_have_to_be_bad_twice_before_they_count() -> None:
    """Host 0 is bad with all; the pair 2-3 was bad once, because the machine was busy."""
    evidence = scanned(4, [(1, 2), (1, 3)], {(0, 1): SLOW, (0, 2): SLOW, (0, 3): SLOW, (2, 3): SLOW})
    evidence.repeats = 2
    assert (locate(evidence).hosts, locate(evidence).links) == ((), ())
    assert len(locate(evidence).open_pairs) == 4
    for _ in range(3):
        evidence.add_tests((pair, SLOW if 0 in pair else GOOD) for pair in next_round(evidence))
    found = locate(evidence)
    assert [fault.hosts for fault in found.hosts] == [(0,)]
    assert (found.links, found.open_pairs, found.passed) == ((), (), ((2, 3),))


def test_nics_are_taken_at_their_word() -> None:
    evidence = scanned(4, [(1, 2), (1, 3), (2, 3)], {(0, 1): SLOW, (0, 2): SLOW, (0, 3): SLOW})
    assert [fault.hosts for fault in locate(evidence).hosts] == [(0,)]
    assert next_round(evidence) == ()
