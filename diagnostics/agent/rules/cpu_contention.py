"""Other processes take the processors from the ranks.

Symptom: in a quarter of the last five seconds a task waited for a processor, all processors were busy, and processes
that are not of the job used one processor and more, and a tenth of all.

Why: another job, a backup, a build, a process left over. A rank that waits for a processor launches its kernels late,
and all others wait for it.

Not when: the job itself uses all processors (data loaders), nobody waits for one, or no rank was named to the agent: it
cannot know whose processes are whose then.

Source: the kernel's Documentation/accounting/psi.rst (cpu, some); without PSI the load average above the number of
processors. The limits are this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.series import CPU_WAITING
from diagnostics.agent.window import Window

LIMIT_WAITING = 0.25
LIMIT_BUSY = 0.9
LIMIT_PROCESSORS = 1.0
LIMIT_SHARE = 0.1  # of the machine's processors: daemons of a large one use a few, whoever is at work
LOOKED_AT_SECONDS = 5.0


def check(window: Window) -> Iterator[Observed]:
    """One finding a command: the one whose processes take most."""
    if not window.pids or not _contended(window):
        return
    takers = _takers(window)
    used_by = {command: sum(used for used, _, _ in processes) for command, processes in takers.items()}
    cores = window.latest("host/cpu/cores") or 0
    if sum(used_by.values()) < max(LIMIT_PROCESSORS, LIMIT_SHARE * cores):
        return
    command = max(used_by, key=lambda name: used_by[name])
    _, pid, name = max(takers[command])
    more = f" and {len(takers[command]) - 1} more" if len(takers[command]) > 1 else ""
    yield RULE.observed(
        window,
        device=command,
        summary=f"processors: {command} (process {pid}{more}), which is not of the job, takes "
        f"{used_by[command]:.1f} of {cores:.0f} while others wait",
        explanation="A rank that waits for a processor launches its kernels late, and the others wait for it.",
        since_seconds=window.first_seconds(name),
        series=(*(series for _, _, series in takers[command]), CPU_WAITING),
    )


def _contended(window: Window) -> bool:
    cores, waiting = window.latest("host/cpu/cores"), window.rate(CPU_WAITING, LOOKED_AT_SECONDS)
    busy = window.rate("host/cpu/busy_seconds", LOOKED_AT_SECONDS)
    if not cores or busy is None or busy < LIMIT_BUSY * cores:
        return False
    if waiting is not None:
        return waiting >= LIMIT_WAITING
    load = window.latest("host/load/one_minute")
    return load is not None and load > cores


def _takers(window: Window) -> dict[str, list[tuple[float, str, str]]]:
    """By command: processors used, process id and series of each of its processes."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for pid, name in window.devices("other", "processors_used").items():
        used = window.latest(name)
        if used is not None:
            command = window.last_word("others", pid) or f"process {pid}"
            found.setdefault(command, []).append((used, pid, name))
    return found


RULE = LiveRule(
    id="cpu-contention",
    title="Other processes take the processors from the ranks",
    severity="warning",
    check=check,
    longest_interval_seconds=2.0,
    recommended=advice(
        "move-process",
        "End the process or move it elsewhere; give the job processors of its own.",
        "ps -eo pid,user,pcpu,comm --sort=-pcpu | head",
    ),
)
