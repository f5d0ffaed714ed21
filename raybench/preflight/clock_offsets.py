"""How far the clocks of hosts are apart, from one round trip to each, and how sure that is."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raybench.documents.preflight import CheckResult

_NAME = "host-clock-spread"
_FEW_HOSTS = 3
_ADVICE = "systemctl enable --now chrony (chronyd on RHEL), chronyc makestep; check the hardware clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """A question to a host and its answer.

    ``sent_at`` and ``received_at`` are seconds of the control node's clock, ``host_clock`` is the host's own when its
    probe began, which took ``host_seconds``.
    """

    sent_at: float
    received_at: float
    host_clock: float
    host_seconds: float

    @property
    def login_seconds(self) -> float:
        """What the round trip took beside the probe: the login, the start of Python, the way back."""
        return max(0.0, self.received_at - self.sent_at - self.host_seconds)

    @property
    def offset(self) -> "Interval":
        """The host's clock less the control node's.

        The probe began after it was sent and ended before it was received, and nothing else is known of when: NTP's
        estimate, the midpoint, is off by at most half of what the trip took beside the probe.
        """
        low = self.host_clock + self.host_seconds - self.received_at
        return Interval(low=min(low, self.host_clock - self.sent_at), high=self.host_clock - self.sent_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Seconds between which a value lies for certain."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The best single guess."""
        return (self.low + self.high) / 2

    @property
    def uncertainty(self) -> float:
        """How far the truth may be from the middle."""
        return (self.high - self.low) / 2


def clock_results(trips: Mapping[str, RoundTrip | None], limit_seconds: Mapping[str, float]) -> dict[str, CheckResult]:
    """How far each host's clock is from the others'; a verdict only where it is clear of the uncertainty.

    From three hosts on, the reference is what most of them agree on; below that, the control node's clock is.
    """
    offsets = {host: trip.offset for host, trip in trips.items() if trip is not None}
    many = len(offsets) >= _FEW_HOSTS
    reference = agreed(tuple(offsets.values())) if many else Interval(low=0.0, high=0.0)
    than = "the other hosts" if many else "the control node"
    return {host: _judged(offsets.get(host), reference, limit_seconds[host], than) for host in trips}


def agreed(intervals: Sequence[Interval]) -> Interval:
    """The stretch that lies in the most intervals (Marzullo's algorithm, as in NTP); the narrowest of several such.

    Where no two share a stretch, nothing is agreed, and the median of their middles stands for it.
    """
    edges = sorted([(one.low, -1) for one in intervals] + [(one.high, 1) for one in intervals])
    best, count = 1, 0
    found: list[Interval] = []
    for place, (value, kind) in enumerate(edges):
        count -= kind
        if kind == -1 and count >= best and place + 1 < len(edges):
            found = ([] if count > best else found) + [Interval(low=value, high=edges[place + 1][0])]
            best = count
    if best < 2:
        middle = statistics.median(one.middle for one in intervals)
        return Interval(low=middle, high=middle)
    return min(found, key=lambda one: one.uncertainty)


def _judged(offset: Interval | None, reference: Interval, limit: float, than: str) -> CheckResult:
    expected = f"within {limit:g} s"
    if offset is None:
        return CheckResult(check=_NAME, verdict="unknown", seen="the probe gave no time", expected=expected)
    apart = Interval(low=offset.low - reference.high, high=offset.high - reference.low)
    seen = f"{apart.middle:+.1f} s from {than}, give or take {apart.uncertainty:.1f} s"
    if apart.low > limit or apart.high < -limit:
        return CheckResult(
            check=_NAME,
            verdict="fail",
            seen=seen,
            expected=expected,
            basis="logs of hosts cannot be ordered, certificates and tokens expire too early or late",
            advice=_ADVICE,
        )
    if -limit <= apart.low and apart.high <= limit:
        return CheckResult(check=_NAME, verdict="pass", seen=seen, expected=expected)
    return CheckResult(
        check=_NAME,
        verdict="unknown",
        seen=seen,
        expected=expected,
        basis="a slow login leaves open when the host read its clock; half of its time is the uncertainty",
        advice="see host-login; host-clock says what the host's time service measured",
    )
