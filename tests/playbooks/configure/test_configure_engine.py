"""The engine and its journal: first states are kept whatever happens, and come back unless somebody else was there."""

import json
import os
from pathlib import Path

import pytest
from module_utils.raybench_configure.engine import carry_out, roll_back
from module_utils.raybench_configure.errors import HostError, JournalError
from module_utils.raybench_configure.journal import FOLDER, Journal
from module_utils.raybench_configure.merge import take_back
from module_utils.raybench_configure.plan import ItemPlan, Setting, block, edited_file, every, own_file
from module_utils.raybench_configure.resources.file import FileResource
from module_utils.raybench_configure.resources.kernel import ValueResource

from tests.playbooks.hosts import TreeHost

FILES = {"/etc/app.conf": "a\nb\n", "/proc/sys/vm/swappiness": "60\n"}


@pytest.fixture
def host(tmp_path: Path) -> TreeHost:
    return TreeHost(tmp_path, FILES)


def plan(text: str = "x\n") -> ItemPlan:
    return ItemPlan(
        settings=[
            as_me(own_file("role.item", "/etc/new.d/sub/own.conf", text)),
            edited_file("/etc/app.conf", lambda old: block(old, "role", ["c"])),
            Setting(ValueResource("/proc/sys/vm/swappiness"), every("1")),
        ]
    )


def as_me(setting: Setting) -> Setting:
    """The same file, owned by whoever runs the tests."""
    state = {**(setting.wanted(None) or {}), "uid": os.geteuid(), "gid": os.getegid()}
    return Setting(setting.resource, lambda _: state, whole=True)


def undo(host: TreeHost, **options: bool):
    return roll_back(host, Journal(host), [], packages=False, check=options.get("check", False))


def test_all_is_made_once_and_taken_back(host: TreeHost) -> None:
    first = host.tree("etc", "proc", "var")
    made = carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert [change["how"] for change in made.changes] == ["created", "edited", "60 -> 1"]
    assert carry_out(host, Journal(host), "role.item", plan(), check=False).changes == []
    done = undo(host)
    assert (done.problem, done.conflicts, len(done.changes)) == (None, [], 3)
    assert host.tree("etc", "proc", "var") == first
    assert not host.path("/etc/new.d").exists()
    assert not host.path("/var/lib/raybench").exists()


def test_the_first_state_is_kept_over_later_runs_with_other_values(host: TreeHost) -> None:
    first = host.tree("etc", "proc")
    for text in ("x\n", "y\n", "z\n"):
        carry_out(host, Journal(host), "role.item", plan(text), check=False)
    assert host.path("/etc/new.d/sub/own.conf").read_text().endswith("z\n")
    undo(host)
    assert host.tree("etc", "proc") == first


def test_check_mode_plans_the_same_and_writes_nothing(host: TreeHost) -> None:
    first = host.tree("etc", "proc", "var")
    planned = carry_out(host, Journal(host), "role.item", plan(), check=True)
    assert host.tree("etc", "proc", "var") == first
    assert planned.changes == carry_out(host, Journal(host), "role.item", plan(), check=False).changes
    before = host.tree("etc", "proc", "var")
    assert len(undo(host, check=True).changes) == 3
    assert host.tree("etc", "proc", "var") == before


def test_a_run_that_dies_between_journal_and_write_is_taken_back(
    host: TreeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = host.tree("etc", "proc")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FileResource, "write", die)
    with pytest.raises(KeyboardInterrupt):
        carry_out(host, Journal(host), "role.item", plan(), check=False)
    monkeypatch.undo()
    assert undo(host).problem is None
    assert host.tree("etc", "proc") == first


def test_a_setting_that_fails_ends_its_plan_and_what_was_made_can_be_taken_back(host: TreeHost) -> None:
    first = host.tree("etc", "proc")
    host.path("/etc/app.conf").unlink()
    host.path("/etc/app.conf").mkdir()
    made = carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert "/etc/app.conf is not a regular file" in (made.problem or "")
    assert len(made.changes) == 1
    undo(host)
    host.path("/etc/app.conf").rmdir()
    host.put("/etc/app.conf", FILES["/etc/app.conf"])
    assert host.tree("etc", "proc") == first


def test_a_value_that_is_not_taken_is_an_error_and_can_be_taken_back(
    host: TreeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ValueResource, "write", lambda _, host, __: host.put("/proc/sys/vm/swappiness", "7\n"))
    made = carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert "'/proc/sys/vm/swappiness': '1'" in (made.problem or "")
    assert "'7'" in (made.problem or "")
    monkeypatch.undo()
    assert undo(host).conflicts == []
    assert host.text("/proc/sys/vm/swappiness") == "60\n"


def test_where_the_journal_cannot_be_written_nothing_is(host: TreeHost) -> None:
    host.put("/var/lib/raybench", "a file where the folder should be")
    with pytest.raises(JournalError, match="only root may write"):
        Journal(host)
    host.path("/var/lib/raybench").unlink()
    journal = Journal(host)
    host.path("/var/lib").mkdir(parents=True, exist_ok=True)
    host.path("/var/lib/raybench").symlink_to("/nowhere")
    first = host.tree("etc", "proc")
    made = carry_out(host, journal, "role.item", plan(), check=False)
    assert "nothing changed" in (made.problem or "")
    assert host.tree("etc", "proc") == first


@pytest.mark.parametrize("damage", ["", "{", '{"schema": "other/9"}', "[]"])
def test_a_damaged_journal_stops_everything(host: TreeHost, damage: str) -> None:
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    next(iter(sorted(host.path(FOLDER).glob("*.json")))).write_text(damage)
    with pytest.raises(JournalError):
        Journal(host)


def test_a_folder_that_others_may_write_is_refused(host: TreeHost) -> None:
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    host.path(FOLDER).chmod(0o777)
    with pytest.raises(JournalError, match="only root"):
        Journal(host)


def test_a_file_of_ours_that_was_edited_is_not_overwritten(host: TreeHost) -> None:
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    own = host.path("/etc/new.d/sub/own.conf")
    own.write_text("theirs\n")
    again = carry_out(host, Journal(host), "role.item", plan("newer\n"), check=False)
    assert own.read_text() == "theirs\n"
    assert "edited after raybench wrote it" in again.conflicts[0]
    done = undo(host)
    assert own.read_text() == "theirs\n"
    assert len(done.conflicts) == 1
    assert [entry.target for entry in Journal(host).entries] == ["/etc/new.d/sub/own.conf"]


def test_a_value_that_was_changed_since_stays(host: TreeHost) -> None:
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    host.put("/proc/sys/vm/swappiness", "30\n")
    assert "/proc/sys/vm/swappiness" in undo(host).conflicts[0]
    assert host.text("/proc/sys/vm/swappiness") == "30\n"


def test_only_the_items_that_were_named_are_taken_back(host: TreeHost) -> None:
    carry_out(host, Journal(host), "role.item", ItemPlan(settings=plan().settings[:1]), check=False)
    carry_out(host, Journal(host), "other.item", ItemPlan(settings=plan().settings[1:2]), check=False)
    roll_back(host, Journal(host), ["other"], packages=False, check=False)
    assert host.text("/etc/app.conf") == FILES["/etc/app.conf"]
    assert host.path("/etc/new.d/sub/own.conf").exists()


def test_mode_and_owner_of_a_file_that_is_edited_stay(host: TreeHost) -> None:
    host.path("/etc/app.conf").chmod(0o640)
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert host.path("/etc/app.conf").stat().st_mode & 0o7777 == 0o640


def test_a_link_is_followed_and_stays_a_link(host: TreeHost) -> None:
    host.put("/etc/real.conf", "r\n")
    host.path("/etc/app.conf").unlink()
    host.path("/etc/app.conf").symlink_to("real.conf")
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert host.path("/etc/app.conf").is_symlink()
    assert "c\n" in (host.text("/etc/real.conf") or "")
    undo(host)
    assert host.text("/etc/real.conf") == "r\n"


def test_a_journal_holds_no_secret_for_others(host: TreeHost) -> None:
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert host.path(FOLDER).stat().st_mode & 0o777 == 0o700
    for path in host.path(FOLDER).glob("*.json"):
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text())["schema"] == "raybench.configure-journal/1"


def test_a_large_or_odd_file_is_left_alone(host: TreeHost) -> None:
    host.path("/etc/app.conf").write_bytes(b"x" * (1 << 20) + b"y")
    with pytest.raises(HostError, match="1 MiB"):
        FileResource("/etc/app.conf").read(host)


def test_bytes_that_are_no_text_come_back(host: TreeHost) -> None:
    odd = b"\xff\xfe odd\r\nno end"
    host.path("/etc/app.conf").write_bytes(odd)
    carry_out(host, Journal(host), "role.item", plan(), check=False)
    assert host.path("/etc/app.conf").read_bytes().startswith(odd)
    undo(host)
    assert host.path("/etc/app.conf").read_bytes() == odd


@pytest.mark.parametrize(
    ("before", "after", "current", "expected"),
    [
        ("a\n", "a\nB\n", "a\nB\n", "a\n"),
        ("a\n", "a\nB\n", "z\na\nB\nq\n", "z\na\nq\n"),
        ("a", "a\nB\n", "a\nB\nq\n", "a\nq\n"),
        ("", "B\n", "B\nq\n", "q\n"),
        ("", "B\nC\n", "B\nX\n", None),
        ("size=1\n", "size=2\n", "size=3\n", None),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nB\n", "a\nb\n"),
        ("a\nb\n", "a\n", "a\nq\n", None),
    ],
)
def test_one_change_taken_out_of_many(before: str, after: str, current: str, expected: str | None) -> None:
    assert take_back(before, after, current) == expected
