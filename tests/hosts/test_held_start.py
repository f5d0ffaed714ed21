"""A playbook that starts beside the check of its inventory: no host before the check is done, none where it refuses."""

import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.hosts.playbook import PlaybookEvent, run_playbook
from tests.hosts.test_playbook import HOSTILE, marked
from tests.playbooks.local import local_inventory, require_ansible

PLAY = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Touch
      ansible.builtin.copy:
        content: "{{ said | default('nothing') }}"
        dest: "{{ playbook_dir }}/touched"
        mode: "0600"
"""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    require_ansible()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "play.yml").write_text(PLAY)
    return tmp_path / "play.yml"


def test_no_host_is_contacted_before_the_inventory_is_checked_and_variables_arrive(play: Path) -> None:
    inventory, touched = local_inventory(play.parent, "n1"), play.parent / "touched"
    seen: list[bool] = []

    def check(_: Mapping[str, str]) -> None:
        time.sleep(4)  # by then Ansible has started, and would have gone on
        seen.append(touched.exists())

    outcome = run_playbook(play, inventory=inventory.sources, variables={"said": HOSTILE}, check_inventory=check)
    assert (outcome.status, seen, touched.read_text()) == ("successful", [False], HOSTILE)
    assert sorted(path.name for path in play.parent.iterdir()) == ["hosts.yml", "play.yml", "touched"]


def test_without_variables_it_goes_on_as_well(play: Path) -> None:
    inventory = local_inventory(play.parent, "n1")
    outcome = run_playbook(play, inventory=inventory.sources, check_inventory=lambda _: None)
    assert (outcome.status, (play.parent / "touched").read_text()) == ("successful", "nothing")


@pytest.mark.parametrize("after_seconds", [pytest.param(0.0, marks=pytest.mark.long), 3.0])
def test_a_refused_inventory_ends_the_run_and_is_what_is_said(play: Path, after_seconds: float) -> None:
    def refuse(_: Mapping[str, str]) -> None:
        time.sleep(after_seconds)
        raise UsageError("host 'a;b' is refused")

    with pytest.raises(UsageError, match="a;b"):
        run_playbook(play, inventory=local_inventory(play.parent, "n1").sources, check_inventory=refuse)
    assert not (play.parent / "touched").exists()
    assert list(marked(play.parent)) == []


def test_an_inventory_that_ansible_cannot_read_either_is_told_by_the_check(play: Path) -> None:
    """Ansible ends before anybody writes to it."""
    (play.parent / "hosts.yml").write_text("all: [\n")

    def check(_: Mapping[str, str]) -> None:
        time.sleep(3)
        raise UsageError("the inventory cannot be used")

    with pytest.raises(UsageError, match="cannot be used"):
        run_playbook(play, inventory=[str(play.parent / "hosts.yml")], check_inventory=check)


def test_a_stop_while_the_inventory_is_checked_ends_what_checks_it(play: Path) -> None:
    stop, events = threading.Event(), list[PlaybookEvent]()

    def check(environment: Mapping[str, str]) -> None:
        script = "import time; time.sleep(600)"
        with subprocess.Popen([sys.executable, "-c", script], env={"TMPDIR": str(play.parent), **environment}) as child:
            threading.Timer(1, stop.set).start()
            child.wait()

    begun = time.monotonic()
    outcome = run_playbook(
        play,
        inventory=local_inventory(play.parent, "n1").sources,
        check_inventory=check,
        stop=stop,
        on_event=events.append,
    )
    assert outcome.status == "canceled"
    assert time.monotonic() - begun < 100
    assert not [event for event in events if event.host]
    assert list(marked(play.parent)) == []
