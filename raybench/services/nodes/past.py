"""What the history says of hosts."""

from pathlib import Path
from typing import Any

from raybench.documents.preflight import PreflightReport
from raybench.errors import UsageError, known_names
from raybench.nodes.history import History, with_since


def check_history(path: Path) -> None:
    """Make the file where there is none. Raises UsageError for one that cannot be used."""
    with History(path):
        pass


def recorded(report: PreflightReport, path: Path) -> PreflightReport:
    """The report, taken into the history, with since when each node is in its state. Raises UsageError."""
    with History(path) as history:
        return with_since(report, history.record(report))


def past_of(path: Path, host: str | None) -> list[dict[str, Any]]:
    """All hosts, or one with its looks: state, since, when it was last right, and what changed since then.

    Raises UsageError for a file or a host that is not there.
    """
    if not path.exists():
        raise UsageError(f"there is no history {path}: 'raybench preflight --history {path}' begins one")
    with History(path) as history:
        found = history.hosts(host)
        if host is not None and host not in found:
            raise UsageError(f"the history has no host '{host}'; {known_names(host, list(history.hosts()))}"[:500])
        return [
            {
                "host": one.host,
                "state": one.state,
                "since": one.since,
                "seen_at": one.seen_at,
                "right_at": one.right_at,
                "changed": [change.line for change in one.changed] if one.state != "healthy" else [],
                "looks": [
                    {"at": look.at, "state": look.state, "reasons": list(look.reasons)} for look in history.looks(name)
                ]
                if host is not None
                else [],
            }
            for name, one in found.items()
        ]
