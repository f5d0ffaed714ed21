"""Running playbooks: what each host did, values that stay text, and that nothing is left when a run is ended."""

import contextlib
import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from raybench.errors import UsageError
from raybench.hosts.extra_variables import variables_file
from raybench.hosts.playbook import PlaybookEvent, event_from, message_of, run_playbook
from raybench.processes.owned_processes import MARK
from tests.playbooks.local import local_inventory, require_ansible
from tests.processes.waiting import words_of

PLAY = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Say
      ansible.builtin.debug:
        msg: "{{ said }}"
    - name: Refuse
      ansible.builtin.fail:
        msg: "not here"
      when: inventory_hostname == 'n2'
    - name: Wait
      ansible.builtin.command: sleep {{ seconds }}
      changed_when: false
"""
HOSTILE = "{{ lookup('pipe', 'touch pwned') }} $(touch pwned) 'x' \"y\"\nz \u2028 é 😀 #"


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    require_ansible()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "play.yml").write_text(PLAY)
    return tmp_path / "play.yml"


def marked(folder: Path) -> Iterator[psutil.Process]:
    """What runs that were started here have left; those of another session beside this one are not ours to judge."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            ours = MARK in environment and environment.get("TMPDIR") == str(folder)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def private_folders(folder: Path) -> Iterator[Path]:
    """The run's own folder, as each of its processes has it that does not end while it is asked."""
    for process in marked(folder):
        with contextlib.suppress(psutil.Error):
            yield Path(process.environ()["ANSIBLE_SSH_CONTROL_PATH_DIR"]).parent


def test_each_host_is_counted_and_a_failure_has_its_task_and_message(play: Path) -> None:
    events: list[PlaybookEvent] = []
    outcome = run_playbook(
        play,
        inventory=local_inventory(play.parent, "n1", "n2"),
        variables={"said": HOSTILE, "seconds": 0},
        on_event=events.append,
    )
    assert (outcome.status, outcome.return_code) == ("failed", 2)
    first, second = sorted(outcome.hosts, key=lambda host: host.name)
    assert (first.ok, first.failed, first.clean) == (2, 0, True)
    assert [(failure.task, failure.message) for failure in second.failures] == [("Refuse", "not here")]
    said = [event.result["msg"] for event in events if event.kind == "ok" and event.task == "Say"]
    assert said == [HOSTILE, HOSTILE]
    assert sorted(path.name for path in play.parent.iterdir()) == [
        "hosts.yml",
        "play.yml",
    ]  # nothing pwned, nothing left


def test_a_limit_and_a_playbook_that_cannot_be_read(play: Path) -> None:
    inventory = local_inventory(play.parent, "n1", "n2")
    play.write_text("- name: Broken\n  hosts: all\n  nonsense: true\n")
    outcome = run_playbook(play, inventory=inventory, limit="n1", check=True)
    assert outcome.status == "failed"
    assert "nonsense" in outcome.error


# Every day Ctrl-C, and an exception of the callback, stop one as well: below.
@pytest.mark.parametrize("how", [pytest.param("stop", marks=pytest.mark.long), "timeout"])
def test_a_run_that_is_ended_leaves_no_process(play: Path, how: str) -> None:
    stop = threading.Event()
    begun = time.monotonic()
    outcome = run_playbook(
        play,
        inventory=local_inventory(play.parent, "n1"),
        variables={"said": "x", "seconds": 600},
        timeout_seconds=5 if how == "timeout" else 300,
        stop=stop,
        on_event=lambda event: stop.set() if how == "stop" and event.task == "Wait" else None,
    )
    assert outcome.status == {"stop": "canceled", "timeout": "timeout"}[how]
    assert time.monotonic() - begun < 200
    assert list(marked(play.parent)) == []


@contextlib.contextmanager
def waiting(play: Path, seconds: int) -> Iterator[tuple["subprocess.Popen[str]", Iterator[str]]]:
    """A process whose run has come to the task that waits, and the lines that it prints from there on."""
    code = f"""
        from pathlib import Path
        from raybench.hosts.playbook import run_playbook
        from tests.playbooks.local import local_inventory
        outcome = run_playbook(
            Path({str(play)!r}), inventory=local_inventory(Path({str(play.parent)!r}), "n1"),
            variables={{"said": "x", "seconds": {seconds}}},
            on_event=lambda event: print(event.kind, event.task, flush=True),
        )
        print("status", outcome.status)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        try:
            assert next(line for line in lines if line == "start Wait\n")
            yield process, lines
        finally:
            process.kill()


def test_ctrl_c_ends_ansible_and_what_it_started(play: Path) -> None:
    with waiting(play, 601) as (process, lines):
        process.send_signal(signal.SIGINT)
        assert "status canceled\n" in list(lines)
        assert process.wait(60) == 0
    assert list(marked(play.parent)) == []


def test_a_run_whose_raybench_is_killed_leaves_nothing(play: Path) -> None:
    with waiting(play, 603) as (process, _):
        folder = next(private_folders(play.parent))
        assert (folder / "env" / "extravars").exists()
        process.kill()
    deadline = time.monotonic() + 60
    while list(marked(play.parent)) or folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_ansible_that_is_killed_is_told_with_its_signal_and_leaves_nothing(play: Path) -> None:
    def kill(event: PlaybookEvent) -> None:
        if event.kind == "start" and event.task == "Wait":
            ours = [one for one in marked(play.parent) if "ansible-playbook" in " ".join(words_of(one.pid)[:2])]
            min(ours, key=lambda one: one.create_time()).kill()  # its workers are younger

    outcome = run_playbook(
        play,
        inventory=local_inventory(play.parent, "n1"),
        variables={"said": "x", "seconds": 604},
        on_event=kill,
    )
    assert (outcome.status, outcome.killed) == ("failed", "Ansible (ansible-playbook) was ended by SIGKILL")
    assert list(marked(play.parent)) == []


def test_an_exception_of_the_callback_ends_the_run_and_is_raised(play: Path) -> None:
    def refuse(event: PlaybookEvent) -> None:
        if event.task == "Wait":
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        run_playbook(
            play,
            inventory=local_inventory(play.parent, "n1"),
            variables={"said": "x", "seconds": 602},
            on_event=refuse,
        )
    assert list(marked(play.parent)) == []


# What YAML, or Ansible's own reading of it, gives another type or another value.
TYPED_TEXTS = [
    "on", "no", "Yes", "0755", "0o17", "0x10", "6.10", "1e3", "1_000", "08", "1:30", "2026-01-01", "null", "~", "",
    "-1", ".inf", "True", "[a]", "{a: b}", "'q'", '"q"', "a: b", "# c", "!x", "*y", "&z", "%d", "{{ 7 * 7 }}",
    "{% raw %}", " a ", "a\nb\n",
    "\u2028\x85\u00e9\U0001f600", "__ansible_unsafe",
]  # fmt: skip
PRINT = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {content: "{{ {'values': said, 'one': first} | to_json }}", dest: "{{ target }}"}
"""


def test_variables_arrive_at_ansible_as_they_were_typed(tmp_path: Path) -> None:
    require_ansible()
    play, target = tmp_path / "print.yml", tmp_path / "said.json"
    play.write_text(PRINT)
    said = [*TYPED_TEXTS, 493, 6.5, True, False, None, {"6.10": "6.10", "nested": ["on", {"no": "no"}]}, HOSTILE]
    variables = {"said": said, "first": "on", "target": str(target)}
    outcome = run_playbook(play, inventory=local_inventory(tmp_path, "n1"), variables=variables)
    assert outcome.status == "successful", outcome.output_tail
    arrived = json.loads(target.read_text())
    assert list(map(repr, arrived["values"])) == list(map(repr, said))
    assert arrived["one"] == "on"


def test_the_file_of_variables_is_for_us_alone_and_takes_no_mark_of_ansible(tmp_path: Path) -> None:
    variables_file(tmp_path / "variables", {"said": "x"})
    assert (tmp_path / "variables").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="__ansible_vault"):
        variables_file(tmp_path / "refused", {"said": {"__ansible_vault": "x"}})


def test_events_and_messages_are_taken_from_what_the_runner_gives() -> None:
    raw = {"event": "runner_on_unreachable", "event_data": {"host": "n1", "task": "Ping", "res": {"msg": "no route"}}}
    event = event_from(raw)
    assert (event.kind, event.host, event.task, message_of(event.result)) == ("unreachable", "n1", "Ping", "no route")
    assert message_of({"msg": "a", "stderr": "a", "module_stderr": "b"}) == "a; b"
    assert message_of({"censored": "the output has been hidden"}) == "it failed without a message"
