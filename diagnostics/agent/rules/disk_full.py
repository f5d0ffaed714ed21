"""A file system runs full.

Symptom: less than 5 % and less than 1 GiB of a file system that the agent was given is free; critical below 16 MiB.

Why: logs, checkpoints or core dumps. What is written next fails, and a rank that writes a checkpoint with it.

Not when: a large file system is nearly full and has gigabytes left, or a small one has most of it free.

Source: statvfs. The limits are this project's.
"""

from collections.abc import Iterator
from urllib.parse import unquote

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_SHARE = 0.05
LIMIT_BYTES = 1 << 30
FULL_BYTES = 16 << 20


def check(window: Window) -> Iterator[Observed]:
    """One finding a folder, and one more where it gets worse."""
    for folder, name in window.devices("filesystem", "free_bytes").items():
        free, total = window.latest(name), window.latest(f"filesystem/{folder}/total_bytes")
        if free is None or not total or free >= min(LIMIT_SHARE * total, LIMIT_BYTES):
            continue
        full = free < FULL_BYTES
        yield RULE.observed(
            window,
            device=f"{folder}{' full' if full else ''}",
            severity="critical" if full else "warning",
            summary=f"{unquote(folder)}: {free / 2**20:,.0f} MiB of {total / 2**30:,.1f} GiB are free",
            explanation="What is written when it is full fails: logs, results, checkpoints.",
            since_seconds=window.now,
            series=(name,),
        )


RULE = LiveRule(
    id="disk-full",
    title="A file system runs full",
    severity="warning; critical where nothing is left",
    check=check,
    recommended=advice(
        "free-disk",
        "See what takes the space, and remove or move it.",
        "df -h",
        "du -xh --max-depth=2 <folder> | sort -h | tail",
    ),
)
