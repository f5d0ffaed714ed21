"""Who tries whom: each host the head, its neighbour and one far away, and as many callers as each is told of."""

import pytest

from raybench.preflight.port_plan import callers_of, hosts_to_try


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 10, 11, 100])
def test_each_host_is_called_by_those_that_it_is_told_of(count: int) -> None:
    hosts = [f"n{number}" for number in range(count)]
    called = {name: {own for own in hosts if name in hosts_to_try(hosts, own)} for name in hosts}
    assert called == {name: set(callers_of(hosts, name)) for name in hosts}
    assert all(len(set(callers_of(hosts, name))) == len(callers_of(hosts, name)) for name in hosts)
    assert all(own not in hosts_to_try(hosts, own) and len(hosts_to_try(hosts, own)) <= 3 for own in hosts)
    assert all(hosts[0] in hosts_to_try(hosts, own) for own in hosts[1:])
