"""Preflight on a simulated InfiniBand fabric: a port that is down, one at reduced speed, one with errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.playbooks.ibsim import fabric, missing
from tests.playbooks.local import require_ansible

RATES = {"node1": "4xEDR", "node2": "4xEDR", "node3": "1xEDR", "node4": "4xEDR", "node5": "4xEDR"}


def test_a_port_down_a_slow_one_and_one_with_errors_are_found(tmp_path: Path) -> None:
    require_ansible()
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with fabric(tmp_path, RATES) as simulated:
        simulated.say('Unlink "node5"')
        simulated.say('PerformanceSet "node4"[1] PortCounters.SymbolErrorCounter=4000')
        report = preflight(tmp_path)
    found = {
        host["host"]: {c["check"]: c for c in host["checks"] if c["verdict"] in {"fail", "warn", "error"}}
        for host in report["hosts"]
    }
    assert sorted(found["node5"]) == ["drift-hardware", "rdma-port"] or sorted(found["node5"]) == ["rdma-port"]
    assert "Down/Polling" in found["node5"]["rdma-port"]["seen"]
    assert list(found["node3"]) == ["drift-hardware"]
    assert "port rates: 1 x 26" in found["node3"]["drift-hardware"]["seen"]
    assert "1 x 104" in found["node3"]["drift-hardware"]["expected"]
    assert list(found["node4"]) == ["rdma-counters"]
    assert "symbol_error 4000" in found["node4"]["rdma-counters"]["seen"]
    assert found["node1"] == found["node2"] == {}
    fine = {check["check"]: check["verdict"] for check in report["hosts"][0]["checks"]}
    assert fine["rdma-sm"] == fine["rdma-port"] == fine["rdma-counters"] == "pass"


def preflight(folder: Path) -> dict[str, list[dict[str, list[dict[str, str]]]]]:
    """The report on all nodes. Each is this machine, with another node's name for the simulator."""
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "preflight_prefix": ["ibsim-run"],
        "preflight_environment": {"SIM_HOST": "{{ inventory_hostname }}"},
        "preflight_ports": [],
    }
    hosts = folder / "hosts.yml"
    hosts.write_text(yaml.safe_dump({"all": {"vars": common, "hosts": {name: {} for name in RATES}}}))
    command = [sys.executable, "-m", "raybench", "preflight", "-i", hosts, "--only", "rdma,drift", "--json"]
    done = subprocess.run(
        [*command, "--output-dir", folder / "runs"], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 1, done.stderr
    report: dict[str, list[dict[str, list[dict[str, str]]]]] = json.loads(done.stdout)
    return report
