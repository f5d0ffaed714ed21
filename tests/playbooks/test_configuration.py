"""The command around the playbook: what events say of items, what is printed, which exit code it ends with."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from module_utils.raybench_configure.items import ITEMS

from raybench.cli.configure import command
from raybench.documents.configuration import Configuration, HostConfiguration, ItemOutcome
from raybench.hosts import configuration
from raybench.hosts.configuration import check_tags, configure_hosts, items_from, known_tags
from raybench.hosts.inventory import Host, Inventory
from raybench.hosts.playbook import PlaybookEvent, PlaybookOutcome
from raybench.reports.builders.asked import Asked
from raybench.reports.terminal.report import print_document

from .local import require_ansible

ROOT = Path(__file__).parents[2]


def item(name: str, verdict: Any, **more: Any) -> ItemOutcome:
    return ItemOutcome(item=name, verdict=verdict, **more)


def host(name: str, *items: ItemOutcome, unreachable: str | None = None) -> HostConfiguration:
    return HostConfiguration(name=name, items=items, unreachable=unreachable)


def report(*hosts: HostConfiguration, complete: bool = True, check: bool = False) -> Configuration:
    return Configuration(action="configure", check=check, complete=complete, hosts=hosts)


def shown(done: Configuration, *, diff: bool = False) -> list[str]:
    stream = io.StringIO()
    print_document(done, stream, asked=Asked(diff=diff))
    return stream.getvalue().splitlines()


CHANGE = ({"kind": "file", "target": "/etc/x", "how": "created"},)


def test_hosts_that_fared_alike_share_a_line() -> None:
    done = report(
        host("n1", item("a.b", "changed", changes=CHANGE, pending=("later",))),
        host("n2", item("a.b", "changed", changes=CHANGE, pending=("later",))),
        host("n3", item("a.b", "failed", message="a.b: no\nroom"), unreachable="gone"),
    )
    assert shown(done) == [
        "# VERDICT: INCOMPLETE: changed 2 of 3 hosts; failed on n3; no answer of n3",
        "# raybench configure",
        "# changed  a.b [n1, n2]: /etc/x (created)",
        "# FAILED   a.b [n3]: a.b: no room",
        "# MISSING  1 host: gone: n3",
        "# In force later:",
        "#   later [n1, n2]",
        "# VERDICT: INCOMPLETE: changed 2 of 3 hosts; failed on n3; no answer of n3",
    ]


def test_what_a_host_says_cannot_move_the_cursor() -> None:
    done = report(host("n1", item("a.b", "failed", message="\x1b[2J\x1b]0;x\x07")))
    assert not any("\x1b" in line for line in shown(done))


def test_a_diff_is_shown_once_for_all_hosts_with_it() -> None:
    diff = ({"before_header": "file /etc/x", "after_header": "file /etc/x", "before": "a\n", "after": "b\n"},)
    done = report(*(host(name, item("a.b", "changed", changes=CHANGE, diff=diff)) for name in ("n1", "n2")), check=True)
    assert shown(done, diff=True)[2:] == [
        "  --- file /etc/x [all 2 hosts]",
        "    @@ -1 +1 @@",
        "    -a",
        "    +b",
        "# changed  a.b [all 2 hosts]: /etc/x (created)",
        "# VERDICT: OK: would change 2 of 2 hosts",
    ]


@pytest.mark.parametrize(
    ("done", "code"),
    [
        (report(host("n", item("a.b", "changed"), item("a.c", "skipped"))), 0),
        (report(host("n", item("a.b", "failed"))), 1),
        (report(host("n", item("a.b", "conflict"))), 1),
        (report(host("n", item("a.b", "right")), host("m", unreachable="no route")), 3),
        (report(host("n", item("a.b", "right")), complete=False), 3),
    ],
)
def test_exit_codes(done: Configuration, code: int) -> None:
    assert done.exit_code == code
    assert json.loads(json.dumps(done.to_json()))["exit_code"] == code


def test_a_module_that_broke_is_not_lost() -> None:
    broken = PlaybookEvent(kind="failed", host="n", task="Set limits", result={"msg": "MODULE FAILURE"})
    assert [(each.item, each.verdict, each.message) for each in items_from(broken)] == [
        ("Set limits", "failed", "MODULE FAILURE")
    ]
    other = PlaybookEvent(kind="ok", host="n", task="Gather", result={"ansible_facts": {}})
    assert list(items_from(other)) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-i", "/not/there.yml"], "there is no inventory"),
        (["--remove-packages"], "--remove-packages goes with --rollback"),
        (["--tags", "a b"], "no tag in configure.yml named 'a b'"),
        (["--tags", "memlock,nofiles"], "no tag in configure.yml named 'nofiles'; did you mean 'nofile'?"),
        (["--rollback", "--tags", "system_limits.memlok"], "no tag in configure.yml named 'system_limits.memlok'"),
        (["--forks", "0"], "0"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(options: list[str], said: str) -> None:
    require_ansible()
    if "-i" not in options:
        options = [*options, "-i", str(ROOT / "inventory" / "localhost.yml")]
    done = subprocess.run(
        [sys.executable, "-m", "raybench", "configure", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_tags_are_those_of_the_items() -> None:
    assert known_tags() == {name for item in ITEMS for name in item.split(".")}
    check_tags(["memlock", "roce_qos", "system_limits.nofile"])


def test_a_tag_that_nothing_has_is_no_success_in_the_playbook() -> None:
    require_ansible()
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "configure.yml", "--check", "--tags", "nofiles"],
        cwd=ROOT / "playbooks",
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "playbooks" / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 2
    assert "no role or item has the tag nofiles" in done.stdout


def test_help_shows_examples_without_ansible() -> None:
    shown = CliRunner().invoke(command, ["--help"])
    assert shown.exit_code == 0
    assert "raybench configure -i hosts.yml --rollback" in shown.output


def test_the_playbook_alone_writes_its_report_and_changes_nothing_in_check_mode(tmp_path: Path) -> None:
    require_ansible()
    written = tmp_path / "report.json"
    command_line = ["configure.yml", "--check", "--tags", "nccl_conf", "-e", f"configure_report={written}"]
    variables = json.dumps({"nccl_config_variables": {"NCCL_RAYBENCH_TEST": "1"}})
    before = Path("/etc/nccl.conf").read_text() if Path("/etc/nccl.conf").exists() else None
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", *command_line, "-e", variables],
        cwd=ROOT / "playbooks",
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "playbooks" / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    content = json.loads(written.read_text())
    assert (content["schema"], content["check"], content["unreachable"]) == ("raybench.configure/1", True, [])
    outcomes = content["hosts"]["localhost"]
    if os.geteuid() == 0:
        assert [(each["item"], each["verdict"]) for each in outcomes] == [("nccl_config.nccl_conf", "changed")]
        assert done.returncode == 0, done.stdout
    else:
        assert outcomes == []
        assert "this needs root" in done.stdout
        assert done.returncode == 2
    assert (Path("/etc/nccl.conf").read_text() if Path("/etc/nccl.conf").exists() else None) == before


DONE: dict[str, Any] = {"outcomes": [{"item": "a.b", "verdict": "right", "message": "", "changes": [], "diff": []}]}


@pytest.mark.parametrize(
    ("code", "through", "killed"), [(137, False, "SIGKILL"), (None, False, "a signal"), (2, False, ""), (137, True, "")]
)
def test_of_an_ansible_that_is_killed_it_is_told_which_hosts_are_done(
    monkeypatch: pytest.MonkeyPatch, code: int | None, through: bool, killed: str
) -> None:
    """Hosts had answered, so it was taken for a run that was through: exit code 0."""

    def play(*_: object, on_event: Any, **__: object) -> PlaybookOutcome:
        for name in ("n1", "n2"):
            on_event(PlaybookEvent(kind="ok", host=name, task="A", result=DONE))
        on_event(PlaybookEvent(kind="ok", host="n1", task="Fail where an item failed"))
        return PlaybookOutcome(return_code=code, status="failed", hosts=(), through=through)

    monkeypatch.setattr(configuration, "run_playbook", play)
    hosts = tuple(Host(name=name, address=name) for name in ("n1", "n2", "n3"))
    done = configure_hosts(Inventory(sources=("hosts.yml",), hosts=hosts, groups={}))
    assert done.exit_code == (3 if killed else 0)
    if killed:
        cut = f"Ansible (ansible-playbook) was ended by {killed}"
        assert done.error.startswith(f"{cut}; done: n1; not known: n2, n3; configure again")
        assert [host.unreachable is None for host in done.hosts] == [True, False, False]
        assert "1 item of it known" in str(done.hosts[1].unreachable)
        assert "nothing of it is known" in str(done.hosts[2].unreachable)
