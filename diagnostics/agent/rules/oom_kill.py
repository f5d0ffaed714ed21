"""The kernel killed a process for lack of memory.

Symptom: oom_kill of /proc/vmstat grows, or the kernel's log has ``Out of memory: Killed process``.

Why: the memory of the machine, or of a container's limit, was used up. Where a rank was killed, the others wait for it.

Not when: it happened before the first reading. A process that is no rank, where the ranks are known, is a warning:
another job or service on the machine may have had a limit of its own.

Source: /proc/vmstat and the kernel's mm/oom_kill.c.
"""

import re
from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
_KILLS = "host/memory/oom_kills"
_KILLED = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory): Killed process (?P<pid>\d+) \((?P<name>[^)]{1,64})\)"
)


def check(window: Window) -> Iterator[Observed]:
    """Each process that the kernel's log names; without it that there was one."""
    named = False
    for event in window.recent_events(LOOKED_AT_SECONDS):
        if found := _KILLED.search(event.text):
            named = True
            rank = int(found["pid"]) in window.pids_ever
            yield RULE.observed(
                window,
                device=found["pid"],
                severity="critical" if rank or not window.pids_ever else "warning",
                summary=f"the kernel killed {found['name']} (process {found['pid']}{', a rank' if rank else ''}) "
                "for lack of memory",
                explanation="The memory of the machine, or of a container's limit, was used up.",
                since_seconds=event.monotonic_seconds,
                line=event.text,
            )
    kills = window.increase(_KILLS, LOOKED_AT_SECONDS)
    if kills and not named:
        yield RULE.observed(
            window,
            device="unnamed",
            summary=f"the kernel killed {kills:.0f} process{'' if kills == 1 else 'es'} for lack of memory",
            explanation="The memory of the machine, or of a container's limit, was used up; `dmesg` names the process.",
            since_seconds=window.grew_since(_KILLS, LOOKED_AT_SECONDS),
            series=(_KILLS,),
        )


RULE = LiveRule(
    id="oom-kill",
    title="The kernel killed a process for lack of memory",
    severity="critical; warning where the process is known not to be a rank",
    check=check,
    longest_interval_seconds=30.0,
    recommended=advice(
        "see-oom-kill",
        "See which process was killed and under whose limit; give it more memory or let it use less.",
        "dmesg -T | grep -i -A3 'out of memory'",
    ),
)
