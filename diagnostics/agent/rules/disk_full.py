"""A file system runs full.

Symptom: less than 5 % and less than 1 GiB of a file system that the agent was given is free; critical below 16 MiB. Or
less than 1 % and less than 10,000 of its inodes are; critical below 100.

Why: logs, checkpoints or core dumps; of inodes, data sets and caches of many small files. What is written next fails
("No space left on device"), and a rank that writes a checkpoint with it.

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
LIMIT_FILES_SHARE = 0.01
LIMIT_FILES = 10_000
FULL_FILES = 100


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
    yield from _without_files(window)


def _without_files(window: Window) -> Iterator[Observed]:
    """Of a file system that has room, and no inode for another file."""
    for folder, name in window.devices("filesystem", "free_files").items():
        free, total = window.latest(name), window.latest(f"filesystem/{folder}/total_files")
        if free is None or not total or free >= min(LIMIT_FILES_SHARE * total, LIMIT_FILES):
            continue
        full = free < FULL_FILES
        yield RULE.observed(
            window,
            device=f"{folder} files{' full' if full else ''}",
            severity="critical" if full else "warning",
            summary=f"{unquote(folder)}: {free:,.0f} of {total:,.0f} files (inodes) can still be made",
            explanation="Whoever makes a file then fails, whatever room is left: logs, results, checkpoints.",
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
        "df -i",
        "du -xh --max-depth=2 <folder> | sort -h | tail",
    ),
)
