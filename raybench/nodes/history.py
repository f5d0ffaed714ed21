"""The history of hosts, in one SQLite file: since when each is in its state, and what changed since it was last right.

``PRAGMA user_version`` is the version of the tables. Each report is one transaction, taken at once and waited for, so
that several writers share a file on a local disk; SQLite's locks do not hold on every network file system. The file is
its owner's only. What a report says that is not newer than what is known of a host changes nothing of it, unless what
is known is from the future: a clock was wrong then, and must not keep a node as it is until that time has come.
"""

import contextlib
import errno
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from raybench.documents.preflight import PreflightHost, PreflightReport
from raybench.errors import IncompleteRunError, UsageError
from raybench.nodes.changes import BOOT, Change, Seen, changes, seen_of
from raybench.nodes.hysteresis import Streak
from raybench.verdicts import NODE_STATES, NodeState

_VERSION = 1
_APPLICATION = 0x52424E48
_WAIT_SECONDS = 30.0
_MOST_AHEAD_SECONDS = 300.0  # clocks of two machines
_MOST_LOOKS = 500  # of a host; older ones are forgotten
_TABLES = """
CREATE TABLE host (
    host TEXT PRIMARY KEY, state TEXT NOT NULL, since TEXT NOT NULL, seen_at TEXT NOT NULL,
    bad INTEGER NOT NULL, good INTEGER NOT NULL, fair INTEGER NOT NULL,
    checks TEXT NOT NULL, right_at TEXT, right_checks TEXT
) WITHOUT ROWID;
CREATE TABLE look (
    host TEXT NOT NULL, at TEXT NOT NULL, state TEXT NOT NULL, reasons TEXT NOT NULL, PRIMARY KEY (host, at)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHistory:
    """What is known of a host. ``right_at`` is when it was last healthy; None where it never was.

    ``rebooted``: the look that was recorded found it with another boot id than when it had last answered.
    """

    host: str
    state: NodeState
    since: str
    seen_at: str
    streak: Streak
    right_at: str | None
    changed: tuple[Change, ...]
    seen: Seen
    rebooted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at which a host's state or reasons were others than before."""

    at: str
    state: str
    reasons: tuple[str, ...]


class History:
    """An open file, made where there is none; a context manager. Raises UsageError, IncompleteRunError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _make(path)
        with self._errors():
            self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close the file."""
        self._connection.close()

    def record(self, report: PreflightReport) -> dict[str, HostHistory]:
        """Take a report in, whole or not at all, and say what is known of its hosts then."""
        with self._errors(), self._transaction():
            taken = [host for host in report.hosts if host.node is not None]
            rebooted = {host.host for host in taken if self._take(host, report.finished_at)}
        known, names = self.hosts(), {host.host for host in report.hosts}
        return {name: replace(one, rebooted=name in rebooted) for name, one in known.items() if name in names}

    def hosts(self, name: str | None = None) -> dict[str, HostHistory]:
        """What is known of all hosts, or of one, by name."""
        which, values = (" WHERE host = ?", (name,)) if name is not None else ("", ())
        columns = "host, state, since, seen_at, bad, good, fair, checks, right_at, right_checks"
        with self._errors():
            rows = self._connection.execute(f"SELECT {columns} FROM host{which} ORDER BY host", values).fetchall()  # noqa: S608
            return {row[0]: _host(row) for row in rows}

    def looks(self, name: str) -> tuple[Look, ...]:
        """The looks at which a host's state or reasons changed, the newest first."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT at, state, reasons FROM look WHERE host = ? ORDER BY at DESC", (name,)
            ).fetchall()
            return tuple(Look(at=at, state=state, reasons=tuple(json.loads(reasons))) for at, state, reasons in rows)

    def _take(self, host: PreflightHost, at: str) -> bool:
        """Returns whether it has rebooted since it last answered."""
        assert host.node is not None
        state, seen = host.node.state, seen_of(host.checks, host.boot_id)
        known = self.hosts(host.host).get(host.host)
        if known is not None and at <= known.seen_at <= _latest():
            return False
        before = known.seen.get(BOOT) if known is not None else None
        rebooted = before is not None and BOOT in seen and seen[BOOT] != before
        if before is not None:
            seen.setdefault(BOOT, before)  # one that does not answer may be in the middle of it
        since = known.since if known is not None and known.state == state else at
        streak = (known.streak if known is not None else Streak()).after(state)
        reasons = [f"{one.check}: {one.action}" for one in host.node.reasons]
        reasons += [f"{BOOT}: it rebooted"] if rebooted else []
        self._note(host.host, at, state, reasons)
        text = json.dumps(seen)
        kept = "excluded" if state == "healthy" else "host"
        self._connection.execute(
            "INSERT INTO host VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host) DO UPDATE SET "  # noqa: S608
            "state = excluded.state, since = excluded.since, seen_at = excluded.seen_at, bad = excluded.bad, "
            "good = excluded.good, fair = excluded.fair, checks = excluded.checks, "
            f"right_at = {kept}.right_at, right_checks = {kept}.right_checks",
            (
                *(host.host, state, since, at, streak.bad, streak.good, streak.fair, text),
                *((at, text) if state == "healthy" else (None, None)),
            ),
        )
        return rebooted

    def _note(self, host: str, at: str, state: NodeState, reasons: list[str]) -> None:
        """Keep the look where it says something new."""
        written = json.dumps(reasons)
        last = self._connection.execute(
            "SELECT state, reasons FROM look WHERE host = ? ORDER BY at DESC LIMIT 1", (host,)
        ).fetchone()
        if last == (state, written):
            return
        self._connection.execute("INSERT OR REPLACE INTO look VALUES (?, ?, ?, ?)", (host, at, state, written))
        self._connection.execute(
            "DELETE FROM look WHERE host = ? AND at <= "
            "(SELECT at FROM look WHERE host = ? ORDER BY at DESC LIMIT 1 OFFSET ?)",
            (host, host, _MOST_LOOKS),
        )

    def _prepare(self) -> None:
        """Make the tables where there are none; several may try at once."""
        with self._transaction():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version == 0 and tables == 0:
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {_VERSION}")
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            elif application != _APPLICATION:
                raise UsageError(f"{self._path} is a database of something else; name another file")
            elif version > _VERSION:
                raise UsageError(f"{self._path} was written by a newer raybench (version {version}): update raybench")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Say of what SQLite says where it is and what to do."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            told = str(error)
            if "not a database" in told or "malformed" in told:
                raise UsageError(
                    f"the history {self._path} is damaged ({told}): move it away, and a new one is begun"
                ) from error
            raise IncompleteRunError(f"the history {self._path} cannot be used: {told}") from error
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(
                f"the history {self._path} is damaged ({error}): move it away, and a new one is begun"
            ) from error


def with_since(report: PreflightReport, known: Mapping[str, HostHistory]) -> PreflightReport:
    """The report with since when each node is in its state, and whether it has rebooted since it last answered."""
    return replace(report, hosts=tuple(_with_past(host, known.get(host.host)) for host in report.hosts))


def _with_past(host: PreflightHost, known: HostHistory | None) -> PreflightHost:
    if known is None or host.node is None:
        return host
    node = replace(host.node, since=known.since) if known.state == host.node.state else host.node
    return replace(host, node=node, rebooted=known.rebooted)


def _latest() -> str:
    """No look can have been later, by whichever machine's clock."""
    return (datetime.now(UTC) + timedelta(seconds=_MOST_AHEAD_SECONDS)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _host(row: tuple[Any, ...]) -> HostHistory:
    host, state, since, seen_at, bad, good, fair, checks, right_at, right_checks = row
    if state not in NODE_STATES:
        raise ValueError(f"the host {host!r} has the state {state!r}")
    before = json.loads(right_checks) if right_checks else None
    seen = _pairs(json.loads(checks))
    return HostHistory(
        host=host,
        state=state,
        since=since,
        seen_at=seen_at,
        streak=Streak(bad=bad, good=good, fair=fair),
        right_at=right_at,
        changed=changes(_pairs(before), seen) if before is not None else (),
        seen=seen,
    )


def _pairs(content: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {str(check): (str(verdict), str(seen)) for check, (verdict, seen) in content.items()}


def _make(path: Path) -> None:
    """An empty file of our own, or one that is ours. Raises UsageError for what somebody else put there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        told = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise UsageError(f"the history {path} cannot be opened: {told}") from error
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"the history {path} is not a regular file; name another")
    if found.st_uid != os.geteuid():
        raise UsageError(f"the history {path} belongs to another user ({found.st_uid}); name another file")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"the history {path} can be written by others: chmod 600 {path}")
