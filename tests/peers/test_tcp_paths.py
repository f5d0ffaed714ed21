"""Slow paths of TCP among those of a run: the node or path that is named, and what must not be taken for one."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from raybench.peers.tcp_paths import CarriedPath, Ends, PathJudgement, judge_paths

MB = 1e6
FAST, SLOW = 900 * MB, 2.4 * MB


def names(count: int) -> list[str]:
    return [f"node{number}" for number in range(1, count + 1)]


def ring(count: int) -> list[Ends]:
    nodes = names(count)
    return list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))


def mesh(count: int) -> list[Ends]:
    return [(one, other) for one in names(count) for other in names(count) if one != other]


def judged(
    paths: Iterable[Ends],
    count: int,
    rates: Mapping[Ends, float | Sequence[float]],
    *,
    default: float = FAST,
    bytes_each: float = 20 * MB,
    round_trips: Mapping[Ends, float] | None = None,
) -> PathJudgement:
    """Each path carries the same, in three parts, at its rate."""
    found = []
    for ends in paths:
        rate = rates.get(ends, default)
        parts = [rate] * 3 if isinstance(rate, float) else rate
        found.append(
            CarriedPath(
                ends=ends,
                parts=tuple((bytes_each, round(bytes_each / one, 3)) for one in parts),
                round_trip_seconds=(round_trips or {}).get(ends, 5e-5),
            )
        )
    return judge_paths(found, names(count))


def of(node: str, paths: Iterable[Ends], rate: float = SLOW) -> dict[Ends, float | Sequence[float]]:
    return {ends: rate for ends in paths if node in ends}


@pytest.mark.parametrize("count", [3, 4, 10])
@pytest.mark.parametrize("shape", [ring, mesh])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_a_node_whose_link_is_shaped_is_named(count: int, shape: object, share: float) -> None:
    paths = shape(count)  # type: ignore[operator]
    slow = 60 * MB
    answer = judged(paths, count, of("node2", paths, share * slow), default=slow)
    (found,) = answer.slow
    assert (found.nodes, found.direction, answer.why) == (("node2",), "", "")
    assert found.share == pytest.approx(share, rel=0.1)
    assert "GB/s to and from node2" in found.text


def test_both_figures_are_said() -> None:
    (found,) = judged(ring(4), 4, of("node3", ring(4))).slow
    assert found.text == "TCP carries 0.0024 GB/s to and from node3, and at least 0.77 on the other 2 paths in use"


@pytest.mark.parametrize("place", [0, 1])
def test_one_direction_of_a_node_is_named_where_several_paths_show_it(place: int) -> None:
    rates = {ends: SLOW for ends in mesh(4) if ends[place] == "node4"}
    (found,) = judged(mesh(4), 4, rates).slow
    assert (found.nodes, found.direction) == (("node4",), "receives" if place else "sends")


def test_of_one_slow_path_the_side_is_not_known() -> None:
    (found,) = judged(ring(4), 4, {("node2", "node3"): SLOW}).slow
    assert found.nodes == ("node2", "node3")
    assert "from node2 to node3" in found.text


def test_a_path_that_is_slow_both_ways_is_one() -> None:
    rates = {("node2", "node3"): SLOW, ("node3", "node2"): 2 * SLOW}
    (found,) = judged(mesh(4), 4, rates).slow
    assert found.nodes == ("node2", "node3")
    assert "between node2 and node3" in found.text


def test_of_two_nodes_both_are_said_where_one_way_is_slow_and_nothing_where_both_are() -> None:
    (found,) = judged(ring(2), 2, {("node2", "node1"): SLOW}).slow
    assert found.nodes == ("node2", "node1")
    assert judged(ring(2), 2, {}, default=SLOW).slow == ()


def test_two_slow_nodes_of_ten_are_named_both() -> None:
    answer = judged(ring(10), 10, of("node2", ring(10)) | of("node7", ring(10), 3 * SLOW))
    assert [one.nodes for one in answer.slow] == [("node2",), ("node7",)]


NEAR_MISSES: dict[str, tuple[list[Ends], int, dict[Ends, float | Sequence[float]], dict[str, object]]] = {
    "paths that differ as healthy ones do": (
        mesh(4), 4, {ends: FAST * (0.6 + 0.05 * number) for number, ends in enumerate(mesh(4))}, {},
    ),
    "a wide spread without a gap": (
        ring(10), 10, {ends: FAST * 0.6**number for number, ends in enumerate(ring(10))}, {},
    ),
    "slow for a third of the time": (ring(4), 4, {ends: [SLOW, FAST, FAST] for ends in ring(4) if "node2" in ends}, {}),
    "half of the nodes": (mesh(4), 4, of("node1", mesh(4)) | of("node2", mesh(4)), {}),
    "half of a ring's paths, between racks": (
        ring(8), 8, {ends: SLOW for number, ends in enumerate(ring(8)) if number % 2}, {},
    ),
    "messages that wait for a longer way": (
        mesh(4), 4, of("node2", mesh(4), 0.2 * FAST),
        {"round_trips": {ends: 5e-4 for ends in mesh(4) if "node2" in ends}},
    ),
    "many that send to one at the same time": (
        [(node, "node1") for node in names(4)[1:]], 4, {("node4", "node1"): SLOW}, {},
    ),
    "a moment": (ring(4), 4, of("node2", ring(4)), {"bytes_each": 0.3 * MB}),
    "nothing carried": ([], 4, {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_name_nobody(name: str) -> None:
    paths, count, rates, others = NEAR_MISSES[name]
    assert judged(paths, count, rates, **others).slow == ()  # type: ignore[arg-type]


def test_a_path_in_another_use_is_not_compared() -> None:
    """What a head node is told now and then is no part of the ring."""
    beside = CarriedPath(ends=("node3", "node1"), parts=((2 * MB, 1.0),), round_trip_seconds=5e-5)
    whole = [CarriedPath(ends=ends, parts=((20 * MB, 0.02),), round_trip_seconds=5e-5) for ends in ring(4)]
    assert judge_paths([*whole, beside], names(4)) == PathJudgement()


def test_a_gap_below_which_most_paths_had_little_on_their_way_accuses_none() -> None:
    """As where ten nodes share two processors that are taken: only one path is seen for long, and many are slow."""
    parts = dict.fromkeys(ring(10)[:5], ((3 * MB, 0.1),) * 3) | {ring(10)[5]: ((3 * MB, 0.3),) * 3}
    paths = [
        CarriedPath(ends=ends, parts=parts.get(ends, ((3 * MB, 0.01),) * 3), round_trip_seconds=5e-5)
        for ends in ring(10)
    ]
    assert judge_paths(paths, names(10)).slow == ()


def test_a_node_that_was_not_sampled_leaves_it_open() -> None:
    answer = judged([ends for ends in ring(4) if ends[0] != "node2"], 4, {("node1", "node2"): SLOW})
    assert (answer.slow, answer.why) == ((), "not all nodes have as many paths in use")


def test_a_node_that_makes_up_figures_breaks_nothing() -> None:
    whole = [CarriedPath(ends=ends, parts=((20 * MB, 0.02),) * 3) for ends in ring(4)[:3]]
    for parts in (((2.0**64, 0.0), (0.0, 2.0**64), (0.0, 1.0)), ((1.0, 2.0**64),), ((0.0, 5.0),)):
        answer = judge_paths([*whole, CarriedPath(ends=ring(4)[3], parts=parts)], names(4))
        assert len(answer.slow) <= 1


def test_a_recorded_ring_beside_a_shaped_node_leaves_it_open_with_a_wide_spread() -> None:
    """node2 is held to 20 Mbit/s; what node4 sends to node3 was acknowledged late, so that a second node stands out."""
    recorded = {
        ("node2", "node1"): ((788928, 0.33), (4225488, 1.93), (6308008, 2.93), (4161448, 1.92)),
        ("node3", "node2"): ((788976, 0.39), (4255568, 1.97), (6409888, 2.88), (4283552, 1.91)),
        ("node4", "node3"): ((2892368, 0.29), (0, 0.0), (4200496, 0.27), (4069232, 0.33)),
        ("node1", "node4"): ((723296, 0.08), (4331760, 0.04), (4331760, 0.01), (0, 0.0)),
    }
    answer = judge_paths([CarriedPath(ends=ends, parts=parts) for ends, parts in recorded.items()], names(4))
    assert (answer.slow, answer.undecided) == ((), True)
    assert 0.01 < answer.spread < 0.03
    assert answer.open_nodes == ("node2", "node3")  # who is measured again with --isolate


def test_a_healthy_path_that_carries_little_at_a_time_hides_no_slow_node() -> None:
    """It waits for late acknowledgements: 14 MB/s beside 500, as recorded where a link was held to 20 Mbit/s."""
    rates = {("node1", "node4"): 500 * MB, ("node4", "node3"): 14 * MB}
    slow = {("node2", "node1"): 2.2 * MB, ("node3", "node2"): 2.3 * MB}
    found = [
        CarriedPath(ends=ends, parts=((2 * MB, round(2 * MB / rate, 3)),) * 3) for ends, rate in (rates | slow).items()
    ]
    (one,) = judge_paths(found, names(4)).slow
    assert one.nodes == ("node2",)
    assert judge_paths([CarriedPath(ends=one.ends, parts=one.parts[:1]) for one in found[:2]], names(4)).slow == ()
