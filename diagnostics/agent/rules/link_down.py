"""A link went down.

Symptom: a port that was up is not any more, or went down and came back within the last minute.

Why: a cable pulled or failing, a transceiver that resets, a switch that restarts or blocks the port, somebody who took
the interface down. RDMA connections over it end, or wait for their time-out.

Not when: the link was down from the first reading on: a port that nobody uses.

Source: /sys/class/infiniband/*/ports/*/state and link_downed; carrier_changes and operstate of /sys/class/net
(Documentation/ABI/testing/sysfs-class-net).
"""

from collections.abc import Iterator
from itertools import pairwise

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
_CHANGES = {"port": "link_downed", "nic": "carrier_changes"}


def check(window: Window) -> Iterator[Observed]:
    """One finding a port: down now, or down for a while."""
    for group, changes in _CHANGES.items():
        flapped = dict(window.growing(group, changes, LOOKED_AT_SECONDS))
        for device, name in window.devices(group, "up").items():
            if device not in flapped and not window.changed(name, LOOKED_AT_SECONDS):
                continue
            state = window.latest(name)
            points = window.points(name, LOOKED_AT_SECONDS)
            was_up = [point.seconds for point in points if point.value == 1]
            if state == 0 and was_up:
                yield _seen(window, device, was_up[-1] + window.interval_seconds, (name,), down=True)
            elif state == 1 and (device in flapped or any(point.value == 0 for point in points)):
                shown = (flapped[device],) if device in flapped else (name,)
                yield _seen(window, device, _first_change(window, shown[0]), shown, down=False)


def _first_change(window: Window, name: str) -> float:
    steps = pairwise(window.points(name, LOOKED_AT_SECONDS))
    return next((after.seconds for before, after in steps if after.value != before.value), window.now)


def _seen(window: Window, device: str, since: float, series: tuple[str, ...], *, down: bool) -> Observed:
    return RULE.observed(
        window,
        device=f"{device} {'down' if down else 'flap'}",
        severity="critical" if down else "warning",
        summary=f"{device}: the link is down" if down else f"{device}: the link went down and came back",
        explanation="Nothing gets through." if down else "What was on its way was lost; connections may have ended.",
        since_seconds=since,
        series=series,
    )


RULE = LiveRule(
    id="link-down",
    title="A link went down",
    severity="critical; warning where it came back",
    check=check,
    recommended=advice(
        "mend-link",
        "Look at the cable and the switch port, and at what the kernel says of it.",
        "ip -s link show; ibstat <device>",
        "dmesg -T | grep -i -e <device> -e 'link'",
    ),
)
