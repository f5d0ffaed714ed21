"""Slow TCP paths told while a run goes on: what the agents of all nodes say, looked at together."""

from collections.abc import Iterable

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
