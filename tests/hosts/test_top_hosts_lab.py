"""Hosts watched over SSH: one as it is, one whose agent says anything, one that is not there; and nothing is left."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command import RAYBENCH
from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.lab.requirement import find_sshd
from tests.processes.waiting import come_true

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

LIES = """#!/bin/sh
printf '%s' '{"kind":"warning","monotonic_seconds":2,"since_seconds":1,"series":[],"line":"","finding":'
printf '%s' '{"rule":"x","severity":"critical","confidence":"certain","explanation":"","summary":"\\u001b[2J node1",'
echo '"hosts":["node1"],"ranks":[0],"evidence":[],"recommendations":[]}}'
while sleep 0.2
do echo '{"kind":"reading","monotonic_seconds":NaN,"values":{"a/b/c":1e999}}'; head -c 100000 /dev/zero; done
"""


def test_hosts_are_watched_whatever_they_say_and_nothing_is_left_on_them() -> None:
    require_lab()
    if find_sshd() is None:
        pytest.skip("no sshd on this machine")
    with Lab(nodes=2) as lab:
        assert lab.ssh is not None
        honest, liar = lab.nodes
        path = f"PATH={Path(sys.executable).parent}:$PATH"
        honest.run(["sh", "-c", f"echo '{path}' > /root/.bashrc"]).check_returncode()
        script = f"mkdir -p /root/bin; cat > /root/bin/raybench <<'END'\n{LIES}END\nchmod +x /root/bin/raybench\n"
        liar.run(["sh", "-c", f"{script}echo 'PATH=/root/bin:$PATH' > /root/.bashrc"]).check_returncode()
        words = [*RAYBENCH, "top", "node1", "node2", "node9", "--ssh-config", str(lab.ssh.config_file), "--json"]
        top = lab.control.popen(words, stdout=subprocess.PIPE)
        assert top.stdout is not None
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            hosts = {one["name"]: one for one in json.loads(top.stdout.readline())["hosts"]}
            if hosts["node1"]["figures"] and hosts["node2"]["warnings"] and hosts["node9"]["state"] == "lost":
                break
        assert hosts["node1"]["state"] == "watched"
        assert any("processors busy" in name for name in hosts["node1"]["figures"])
        assert hosts["node1"]["warnings"] == []
        assert not hosts["node2"]["figures"]
        assert "cannot be reached" in hosts["node9"]["reason"]
        lab.reboot(honest, kept="/root/.bashrc")
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            hosts = {one["name"]: one for one in json.loads(top.stdout.readline())["hosts"]}
            if hosts["node1"]["reboots"] and hosts["node1"]["figures"]:
                break
        assert [hosts[name]["reboots"] for name in ("node1", "node2", "node9")] == [1, 0, 0]
        assert "node1 rebooted (not watched for " in hosts["node1"]["warnings"][-1]["text"]
        top.send_signal(signal.SIGINT)
        assert top.wait(60) == 0
        assert come_true(lambda: not lab.nodes[0].leftover_processes() + liar.leftover_processes())
