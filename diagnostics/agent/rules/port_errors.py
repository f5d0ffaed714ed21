"""A port receives damaged data.

Symptom: symbol, receive, integrity or CRC errors of a port, or its link recoveries, grow by ten or more in a minute
(recoveries by five).

Why: a bad or dirty cable or transceiver, a connector that is not seated, a port that is failing, here or at the
switch. What is damaged is sent again, so transfers over this port get slower, and others wait for them.

Not when: a counter is high and stands still: that happened before. A single error in a minute is within what the
links are specified for. A counter that begins again after the driver was loaded anew is no growth.

Source: the limits of ibcheckerrs in infiniband-diags (SymbolErrors, RcvErrors and LinkIntegrityErrors 10), here
within a minute; five recoveries a minute is NVSentinel's limit; InfiniBand specification, volume 1, 16.1.3.5.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.series import series_of
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
_LIMITS = {
    ("port", "symbol_errors"): 10,
    ("port", "receive_errors"): 10,
    ("port", "integrity_errors"): 10,
    ("port", "link_recoveries"): 5,
    ("nic", "crc_errors"): 10,
    ("nic", "receive_errors"): 10,
}


def check(window: Window) -> Iterator[Observed]:
    """One finding a port, on the counter that grew most."""
    grown: dict[str, list[tuple[float, str]]] = {}
    for (group, metric), limit in _LIMITS.items():
        for device, name in window.growing(group, metric, LOOKED_AT_SECONDS):
            errors = window.increase(name, LOOKED_AT_SECONDS)
            if errors >= limit:
                grown.setdefault(device, []).append((errors, name))
    for device, counters in grown.items():
        errors, name = max(counters)
        since = window.grew_since(name, LOOKED_AT_SECONDS)
        yield RULE.observed(
            window,
            device=device,
            summary=f"{device}: {errors:,.0f} {series_of(name).title} in {max(window.now - since, 1):.0f} s",
            explanation="What arrives damaged is sent again: transfers over this port are slow, and others wait.",
            since_seconds=since,
            series=sorted(name for _, name in counters),
        )


RULE = LiveRule(
    id="port-errors",
    title="A port receives damaged data",
    severity="warning",
    check=check,
    longest_interval_seconds=30.0,
    recommended=advice(
        "mend-port",
        "Look at the link's error rates at both ends; clean, reseat or change the cable or transceiver.",
        "mlxlink -d <device> -c -e",
        "ethtool -S <interface> | grep -i -e err -e crc",
    ),
)
