"""Slow TCP paths told while a run goes on: what the agents of all nodes say, looked at together."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from diagnostics.agent.messages import Reading
from raybench.execution.live.tcp_paths import SOURCE, TcpPathWatch
from raybench.execution.live.warning import LiveWarning

COUNT, STARTED = 4, 100.0
FAST, SLOW, RATE = 9e8, 2.4e6, 2.4e6


def watch() -> TcpPathWatch:
    numbers = range(1, COUNT + 1)
    return TcpPathWatch(
        nodes={f"machine{number}": f"node{number}" for number in numbers},
        addresses={f"10.0.0.{number}": f"node{number}" for number in numbers},
        ranks={f"node{number}": (number - 1,) for number in numbers},
        started=STARTED,
    )


class Ring:
    """Four agents; each node sends to the next."""

    def __init__(self, watch: TcpPathWatch) -> None:
        self.watch = watch
        self.now = STARTED + 10
        self.carried = dict.fromkeys(range(1, COUNT + 1), 0.0)
        self.busy = dict.fromkeys(range(1, COUNT + 1), 0.0)

    def second(
        self, slow: Iterable[int] = (), *, silent: Iterable[int] = (), busy: Iterable[str] = ()
    ) -> list[LiveWarning]:
        told = []
        for number in range(1, COUNT + 1):
            peer = number % COUNT + 1
            self.carried[number] += RATE
            self.busy[number] += RATE / (SLOW if {number, peer}.intersection(slow) else FAST)
            values = {
                f"tcp/10.0.0.{peer}/carried_bytes": self.carried[number],
                f"tcp/10.0.0.{peer}/carrying_seconds": self.busy[number],
            }
            if number not in silent:
                reading = Reading(monotonic_seconds=self.now, source=SOURCE, values=values)
                told += self.watch.take(f"machine{number}", reading, self.now, frozenset(busy))
            self.now += 0.25
        return told


def test_a_slow_node_is_told_within_five_seconds_once_and_again_when_it_is_over() -> None:
    ring = Ring(watch())
    assert [one for _ in range(8) for one in ring.second()] == []
    began = ring.now
    told = [one for _ in range(20) for one in ring.second([3])]
    (one,) = told
    assert (one.rule, one.hosts, one.ranks, one.of, one.over) == ("slow-tcp-paths", ("node3",), (2,), "agent", False)
    assert "node3: TCP carries 0.0024 GB/s to and from node3" in one.line
    assert one.at_seconds + STARTED - began <= 5.0
    (over,) = [one for _ in range(20) for one in ring.second()]
    assert (over.over, over.line) == (True, "node3 carries as much by TCP as the others again")


def test_a_moment_is_not_told() -> None:
    ring = Ring(watch())
    told = [one for number in range(30) for one in ring.second([3] if number == 10 else [])]
    assert told == []


def test_nothing_is_told_while_a_node_is_not_heard() -> None:
    ring = Ring(watch())
    assert [one for _ in range(20) for one in ring.second([3], silent=[1])] == []
    assert [one for _ in range(6) for one in ring.second([3])] != []


def test_a_node_whose_processors_others_take_is_not_accused_for_its_link() -> None:
    ring = Ring(watch())
    assert [one for _ in range(20) for one in ring.second([3], busy=["node3"])] == []
    everywhere = [f"node{number}" for number in range(1, COUNT + 1)]
    assert [one.hosts for _ in range(6) for one in ring.second([3], busy=everywhere)] == [("node3",)]


def test_other_sources_and_unknown_machines_are_nothing_to_it() -> None:
    one = watch()
    reading = Reading(monotonic_seconds=1.0, source="tcp peers", values={"tcp/10.0.0.2/lost_segments": 5.0})
    assert one.take("machine1", reading, 1.0) == []
    assert one.take("machine9", Reading(monotonic_seconds=1.0, source=SOURCE, values={}), 1.0) == []


RECORDED = Path(__file__).with_name("recorded")


def replayed(name: str, *, delay: float = 0.0, late: str = "") -> list[tuple[float, LiveWarning]]:
    """What is told when, of recorded looks; where a node is ``late`` its own are heard by so many seconds later."""
    path_watch, told = watch(), []
    looks = [
        (seconds + (delay if node == late else 0.0), node, peers)
        for seconds, node, peers in json.loads((RECORDED / name).read_text())
    ]
    for seconds, node, peers in sorted(looks, key=lambda look: look[0]):
        values = {
            f"tcp/10.0.0.{peer.removeprefix('node')}/{metric}": value
            for peer, one in peers.items()
            for metric, value in zip(METRICS, one, strict=True)
        }
        reading = Reading(monotonic_seconds=seconds, source=SOURCE, values=values)
        now = STARTED + 10 + seconds
        told += [(seconds, one) for one in path_watch.take(node.replace("node", "machine"), reading, now)]
    return told


METRICS = ("carried_bytes", "carrying_seconds", "least_round_trip_microseconds")


@pytest.mark.parametrize(("delay", "late"), [(0.0, ""), (0.6, "node1"), (0.6, "node2"), (0.6, "node3")])
@pytest.mark.parametrize("name", ["link_20mbit.json", "link_100mbit.json"])
def test_a_recorded_node_whose_link_is_held_to_a_rate_is_named_and_no_path(name: str, delay: float, late: str) -> None:
    ((seconds, one),) = replayed(name, delay=delay, late=late)
    assert (one.hosts, one.over) == (("node2",), False)
    assert seconds <= 4.5


def test_a_recorded_run_on_a_crowded_machine_names_nobody() -> None:
    assert replayed("no_fault.json") == []
    assert replayed("no_fault.json", delay=0.7, late="node4") == []


def test_two_slow_seconds_are_not_told() -> None:
    for begin in range(10, 14):
        ring = Ring(watch())
        assert [one for number in range(30) for one in ring.second([3] if begin <= number < begin + 2 else [])] == []


def test_a_late_agent_holds_nothing_up_and_a_look_behind_makes_no_path_of_a_node() -> None:
    ring = Ring(watch())
    assert [one for _ in range(8) for one in ring.second()] == []
    told = [one.hosts for number in range(12) for one in ring.second([2], silent=[4] if number % 3 else [])]
    assert told == [("node2",)]


def test_a_node_is_told_where_one_of_its_paths_was_seen_to_be_slow_a_second_before_the_other() -> None:
    ring = Ring(watch())
    assert [one for _ in range(8) for one in ring.second()] == []
    slow_path = {2}  # node2 to node3
    told = []
    for number in range(6):
        for sender in range(1, COUNT + 1):
            peer = sender % COUNT + 1
            is_slow = sender in slow_path or (number > 0 and peer in slow_path)
            ring.carried[sender] += RATE
            ring.busy[sender] += RATE / (SLOW if is_slow else FAST)
            values = {
                f"tcp/10.0.0.{peer}/carried_bytes": ring.carried[sender],
                f"tcp/10.0.0.{peer}/carrying_seconds": ring.busy[sender],
            }
            reading = Reading(monotonic_seconds=ring.now, source=SOURCE, values=values)
            told += [(number, one.hosts) for one in ring.watch.take(f"machine{sender}", reading, ring.now)]
            ring.now += 0.25
    assert told == [(2, ("node2",))]
