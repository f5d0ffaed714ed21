"""What is made of packets on the wire: which flows went on side by side, and whether a host was in both."""

import pytest

from tests.lab.rdma.flows import flows_of, side_by_side, used_twice

Packets = list[tuple[float, str, str]]


def sent(source: str, destination: str, begin: float, end: float, packets: int = 60) -> Packets:
    return [(begin + (end - begin) * one / packets, source, destination) for one in range(packets + 1)]


ROUND = [*sent("a", "b", 0.0, 3.0), *sent("c", "d", 0.5, 3.4)]


@pytest.mark.parametrize(
    ("more", "twice"),
    [
        ([], []),
        (sent("b", "a", 3.1, 6.0) + sent("d", "c", 3.5, 6.0), []),  # the other way round, later
        (sent("a", "b", 3.2, 6.0), []),  # again at once: one flow
        (sent("a", "c", 3.5, 6.0), []),  # the next round
        (sent("a", "c", 3.3, 6.0), ["c: c -> d and a -> c for 0.100 s"]),  # which a slow host of this one is still in
        (sent("b", "a", 1.0, 2.0), ["a+b: a -> b and b -> a for 1.000 s"]),
        (sent("e", "a", 2.0, 2.5, packets=5), []),  # strays
    ],
)
def test_a_host_in_two_flows_at_once_is_named(more: Packets, twice: list[str]) -> None:
    flows = flows_of([*ROUND, *more])
    assert used_twice(flows) == twice
    assert list(side_by_side(flows))
