"""A port throws packets away.

Symptom: a port discards a thousand and more packets in ten seconds before it sends them, or has no buffer for those
it gets.

Why: the other side takes no more (congestion, a switch port that is blocked or slow), or the host is too slow to empty
the port's buffers (interrupts on one processor, small rings, a PCIe link that lost lanes).

Not when: packets are dropped that nobody on the host wanted (rx_dropped counts them too, and is not looked at).

Source: NVSentinel's limit of a hundred port_xmit_discards a second; for rx_missed_errors and tx_dropped
the kernel's Documentation/networking/statistics.rst.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.series import series_of
from diagnostics.agent.window import Window

LIMIT_PACKETS = 1000
LOOKED_AT_SECONDS = 10.0
_METRICS = (
    ("port", "send_discards"),
    ("port", "receive_drops"),
    ("nic", "send_drops"),
    ("nic", "receive_misses"),
)


def check(window: Window) -> Iterator[Observed]:
    """One finding a port and counter."""
    for group, metric in _METRICS:
        for device, name in window.growing(group, metric, LOOKED_AT_SECONDS):
            packets = window.increase(name, LOOKED_AT_SECONDS)
            if packets < LIMIT_PACKETS:
                continue
            since = window.grew_since(name, LOOKED_AT_SECONDS)
            yield RULE.observed(
                window,
                device=device,
                summary=f"{device}: {packets:,.0f} {series_of(name).title} in {max(window.now - since, 1):.0f} s",
                explanation="What is discarded has to be sent again.",
                since_seconds=since,
                series=(name,),
            )


RULE = LiveRule(
    id="packets-discarded",
    title="A port throws packets away",
    severity="warning",
    check=check,
    longest_interval_seconds=8.0,
    recommended=advice(
        "find-congestion",
        "See whether the peer's switch port is congested, and whether this host empties its rings in time.",
        "ethtool -S <interface> | grep -i -e discard -e drop -e missed",
        "ethtool -g <interface>",
    ),
)
