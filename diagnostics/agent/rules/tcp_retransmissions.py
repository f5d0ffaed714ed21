"""TCP segments are lost on the way and sent again.

Symptom: of what the machine sent within three seconds, 1 % and fifty segments or more were retransmissions.

Why: packets are dropped between two nodes: an overloaded link, a shaper or firewall, a bad cable, an MTU that does not
fit. TCP halves its rate at each loss, so 1 % is enough to make ten times less of a fast link.

Not when: a few segments are sent again, as when a peer ends, or a connection is opened to a port that nobody has.

Source: Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997): the rate falls with
the square root of the loss; RFC 4022 for tcpRetransSegs. The limit is this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_SHARE = 0.01
LIMIT_SEGMENTS = 50
LOOKED_AT_SECONDS = 3.0
_RETRANSMITTED, _SENT = "host/tcp/retransmitted_segments", "host/tcp/sent_segments"


def check(window: Window) -> Iterator[Observed]:
    """Of all connections of the machine together."""
    if not any(window.growing("host", "retransmitted_segments", LOOKED_AT_SECONDS)):
        return
    again = window.increase(_RETRANSMITTED, LOOKED_AT_SECONDS)
    sent = window.increase(_SENT, LOOKED_AT_SECONDS)
    if again >= LIMIT_SEGMENTS and again >= LIMIT_SHARE * sent > 0:
        yield RULE.observed(
            window,
            device="tcp",
            summary=f"TCP: {again / sent:.1%} of the segments of the last {LOOKED_AT_SECONDS:.0f} s were "
            f"retransmissions ({again:,.0f} of {sent:,.0f})",
            explanation="Packets are lost between this machine and a peer; TCP sends slower at each loss.",
            since_seconds=window.grew_since(_RETRANSMITTED, LOOKED_AT_SECONDS),
            series=(_RETRANSMITTED, _SENT),
        )


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
