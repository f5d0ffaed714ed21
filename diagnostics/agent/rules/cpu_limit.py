"""A limit of processor time holds ranks back.

Symptom: the cgroup of a rank's process was held back by its quota in three quarters of its periods of the last four
seconds, or in a quarter of those of the last ten, and still is.

Why: a container, pod, unit or job got fewer processors than its processes use. Once they have used up their share of a
period (100 ms where nobody set another), all of them stand still until the next one, also a rank that was to launch a
kernel or to answer a peer: all other ranks wait for it. Libraries make as many threads as the machine has processors,
whatever the limit is, and use it up sooner.

Not when: it is held back for moments, as when modules are loaded, or no process of a rank was named to the agent.

Source: the kernel's Documentation/scheduler/sched-bwc.rst and Documentation/admin-guide/cgroup-v2.rst (cpu.max,
cpu.stat). The limits of this rule are this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

MOST_SHARE, MOST_SECONDS = 0.75, 4.0
LIMIT_SHARE, LOOKED_AT_SECONDS = 0.25, 10.0
_STILL_SECONDS = 2.5
_MOST_NAMED = 8


def check(window: Window) -> Iterator[Observed]:
    """One finding a group of processes, by the name of the group; a process whose group is not named is its own."""
    groups: dict[str, list[str]] = {}
    for pid in window.devices("process", "held_back_periods"):
        if _seconds(window, pid):
            groups.setdefault(window.last_word("processes", pid) or f"of process {pid}", []).append(pid)
    for group, pids in groups.items():
        yield _observed(window, group, sorted(pids, key=int))


def _seconds(window: Window, pid: str) -> float:
    """For how long a process has been held back that much; 0 where it is not."""
    held, periods = f"process/{pid}/held_back_periods", f"process/{pid}/cpu_limit_periods"
    if window.latest(held) is None or not window.increase(held, _STILL_SECONDS):
        return 0.0
    for share, seconds in ((MOST_SHARE, MOST_SECONDS), (LIMIT_SHARE, LOOKED_AT_SECONDS)):
        if window.covers(held, seconds) and window.increase(held, seconds) >= share * window.increase(periods, seconds):
            return seconds
    return 0.0


def _observed(window: Window, group: str, pids: list[str]) -> Observed:
    seconds = _seconds(window, pids[0])
    names = {metric: f"process/{pids[0]}/{metric}" for metric in _METRICS}
    held, periods = (window.increase(names[one], seconds) for one in ("held_back_periods", "cpu_limit_periods"))
    lost = window.increase(names["held_back_seconds"], seconds)
    limit = window.latest(names["cpu_limit_processors"])
    more = f" and {len(pids) - _MOST_NAMED} more" if len(pids) > _MOST_NAMED else ""
    return RULE.observed(
        window,
        device=group,
        summary=f"processors: the limit of the cgroup {group}{'' if limit is None else f', {limit:g} of them,'} held "
        f"back process{'es' if len(pids) > 1 else ''} {', '.join(pids[:_MOST_NAMED])}{more} in {held:.0f} of its last "
        f"{periods:.0f} periods, for {lost:.1f} s of processors in {seconds:.0f} s",
        explanation="All processes of the group stand still until the next period; the other ranks wait for them.",
        since_seconds=window.grew_since(names["held_back_periods"], seconds),
        series=names.values(),
    )


_METRICS = ("held_back_periods", "cpu_limit_periods", "held_back_seconds", "cpu_limit_processors")

RULE = LiveRule(
    id="cpu-limit",
    title="A limit of processor time holds ranks back",
    severity="warning",
    check=check,
    longest_interval_seconds=2.0,
    recommended=advice(
        "raise-cpu-limit",
        "Raise or lift the limit: resources.limits.cpu of the pod, --cpus of the container, CPUQuota= of the unit, "
        "cpu.max of the cgroup; or have fewer threads (OMP_NUM_THREADS, workers of data loaders).",
        "cat /proc/<pid>/cgroup",
        "grep . <group>/cpu.max <group>/cpu.stat",
    ),
)
