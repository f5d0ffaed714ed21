"""Hosts compared with each other: who is the odd one out, what is only a tie, and ports between hosts."""

import pytest

from raybench.preflight.attributes import Attribute
from raybench.preflight.between_hosts import port_results
from raybench.preflight.drift import differences, drift_results


def mtu(size: int) -> Attribute:
    return Attribute(name="mtu eth0", kind="network", value=str(size))


def package(version: str) -> Attribute:
    return Attribute(name="package rdma-core", kind="versions", value=version)


ONE_GROUP = {"a": "H100", "b": "H100", "c": "H100", "d": "H100"}


def test_the_odd_one_out_is_named() -> None:
    hosts = {"a": [mtu(9000)], "b": [mtu(9000)], "c": [mtu(1500)], "d": [mtu(9000)]}
    (found,) = differences(hosts, ONE_GROUP)
    assert (found.majority, found.odd, found.verdict) == ("9000", ("c",), "fail")
    (result,) = [one for one in drift_results("c", [found], compared=True) if one.check == "drift-network"]
    assert (result.verdict, result.seen, result.expected) == ("fail", "mtu eth0: 1500", "mtu eth0: 9000 (3 hosts)")
    assert {one.verdict for one in drift_results("a", [found], compared=True)} == {"pass"}


def test_a_tie_names_all_and_fails_nobody() -> None:
    hosts = {"a": [mtu(9000)], "b": [mtu(9000)], "c": [mtu(1500)], "d": [mtu(1500)]}
    (found,) = differences(hosts, ONE_GROUP)
    assert (found.majority, set(found.odd), found.verdict) == (None, {"a", "b", "c", "d"}, "warn")


def test_other_kinds_of_hosts_are_not_compared() -> None:
    hosts = {"a": [mtu(9000)], "b": [mtu(9000)], "head": [mtu(1500)]}
    assert differences(hosts, {"a": "H100", "b": "H100", "head": "hosts without GPU"}) == ()
    assert {one.verdict for one in drift_results("head", [], compared=False)} == {"skipped"}


def test_what_could_not_be_read_is_no_difference_but_an_absent_package_is() -> None:
    assert differences({"a": [mtu(9000)], "b": [], "c": [mtu(9000)]}, {"a": "g", "b": "g", "c": "g"}) == ()
    others = [package("44.0-2"), Attribute(name="package perftest", kind="versions", value="4.5")]
    hosts = {"a": others, "b": others, "c": [others[1]]}
    (found,) = differences(hosts, {"a": "g", "b": "g", "c": "g"})
    assert found.values["not installed"] == ("c",)
    assert found.verdict == "warn"  # a package of the system


def test_attributes_may_be_left_out() -> None:
    hosts = {"a": [mtu(9000)], "b": [mtu(1500)]}
    assert differences(hosts, {"a": "g", "b": "g"}, ("mtu ",)) == ()


def attempt(host: str, answer: str) -> dict[str, object]:
    return {"host": host, "port": 6379, "answer": answer, "seconds": 0.1}


@pytest.mark.parametrize(
    ("answer", "state", "wanted"),
    [
        ("connected", "listening", "pass"),
        ("connected", "in use", "pass"),
        ("timed out", "listening", "fail"),
        ("refused", "listening", "fail"),
        ("[Errno 113] No route to host", "in use", "fail"),
        ("refused", "[Errno 13] Permission denied", "unknown"),
        ("timed out", None, "unknown"),  # that host did not answer at all: it is reported itself
    ],
)
def test_ports_that_are_not_reached(answer: str, state: str | None, wanted: str) -> None:
    listening = {"b": {"6379": state}} if state else {}
    results = port_results({"a": [attempt("b", answer)]}, listening, ["a"])
    assert results["a"].verdict == wanted
