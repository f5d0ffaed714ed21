"""A link went down.

Symptom: a port that was up is not any more, or went down and came back within the last minute.

Why: a cable pulled or failing, a transceiver that resets, a switch that restarts or blocks the port, somebody who took
the interface down. RDMA connections over it end, or wait for their time-out.

Not when: the link was down from the first reading on: a port that nobody uses, or one that comes up now.

Source: /sys/class/infiniband/*/ports/*/state and link_downed; carrier_changes and operstate of /sys/class/net
(Documentation/ABI/testing/sysfs-class-net).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Point, Window

LOOKED_AT_SECONDS = 60.0
# What counts, and how much more of it there is when a link that is up has been down: carrier_changes counts both ways,
# so one more is an interface that comes up.
_CHANGES = {"port": ("link_downed", 1), "nic": ("carrier_changes", 2)}


def check(window: Window) -> Iterator[Observed]:
    """One finding a port: down now, or down for a while."""
    for group, (changes, least) in _CHANGES.items():
        grown = window.growing(group, changes, LOOKED_AT_SECONDS)
        flapped = {device: name for device, name in grown if window.increase(name, LOOKED_AT_SECONDS) >= least}
        for device, name in window.devices(group, "up").items():
            if device not in flapped and not window.changed(name, LOOKED_AT_SECONDS):
                continue
            state = window.latest(name)
            points = window.points(name, LOOKED_AT_SECONDS)
            was_up = [point.seconds for point in points if point.value == 1]
            if state == 0 and was_up:
                yield _seen(window, device, was_up[-1] + window.interval_seconds, (name,), down=True)
            elif state == 1 and (device in flapped or _came_back(points)):
                shown = (flapped[device],) if device in flapped else (name,)
                yield _seen(window, device, _first_change(window, shown[0]), shown, down=False)


def _came_back(points: Sequence[Point]) -> bool:
    """Whether it was up, then down, and is up now: one that comes up for the first time was not lost."""
    values = [point.value for point in points]
    return 1 in values and 0 in values[values.index(1) :]


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
    longest_interval_seconds=30.0,
    recommended=advice(
        "mend-link",
        "Look at the cable and the switch port, and at what the kernel says of it.",
        "ip -s link show; ibstat <device>",
        "dmesg -T | grep -i -e <device> -e 'link'",
    ),
)
