"""The history of hosts: since when, what changed since a host was last right, and several writers at once."""

import os
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from raybench.documents.preflight import CheckResult, PreflightHost
from raybench.errors import IncompleteRunError, UsageError
from raybench.nodes import history as module
from raybench.nodes.changes import changes, seen_of
from raybench.nodes.history import History, with_since
from raybench.nodes.hysteresis import Streak
from raybench.services.nodes.judged import read_report
from raybench.services.nodes.past import past_of
from raybench.services.preflight import _kept
from raybench.verdicts import NodeState

from .reports import dead, host, report, report_of


def at(minute: int) -> str:
    return f"2026-11-23T12:{minute:02}:00Z"


def record(path: Path, states: list[NodeState], name: str = "gpu-01") -> History:
    with History(path) as history:
        for minute, state in enumerate(states):
            history.record(report({name: state}, at(minute)))
    return history


@pytest.mark.parametrize(
    ("states", "since", "right", "streak"),
    [
        (["healthy"], 0, 0, Streak(good=1, fair=1)),
        (["healthy", "healthy", "drain", "drain"], 2, 1, Streak(bad=2)),
        (["drain", "healthy", "degraded", "degraded"], 2, 1, Streak(fair=3)),
        (["drain", "unknown", "drain"], 2, None, Streak(bad=2)),
        (["healthy", "unknown", "healthy"], 2, 2, Streak(good=1, fair=1)),
        (["unknown"], 0, None, Streak()),
    ],
)
def test_since_when_and_how_often_in_a_row(
    tmp_path: Path, states: list[NodeState], since: int, right: int | None, streak: Streak
) -> None:
    record(tmp_path / "h", states)
    with History(tmp_path / "h") as history:
        (found,) = history.hosts().values()
    assert (found.state, found.since, found.streak) == (states[-1], at(since), streak)
    assert found.right_at == (None if right is None else at(right))


def test_what_changed_since_it_was_last_right(tmp_path: Path) -> None:
    def checks(driver: str, rows: str, temperature: str) -> list[CheckResult]:
        own = host("a", "healthy").checks
        others = [one for one in own if one.check not in {"gpu-driver", "gpu-rows"}]
        return [
            *others,
            CheckResult(check="gpu-driver", verdict="pass", seen=driver),
            CheckResult(check="gpu-rows", verdict="fail" if rows else "pass", seen=rows),
            CheckResult(check="gpu-temperature", verdict="pass", seen=temperature),
        ]

    right = host("a", "healthy", checks=checks("550.54", "", "41 C"))
    bad = host("a", "drain", checks=checks("560.35", "2 rows failed", "57 C"))
    with History(tmp_path / "h") as history:
        history.record(report_of([right], at(0)))
        history.record(report_of([bad], at(1)))
        found = history.record(report_of([bad], at(2)))["a"]
    assert [one.line for one in found.changed] == [
        "gpu-rows: pass () -> fail (2 rows failed)",
        "gpu-driver: pass (550.54) -> pass (560.35)",
    ]
    (past,) = past_of(tmp_path / "h", "a")
    assert (past["since"], past["right_at"]) == (at(1), at(0))
    assert [(look["at"], look["state"]) for look in past["looks"]] == [(at(1), "drain"), (at(0), "healthy")]


def test_a_check_that_was_not_made_is_a_change_and_a_figure_is_none() -> None:
    before = {"gpu-rows": ("pass", ""), "gpu-temperature": ("pass", "41 C"), "host-os": ("pass", "Debian 12")}
    now = {"gpu-temperature": ("pass", "50 C"), "host-os": ("pass", "Debian 12")}
    assert [one.check for one in changes(before, now)] == ["gpu-rows"]
    assert changes(before, before) == ()
    twice = (CheckResult(check="x", verdict="fail", seen="b"), CheckResult(check="x", verdict="pass", seen="a"))
    assert seen_of(twice) == {"x": ("fail", "b")}


def test_a_report_gets_since_and_an_older_one_changes_nothing(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        history.record(report({"a": "drain", "b": "healthy"}, at(5)))
        known = history.record(report({"a": "drain", "b": "drain"}, at(9)))
        found = with_since(report({"a": "drain", "b": "drain"}, at(9)), known)
        assert [one.node.since for one in found.hosts if one.node] == [at(5), at(9)]
        for minute in (9, 3):
            again = history.record(report({"a": "healthy", "b": "drain"}, at(minute)))
            assert (again["a"].state, again["a"].streak.bad) == ("drain", 2)
        assert set(history.record(report({"c": "healthy"}, at(10)))) == {"c"}


def test_a_report_is_taken_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = report({"a": "healthy", "b": "healthy"}, at(1))
    with History(tmp_path / "h") as history:
        take = History._take

        def breaks(self: History, one: object, when: str) -> None:
            if getattr(one, "host", "") == "b":
                raise sqlite3.OperationalError("disk I/O error")
            take(self, one, when)  # type: ignore[arg-type]

        monkeypatch.setattr(History, "_take", breaks)
        with pytest.raises(IncompleteRunError, match="disk I/O error"):
            history.record(both)
        assert history.hosts() == {}


def test_old_looks_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LOOKS", 5)
    record(tmp_path / "h", [("healthy", "drain")[number % 2] for number in range(20)])  # type: ignore[misc]
    with History(tmp_path / "h") as history:
        assert [one.at for one in history.looks("gpu-01")] == [at(minute) for minute in range(19, 14, -1)]


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.nodes.reports import report; from raybench.nodes.history import History\n"
        "for minute in range(10):\n"
        "    with History(Path(sys.argv[1])) as history:\n"
        "        history.record(report({sys.argv[2]: 'healthy', 'all': 'drain'}, f'2026-11-23T12:{minute:02}:00Z'))\n"
    )
    path = str(tmp_path / "h")
    writers = [subprocess.Popen([sys.executable, "-c", code, path, f"n{number}"]) for number in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with History(tmp_path / "h") as history:
        found = history.hosts()
    assert sorted(found) == ["all", "n0", "n1", "n2"]
    assert [found[name].streak.good for name in ("n0", "n1", "n2")] == [10, 10, 10]
    assert found["all"].seen_at == at(9)


def test_the_file_is_its_owners_and_what_is_not_is_refused(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        record(tmp_path / "new/h", ["healthy"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new/h").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "new/h")
    (tmp_path / "open").touch(0o666)
    (tmp_path / "open").chmod(0o666)
    (tmp_path / "text").write_text("not a database, but long enough to be taken for the head of one " * 4)
    (tmp_path / "text").chmod(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE x (y)").connection.close()
    (tmp_path / "other").chmod(0o600)
    for name, told in {
        "link": "it is a link", "open": "chmod 600", "text": "damaged", "pipe": "not a regular file",
        "other": "something else", "new": "cannot be opened",
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=told):
            History(tmp_path / name)


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "h", ["healthy"])
    connection = sqlite3.connect(tmp_path / "h")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UsageError, match="newer raybench"):
        History(tmp_path / "h")


def test_a_host_that_is_not_in_it_is_said(tmp_path: Path) -> None:
    record(tmp_path / "h", ["healthy"])
    with pytest.raises(UsageError, match="gpu-01"):
        past_of(tmp_path / "h", "gpu-O1")
    with pytest.raises(UsageError, match="there is no history"):
        past_of(tmp_path / "none", None)


def test_a_state_that_is_none_is_damage(tmp_path: Path) -> None:
    record(tmp_path / "h", ["healthy"])
    connection = sqlite3.connect(tmp_path / "h")
    connection.execute("UPDATE host SET state = 'fine'")
    connection.commit()
    connection.close()
    with History(tmp_path / "h") as history, pytest.raises(UsageError, match="damaged"):
        history.hosts()


def test_what_a_wrong_clock_wrote_does_not_keep_a_node_as_it_is(tmp_path: Path) -> None:
    with History(tmp_path / "h") as history:
        history.record(report({"gpu-01": "healthy"}, "2999-01-01T00:00:00Z"))
        for minute in (1, 2):
            known = history.record(report({"gpu-01": "drain"}, at(minute)))["gpu-01"]
        assert (known.state, known.since, known.streak.bad) == ("drain", at(1), 2)


def test_preflight_writes_since_into_its_report(tmp_path: Path) -> None:
    for minute in (1, 2):
        finished = _kept(report({"a": "drain"}, at(minute)), tmp_path, tmp_path / "h")
        assert finished.remarks == ()
        written = read_report(tmp_path)
        assert [one.node.since for one in written.hosts if one.node] == [at(1)]
        assert written == finished.report
    (tmp_path / "h").chmod(0o666)
    (remark,) = _kept(report({"a": "drain"}, at(3)), tmp_path, tmp_path / "h").remarks
    assert "chmod 600" in remark


def test_a_host_with_another_boot_id_has_rebooted_and_one_that_did_not_answer_is_not_known_to(tmp_path: Path) -> None:
    def look(minute: int, boot: str, found: PreflightHost | None = None) -> bool:
        one = replace(found or host("gpu-01", "healthy"), boot_id=boot)
        with History(tmp_path / "h") as history:
            return history.record(report_of([one], at(minute)))["gpu-01"].rebooted

    first, second = "5d4f2c1e-0b6a-4a53-9a1c-0d6a1f0c7e11", "a0c1b2d3-1111-4222-8333-944455566677"
    assert not look(0, first)
    assert not look(1, first)
    assert not look(2, "", dead("gpu-01"))
    assert look(3, second)
    assert not look(3, first)  # no newer than what is known
    assert not look(4, second)
    assert not look(5, "")  # a probe of an older raybench does not say it
    (one,) = past_of(tmp_path / "h", "gpu-01")
    assert [look["reasons"] for look in one["looks"] if look["at"] == at(3)] == [["host-boot: it rebooted"]]
