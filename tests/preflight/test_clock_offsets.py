"""Clocks of hosts from one round trip each: a verdict where it is clear of the uncertainty, and nowhere else."""

import pytest

from raybench.preflight.between_hosts import login_results
from raybench.preflight.clock_offsets import Interval, RoundTrip, agreed, clock_results


def trip(ahead: float = 0.0, login: float = 0.4, back: float = 0.1, probe: float = 1.0) -> RoundTrip:
    """A probe that began ``login`` seconds after it was sent, on a host whose clock is ``ahead``."""
    return RoundTrip(
        sent_at=1000.0,
        received_at=1000.0 + login + probe + back,
        host_clock=1000.0 + login + ahead,
        host_seconds=probe,
    )


FINE = {"a": trip(), "b": trip(login=0.6), "c": trip(login=1.2, probe=4.0)}


@pytest.mark.parametrize(
    ("trips", "wrong"),
    [
        ({**FINE, "d": trip(ahead=-90.0)}, {"d": "fail"}),
        ({**FINE, "d": trip(ahead=90.0)}, {"d": "fail"}),
        ({**FINE, "d": trip(ahead=-6.0)}, {"d": "fail"}),
        ({**FINE, "d": trip(ahead=4.0)}, {}),
        ({**FINE, "d": trip(login=8.2)}, {"d": "unknown"}),  # as sleep 8 in .bashrc
        ({**FINE, "d": trip(login=8.2, ahead=90.0)}, {"d": "fail"}),
        ({**FINE, "d": trip(login=8.2, ahead=-90.0)}, {"d": "fail"}),
        ({**FINE, "d": trip(probe=40.0)}, {}),  # a slow probe is no slow login
        ({name: trip(login=8.0) for name in "abcd"}, dict.fromkeys("abcd", "unknown")),
        ({"a": trip()}, {}),
        ({"a": trip(login=8.2)}, {"a": "unknown"}),
        ({"a": trip(ahead=-6.0)}, {"a": "fail"}),
        ({"a": trip(ahead=60.0), "b": trip(ahead=60.0)}, {"a": "fail", "b": "fail"}),  # the control node is another
        ({"a": trip(ahead=60.0), "b": trip(ahead=60.0), "c": trip(ahead=60.0)}, {}),  # its clock is the wrong one
        ({**FINE, "d": None}, {"d": "unknown"}),
    ],
)
def test_clocks_that_are_apart(trips: dict[str, RoundTrip | None], wrong: dict[str, str]) -> None:
    results = clock_results(trips, dict.fromkeys(trips, 5.0))
    assert {host: one.verdict for host, one in results.items() if one.verdict != "pass"} == wrong


def test_the_offset_lies_within_what_is_said_of_it() -> None:
    for login, back, ahead in ((0.1, 3.0, 0.0), (3.0, 0.1, 2.0), (1.0, 1.0, -70.0)):
        found = trip(ahead=ahead, login=login, back=back).offset
        assert found.low <= ahead <= found.high
        assert found.uncertainty == pytest.approx((login + back) / 2)


def test_what_most_agree_on_is_the_narrowest_stretch_that_most_share() -> None:
    shared = [Interval(low=0.0, high=8.0), Interval(low=-0.1, high=0.4), Interval(low=0.2, high=1.0)]
    assert agreed([*shared, Interval(low=90.0, high=90.2)]) == Interval(low=0.2, high=0.4)
    apart = [Interval(low=value, high=value + 0.1) for value in (0.0, 10.0, 90.0)]
    assert agreed(apart).middle == pytest.approx(10.05)


@pytest.mark.parametrize(
    ("trips", "noise", "wrong"),
    [
        (FINE, {}, set()),
        ({**FINE, "d": trip(login=8.0)}, {}, {"d"}),
        ({"a": trip(), "d": trip(login=8.0)}, {}, {"d"}),
        ({"d": trip(login=8.0)}, {}, {"d"}),
        ({name: trip(login=8.0) for name in "abcd"}, {}, set()),  # a busy control node
        ({**FINE, "d": trip(probe=30.0)}, {}, set()),
        (FINE, {"b": "Welcome to gpu-02"}, {"b"}),
    ],
)
def test_slow_and_talkative_logins(trips: dict[str, RoundTrip | None], noise: dict[str, str], wrong: set[str]) -> None:
    assert {host for host, one in login_results(trips, noise).items() if one.verdict == "warn"} == wrong
