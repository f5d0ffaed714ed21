"""A fabric test over lab hosts by real ssh: a slow host and a slow path found and told apart, a dead host reported."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.playbooks.local import require_ansible

pytestmark = [pytest.mark.lab, pytest.mark.alone]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    require_lab()
    require_ansible()
    with Lab(nodes=6) as built:
        if built.ssh is None:
            pytest.skip("the lab needs an sshd: apt-get install openssh-server")
        yield built


def fabric_run(lab: Lab, *options: str) -> tuple[int, dict[str, Any], str]:
    assert lab.ssh is not None
    inventory = Path(lab.folder.shared) / "hosts.yml"
    hosts = "".join(f"    {node.hostname}: {{ansible_host: {node.address}}}\n" for node in lab.nodes)
    inventory.write_text(
        f"all:\n  hosts:\n{hosts}  vars:\n    ansible_user: root\n    ansible_python_interpreter: {sys.executable}\n"
        f"    ansible_ssh_common_args: -F {lab.ssh.config_file}\n"
    )
    command = [
        sys.executable,
        "-m",
        "raybench",
        "fabric",
        "run",
        "-i",
        inventory,
        "--scope",
        "all",
        "--seconds",
        "1",
        "--json",
    ]
    done = lab.control.run([*command, "--output-dir", Path(lab.folder.shared) / "runs", *options], timeout=280)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


@pytest.mark.long
def test_a_slow_host_and_a_slow_way_are_told_apart_and_a_dead_host_is_reported(lab: Lab) -> None:
    slow, one, other, dead = lab.nodes[4], lab.nodes[0], lab.nodes[2], lab.nodes[5]
    lab.shape(slow, "50mbit")
    lab.shape_way(one, other, "50mbit")
    dead.kill()
    status, report, said = fabric_run(lab, "--tool", "tcp")
    named = {(suspect["kind"], tuple(suspect["hosts"])) for suspect in report["suspects"] if suspect["confirmed"]}
    assert named == {("host", (slow.hostname,)), ("link", (one.hostname, other.hostname))}, said
    assert (status, report["verdict"], report["status"]) == (1, "critical", "partial")
    verdicts = {host["name"]: host["verdict"] for host in report["hosts"]}
    assert (verdicts[slow.hostname], verdicts[dead.hostname], verdicts[one.hostname]) == ("fail", "error", "pass")
    assert "looking for the cause" in said
    held = [
        pair["value"]
        for pair in report["pairs"]
        if slow.hostname in {pair["source"]["host"], pair["destination"]["host"]}
    ]
    assert all(0.03 < value < 0.06 for value in held)  # the limit, by a measurement that counts what arrives
    assert lab.leftover_processes() == {}
    for node in lab.nodes[:5]:
        assert node.run(["sh", "-c", "ls -d /tmp/raybench-fabric-*"]).stdout == ""
