"""TCP segments are lost on the way and sent again.

Symptom: of what the machine sent within three seconds, 1 % and fifty segments or more were lost and sent again, in
more than one reading. What the peer says it had already (DSACK) was not lost: a machine whose processors are taken
answers so late that its peers send a whole window again.

The finding names the peers to which most of them went, where the kernel tells: the machine that sends them again need
not be the one whose link loses them.

Why: packets are dropped between two nodes: an overloaded link, a shaper or firewall, a bad cable, an MTU that does not
fit. TCP halves its rate at each loss, so 1 % is enough to make ten times less of a fast link.

Not when: a few segments are sent again, as when a peer ends, or a connection is opened to a port that nobody has.

Source: Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997): the rate falls with
the square root of the loss; RFC 4022 for tcpRetransSegs. The limit is this project's.
"""

from collections.abc import Iterator
from itertools import pairwise

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_SHARE = 0.01
LIMIT_SEGMENTS = 50
LOOKED_AT_SECONDS = 3.0
MOST_NAMED = 3
_AGAIN, _SENT = "host/tcp/retransmitted_segments", "host/tcp/sent_segments"
_WITH_LAST = LOOKED_AT_SECONDS + 1.0
_NEEDLESS = "host/tcp/needlessly_retransmitted_segments"


def check(window: Window) -> Iterator[Observed]:
    """Of all connections of the machine together."""
    if not any(window.growing("host", "retransmitted_segments", LOOKED_AT_SECONDS)):
        return
    lost, sent = _lost(window), sum(_growth(window, _SENT)[:-1])
    if lost < LIMIT_SEGMENTS or not lost >= LIMIT_SHARE * sent > 0:
        return
    peers = _peers(window)
    yield RULE.observed(
        window,
        device="tcp",
        summary=f"TCP: {lost / sent:.1%} of the segments of the last {LOOKED_AT_SECONDS:.0f} s were "
        f"lost and sent again ({lost:,.0f} of {sent:,.0f}{_to(peers)})",
        explanation="Packets are lost between this machine and a peer; TCP sends slower at each loss.",
        since_seconds=window.grew_since(_AGAIN, LOOKED_AT_SECONDS),
        series=(_AGAIN, _NEEDLESS, _SENT, *(f"tcp/{peer}/lost_segments" for peer in peers)),
    )


def _lost(window: Window) -> float:
    """What was sent again up to the reading before the last, but for what peers have said by now that they had.

    Both from one reading on: of what was sent again before, a peer may have said so before. Nothing of what was sent
    again once and not before or after: the last reading has to show more of it.
    """
    again = _growth(window, _AGAIN)
    return sum(again[:-1]) - sum(_growth(window, _NEEDLESS)) if again and again[-1] else 0.0


def _growth(window: Window, name: str) -> list[float]:
    """From reading to reading; counters of one source have the same readings."""
    return [max(after.value - before.value, 0) for before, after in pairwise(window.points(name, _WITH_LAST))]


def _peers(window: Window) -> dict[str, float]:
    """What was lost on the way to each peer in the same readings, most first. Their counts begin at 0."""
    found: dict[str, float] = {}
    for peer, name in window.devices("tcp", "lost_segments").items():
        points = window.points(name, _WITH_LAST)[:-1]
        if points:
            is_first = window.first_seconds(name) == points[0].seconds
            found[peer] = points[-1].value - (0 if is_first else points[0].value)
    most = sorted(found, key=lambda peer: -found[peer])
    return {peer: found[peer] for peer in most[:MOST_NAMED] if found[peer] > 0}


def _to(peers: dict[str, float]) -> str:
    return "".join(f"; {count:,.0f} to {peer}" for peer, count in peers.items())


RULE = LiveRule(
    id="tcp-retransmissions",
    title="TCP segments are lost and sent again",
    severity="warning",
    check=check,
    longest_interval_seconds=2.0,
    recommended=advice(
        "find-loss",
        "See which connections lose, and what lies on their path: links, shapers, firewalls, MTU.",
        "ss -tin state established | grep -B1 retrans",
        "tc -s qdisc show; nft list ruleset",
    ),
)
