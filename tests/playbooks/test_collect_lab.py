"""``raybench collect`` from lab hosts by real SSH: a cut connection, wrong keys, a dead host, and a diagnosis."""

import contextlib
import hashlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import answer
from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.lab.node import Node
from tests.playbooks.lab_cluster import LabController, wait_until
from tests.playbooks.local import require_ansible

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
CASE = Path(__file__).parents[1] / "diagnostics" / "cases" / "shm-too-small"
BIG_BYTES = 6_000_000


@pytest.fixture(scope="module")
def controller() -> Iterator[LabController]:
    require_lab()
    require_ansible()
    with Lab(nodes=3) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        controller = LabController(lab=lab)
        controller.write_inventory()
        yield controller


def collect(
    controller: LabController, *arguments: object, status: int, limit: str = "node1"
) -> tuple[dict[str, Any], str]:
    """The JSON of a collection, and what it said beside it."""
    done = controller.raybench(
        *("collect", "-i", controller.inventory, "--json", "--limit", limit, *arguments),
        *("--output-dir", controller.lab.folder.shared / "runs"),
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout), done.stderr


def sessions(node: Node) -> list[Any]:
    return [one for one in node.processes() if one.command.startswith("sshd") and "@notty" in one.command]


def test_a_connection_that_is_cut_is_taken_up_and_every_byte_comes_once(controller: LabController) -> None:
    node, name = controller.lab.nodes[0], "/tmp/nccl $(touch pwned);\n'x'.log"
    node.run(["sh", "-c", f'od -An -v -tx1 /dev/urandom | head -c {BIG_BYTES} > "$0"', name], check=True)
    digest = node.run(["sha256sum", "--zero", name]).stdout.split()[0]
    controller.lab.shape(node, "2mbit")  # the rest takes 20 s: it is cut long before it has come
    process = controller.start(
        *("collect", "-i", controller.inventory, "--json", "--limit", "node1", "--path", "/tmp/nccl*"),
        *("--output-dir", controller.lab.folder.shared / "cut"),
    )
    try:
        partial = controller.lab.folder.shared / "cut"
        assert wait_until(lambda: any(one.stat().st_size > 200_000 for one in partial.rglob("nccl*")), 60)
        for session in sessions(node):
            with contextlib.suppress(ProcessLookupError):  # it ends with another one
                node.signal(session, signal.SIGKILL)
        controller.lab.shape(node, None)
        out, errors = process.communicate(timeout=120)
    finally:
        controller.lab.shape(node, None)
    assert process.returncode == 0, out + errors
    (host,) = json.loads(out)["hosts"]
    assert (host["status"], host["resumed"], host["fetched_bytes"]) == ("complete", 1, BIG_BYTES)
    (file,) = host["files"]
    (local,) = partial.glob(f"*/hosts/node1/{file['local']}")
    assert local.name == "nccl%20%24%28touch%20pwned%29%3B%0A%27x%27.log"
    assert hashlib.sha256(local.read_bytes()).hexdigest() == digest
    assert node.run(["ls", "-d", "/pwned", "/root/pwned", "/tmp/pwned"]).stdout == ""
    node.run(["rm", name])


def test_what_the_hosts_logs_prove_is_said_and_a_dead_host_is_in_the_report(controller: LabController) -> None:
    (log,) = [case for case in CASE.glob("*/input.log") if json.loads(case.with_name("expected.json").read_text())][:1]
    for node in controller.lab.nodes[:2]:
        node.run(["sh", "-c", "cat > /var/log/nccl.log"], text_in=log.read_text())
        node.run(["sh", "-c", "seq 100000 > /var/log/nccl-long.log"])
    controller.lab.nodes[2].kill()
    report, said = collect(controller, "--path", "/var/log/nccl*", "--file-limit", "64K", limit="all", status=3)
    hosts = {host["name"]: host for host in report["hosts"]}
    assert [host["status"] for host in report["hosts"]] == ["complete", "complete", "unreachable"]
    assert "cannot be reached" in hosts["node3"]["problems"][0]
    assert "node3: unreachable" in said
    assert [(Path(file["remote"]).name, file["left_out_bytes"]) for file in hosts["node1"]["files"]] == [
        ("nccl-long.log", 588895 - 65536),
        ("nccl.log", 0),
    ]
    assert hosts["node2"]["facts"]["hostname"] == "node2"
    assert report["diagnosis"]["schema"] == "raybench.diagnosis/1"
    assert report["diagnosis"]["lines"]["nccl"] > 0
    folder = Path(report["folder"])
    assert json.loads((folder / "collection.json").read_text()) == report
    assert (folder / "node2" / "facts" / "uname.txt").read_text().startswith("Linux node2")


def test_host_keys_are_checked(controller: LabController, tmp_path: Path) -> None:
    assert controller.lab.ssh is not None
    known = controller.lab.folder.shared / "known_hosts"
    right = controller.lab.ssh.known_hosts.read_text()
    config = controller.lab.folder.shared / "ssh_config"
    config.write_text(
        controller.lab.ssh.config_file.read_text().replace(str(controller.lab.ssh.known_hosts), str(known))
    )
    path = ("--path", "/etc/hostname", "--ssh-config", config)

    known.write_text("")
    report, _ = collect(controller, *path, status=3)
    (problem,) = report["hosts"][0]["problems"]
    assert "is not known" in problem
    assert "--accept-new" in problem
    assert (report["hosts"][0]["status"], report["hosts"][0]["files"], known.read_text()) == ("unreachable", [], "")

    config.write_text(config.read_text().replace("StrictHostKeyChecking yes", "StrictHostKeyChecking ask"))
    report, _ = collect(controller, *path, "--accept-new", status=0)
    assert [file["remote"] for file in report["hosts"][0]["files"]] == ["/etc/hostname"]
    assert known.read_text().split()[2] == right.split()[2]

    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "wrong", "-f", str(tmp_path / "wrong")], check=True
    )
    wrong = (tmp_path / "wrong.pub").read_text().split()[1]
    known.write_text(f"10.88.0.1 ssh-ed25519 {wrong}\n")
    report, _ = collect(controller, *path, "--accept-new", status=3)
    assert "is not the one in known_hosts" in report["hosts"][0]["problems"][0]
    assert known.read_text() == f"10.88.0.1 ssh-ed25519 {wrong}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--path", "relative/*"], "is not an absolute path"),
        (["--run", "../../etc"], "is not the name of a run"),
        (["--run", "20200101-000000-aaaa"], "there is no run"),
        (["--file-limit", "much"], "is not a size"),
    ],
)
def test_wrong_use_is_refused(controller: LabController, arguments: list[str], said: str) -> None:
    done = answer("collect", "-i", str(controller.inventory), *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_playbook_collects_too_and_fails_the_host_whose_logs_are_critical(controller: LabController) -> None:
    (log,) = [case for case in CASE.glob("*/input.log") if json.loads(case.with_name("expected.json").read_text())][:1]
    controller.lab.nodes[1].run(["sh", "-c", "cat > /var/log/job9.log"], text_in=log.read_text())
    done = controller.playbook(
        "collect_logs.yml",
        "--limit=node1,node2",
        *("-e", json.dumps({"log_collect_output_folder": str(controller.lab.folder.shared / "played")})),
        *("-e", json.dumps({"log_collect_paths": ["/etc/hostname", "/var/log/job9*"]})),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    (found,) = (controller.lab.folder.shared / "played").glob("*/hosts/node1/files/etc/hostname")
    assert found.read_text() == "node1\n"
    recap = {line.split()[0]: line for line in done.stdout.partition("PLAY RECAP")[2].splitlines() if "failed=" in line}
    assert {name for name, line in recap.items() if "failed=0" not in line} == {"node2"}, recap
