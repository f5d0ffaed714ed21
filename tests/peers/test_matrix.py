"""Who stands out in a matrix of pairs, and who must not."""

from collections.abc import Callable

import pytest

from raybench.peers.matrix import MatrixJudgement, judge_matrix
from tests.peers.sample import MESSAGE, Pair, matrix
from tests.reports.sample import point

SHAPES = [(2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (1, 4), (1, 8), (2, 8)]
NOISY = {"noise": 0.15, "common": 0.3}


def judged(nodes: int, per_node: int, *args: object, emulated: bool = False, **keys: object) -> MatrixJudgement:
    points = matrix(nodes, per_node, *args, **keys)
    ranks = range(nodes * per_node)
    return judge_matrix(points, {rank: f"n{rank // per_node}" for rank in ranks}, len(ranks), emulated=emulated)


def named(judgement: MatrixJudgement) -> list[tuple[str, tuple[int, ...], str, str]]:
    return [(part.kind, part.ranks, part.severity, part.direction) for part in judgement.slow]


def touching(rank: int, share: float) -> Callable[[Pair], float]:
    return lambda pair: share if rank in pair else 1.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_healthy_pairs_accuse_nobody(shape: tuple[int, int], seed: int) -> None:
    assert judged(*shape, seed=seed).slow == ()
    assert judged(*shape, seed=seed, emulated=True, **NOISY).slow == ()


@pytest.mark.parametrize("shape", [(3, 1), (4, 1), (2, 2), (4, 2), (1, 4), (1, 8), (2, 8)])
@pytest.mark.parametrize("share", [0.55, 0.7])
def test_a_slow_rank_is_named_once(shape: tuple[int, int], share: float) -> None:
    judgement = judged(*shape, touching(1, share))
    assert [(part.ranks, part.severity) for part in judgement.slow] == [((1,), "critical")]
    assert judgement.slow[0].kind == ("node" if shape[1] == 1 else "rank")
    assert judgement.slow[0].share.value == pytest.approx(share, rel=0.08)


@pytest.mark.parametrize(("share", "severity"), [(0.88, "warning"), (0.97, None)])
def test_moderate_is_a_warning_and_noise_is_silent(share: float, severity: str | None) -> None:
    found = judged(4, 2, touching(3, share)).slow
    assert [part.severity for part in found] == ([severity] if severity else [])
    assert judged(4, 2, touching(3, share), emulated=True).slow == ()


@pytest.mark.parametrize(("end", "direction"), [(0, "sends"), (1, "receives")])
def test_the_direction_is_told(end: int, direction: str) -> None:
    judgement = judged(4, 4, lambda pair: 0.5 if pair[end] == 3 else 1.0)
    assert named(judgement) == [("rank", (3,), "critical", direction)]


def test_a_node_is_named_before_its_ranks() -> None:
    slow = judged(4, 4, lambda pair: 0.5 if (pair[0] // 4 == 2) != (pair[1] // 4 == 2) else 1.0)
    assert named(slow) == [("node", (8, 9, 10, 11), "critical", "")]


def test_a_nic_is_told_from_its_rank_by_the_pairs_within_the_node() -> None:
    between = judged(2, 8, lambda pair: 0.5 if 3 in pair and pair[0] // 8 != pair[1] // 8 else 1.0)
    assert named(between) == [("rank", (3,), "critical", "")]
    assert between.slow[0].good_within
    assert not judged(2, 8, touching(3, 0.5)).slow[0].good_within


def test_a_single_way_is_told_from_its_ends() -> None:
    assert named(judged(4, 2, lambda pair: 0.4 if set(pair) == {0, 5} else 1.0)) == [("way", (0, 5), "critical", "")]
    one_way = judged(4, 2, lambda pair: 0.4 if pair == (5, 0) else 1.0)
    assert named(one_way) == [("way", (5, 0), "critical", "sends")]


def test_a_rank_that_stands_still_for_part_of_the_time_has_a_healthy_median_and_is_named() -> None:
    judgement = judged(4, 1, stall=lambda pair: 10 * MESSAGE / 24e9 if 2 in pair else 0.0)
    assert [part.ranks for part in judgement.slow] == [(2,)]


def test_how_a_machine_is_built_is_no_fault() -> None:
    """Two sockets: pairs across them reach half. Unequal groups as well, where most pairs are near each other."""
    for group in (4, 2):
        assert judged(1, 8, lambda pair, group=group: 0.5 if (pair[0] < group) != (pair[1] < group) else 1.0).slow == ()


def test_other_rails_are_slower_than_the_own_one_and_no_fault() -> None:
    assert judged(4, 4, lambda pair: 1.0 if pair[0] % 4 == pair[1] % 4 else 0.6).slow == ()


def test_trouble_for_a_while_names_nobody() -> None:
    points = matrix(4, 1)
    slow = [point(MESSAGE, seconds=MESSAGE / 2e9, source_rank=one.source_rank, destination_rank=one.destination_rank)
            if {one.source_rank, one.destination_rank} == {0, 1} else one for one in points]  # fmt: skip
    found = judge_matrix(slow, {rank: f"n{rank}" for rank in range(4)}, 4, emulated=True).slow
    assert not [part for part in found if part.kind != "way"]


def test_two_ranks_have_no_peers_and_that_is_said() -> None:
    assert judged(2, 1, touching(1, 0.5)).not_judged == "2 ranks have no others to be compared with"


def test_where_healthy_pairs_differ_by_too_much_that_is_said() -> None:
    said = {judged(4, 1, seed=seed, emulated=True, noise=0.6).not_judged for seed in range(6)}
    assert "healthy pairs differ among themselves too much" in said


@pytest.mark.parametrize(("shape", "noise"), [((4, 2), 0.25), ((4, 2), 0.4), ((6, 1), 0.25), ((6, 1), 0.4)])
def test_a_path_that_is_slow_in_one_direction_is_never_called_alike(shape: tuple[int, int], noise: float) -> None:
    one_way = (0, shape[1])
    for seed in range(10):
        judgement = judged(*shape, lambda pair: 0.1 if pair == one_way else 1.0, noise=noise, common=0.3, seed=seed)
        assert judgement.slow or judgement.patterns or judgement.not_judged, seed


@pytest.mark.parametrize(("shape", "noise"), [((3, 1), 0.4), ((4, 2), 0.25), ((4, 2), 0.4), ((6, 1), 0.25)])
def test_a_slow_path_among_pairs_that_differ_is_never_called_alike(shape: tuple[int, int], noise: float) -> None:
    slow, clean = 0.1, 1.0
    undecided = 0
    for seed in range(10):
        keys = {"noise": noise, "common": 0.3, "seed": seed}
        judgement = judged(*shape, lambda pair: slow if set(pair) == {0, shape[1]} else clean, **keys)
        assert judgement.slow or judgement.patterns or judgement.not_judged, seed
        undecided += judgement.undecided
        assert not judged(*shape, **keys).undecided, seed  # a healthy one that is as noisy
        assert not judged(*shape, lambda pair: slow if pair == (0, shape[1]) else clean, emulated=True).undecided
    assert undecided > 0


def test_a_slow_way_of_few_ranks_is_named_though_each_rail_has_few_pairs() -> None:
    assert named(judged(2, 2, lambda pair: 0.3 if pair == (0, 3) else 1.0)) == [("way", (0, 3), "critical", "sends")]


def test_pairs_that_are_too_few_to_tell_a_slow_one_are_not_called_alike() -> None:
    nodes = {0: "n0", 1: "n0", 2: "n1", 3: "n2"}
    points = [point for point in matrix(4, 1, lambda pair: 0.3 if pair == (0, 2) else 1.0)
              if {point.source_rank, point.destination_rank} <= {0, 1, 2}]  # fmt: skip
    judgement = judge_matrix(points, nodes, 4, emulated=False)
    assert (judgement.slow, judgement.not_judged) == ((), "4 pairs of a kind are too few to tell a slow one")


def patterns(judgement: MatrixJudgement) -> list[tuple[int, str, int | None, tuple[str, ...]]]:
    return [(len(one.pairs), one.severity, one.rail, one.nodes) for one in judgement.patterns]


@pytest.mark.parametrize(
    ("shape", "share", "found"),
    [
        ((4, 4), lambda a, b: 0.55 if a % 4 == 1 == b % 4 and a != b else 1.0, (12, "critical", 1, ())),
        ((8, 8), lambda a, b: 0.5 if a % 8 == 3 == b % 8 and a != b else 1.0, (56, "critical", 3, ())),
        ((4, 4), lambda a, b: 0.5 if {a // 4, b // 4} == {0, 1} else 1.0, (32, "critical", None, ("n0", "n1"))),
        ((4, 2), lambda a, b: 0.5 if {a, b} in ({0, 3}, {2, 5}, {4, 7}) else 1.0, (6, "critical", None, ())),
        ((8, 1), lambda a, b: 0.7 if (a < 4) != (b < 4) else 1.0, (32, "warning", None, ())),  # two leaves
        ((8, 1), lambda a, b: 0.5 if min(a, b) < 5 else 1.0, (50, "warning", None, ())),  # most are slow
        ((4, 4), lambda a, b: 0.5 if a // 4 == b // 4 == 2 and a < 10 and b < 10 else 1.0, None),  # a path, see below
    ],
)
def test_pairs_that_no_rank_node_or_way_explains_are_never_called_alike(
    shape: tuple[int, int],
    share: Callable[[int, int], float],
    found: tuple[int, str, int | None, tuple[str, ...]] | None,
) -> None:
    judgement = judged(*shape, lambda pair: share(*pair))
    assert patterns(judgement) == ([found] if found else [])
    assert bool(judgement.slow) == (found is None)
    assert judged(*shape, lambda pair: share(*pair), emulated=True).not_judged is not None or found is None


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("shape", [*SHAPES, (4, 4), (16, 1)])
def test_healthy_pairs_have_no_pattern(shape: tuple[int, int], noise: float) -> None:
    assert judged(*shape, noise=noise, common=0.1).patterns == ()
    slow = judged(*shape, touching(1, 0.5), noise=noise)
    assert slow.patterns == () or not slow.slow  # what is named explains its pairs


def test_how_machines_are_built_alike_is_no_pattern() -> None:
    """Pairs across two sockets, pairs off the rail: the same in each node."""
    built = judged(4, 4, lambda pair: 0.5 if pair[0] % 4 // 2 != pair[1] % 4 // 2 else 1.0)
    assert (built.slow, built.patterns) == ((), ())
