"""Other processes take the processors from the ranks.

Symptom: in a quarter of the last five seconds a task waited for a processor, all processors were busy, and processes
that are not of the job used one processor and more.

Why: another job, a backup, a build, a process left over. A rank that waits for a processor launches its kernels late,
and all others wait for it.

Not when: the job itself uses all processors (data loaders), nobody waits for one, or no rank was named to the agent: it
cannot know whose processes are whose then.

Source: the kernel's Documentation/accounting/psi.rst (cpu, some); without PSI the load average above the number of
processors. The limits are this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_WAITING = 0.25
LIMIT_BUSY = 0.9
LIMIT_PROCESSORS = 1.0
LOOKED_AT_SECONDS = 5.0
_WAITING = "pressure/cpu/some_seconds"


def check(window: Window) -> Iterator[Observed]:
    """One finding a command: that of the process that takes most."""
    if not window.pids or not _contended(window):
        return
    takers = sorted(_takers(window), reverse=True)
    if sum(used for used, _, _ in takers) < LIMIT_PROCESSORS:
        return
    used, pid, name = takers[0]
    command = window.last_word("others", pid) or f"process {pid}"
    yield RULE.observed(
        window,
        device=command,
        summary=f"processors: {command} (process {pid}), which is not of the job, takes {used:.1f} of "
        f"{window.latest('host/cpu/cores') or 0:.0f} while others wait",
        explanation="A rank that waits for a processor launches its kernels late, and the others wait for it.",
        since_seconds=window.first_seconds(name),
        series=(name, _WAITING),
    )


def _contended(window: Window) -> bool:
    cores, waiting = window.latest("host/cpu/cores"), window.rate(_WAITING, LOOKED_AT_SECONDS)
    busy = window.rate("host/cpu/busy_seconds", LOOKED_AT_SECONDS)
    if not cores or busy is None or busy < LIMIT_BUSY * cores:
        return False
    if waiting is not None:
        return waiting >= LIMIT_WAITING
    load = window.latest("host/load/one_minute")
    return load is not None and load > cores


def _takers(window: Window) -> Iterator[tuple[float, str, str]]:
    for pid, name in window.devices("other", "processors_used").items():
        used = window.latest(name)
        if used is not None:
            yield used, pid, name


RULE = LiveRule(
    id="cpu-contention",
    title="Other processes take the processors from the ranks",
    severity="warning",
    check=check,
    recommended=advice(
        "move-process",
        "End the process or move it elsewhere; give the job processors of its own.",
        "ps -eo pid,user,pcpu,comm --sort=-pcpu | head",
    ),
)
