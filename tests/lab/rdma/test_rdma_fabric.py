"""ib_write_bw between machines with real verbs devices: figures, a limited link, a cable that is out. EMULATED."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rdma.image import build_image, missing_programs
from tests.lab.rdma.machines import RdmaLab
from tests.playbooks.local import require_ansible

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[3]
PATIENT = ("-e", "fabric_start_seconds=120", "-e", "fabric_limit_seconds=90", "-e", "fabric_queue_pairs=1")


@pytest.fixture(scope="module")
def lab() -> Iterator[RdmaLab]:
    folder = os.environ.get("RAYBENCH_RDMA_LAB")
    if not folder:
        pytest.skip("set RAYBENCH_RDMA_LAB to a folder for the image (700 MB, minutes to build, minutes to run)")
    if os.geteuid() != 0:
        pytest.skip("the RDMA lab needs root")
    if missing_programs():
        pytest.skip(f"the RDMA lab needs packages: apt-get install {' '.join(missing_programs())}")
    require_ansible()
    with RdmaLab(nodes=3, image=build_image(Path(folder))) as built:
        yield built


def fabric(lab: RdmaLab, folder: Path) -> dict[str, Any]:
    (folder / "hosts.yml").write_text(lab.inventory())
    playbook = Path(sys.executable).with_name("ansible-playbook")
    sources: list[str | Path] = [playbook, "-i", folder / "hosts.yml", ROOT / "playbooks/fabric.yml"]
    done = subprocess.run(
        lab.inside(*sources, *PATIENT, "-e", "fabric_scope=all", "-e", f"fabric_output={folder / 'fabric.json'}"),
        env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "playbooks/ansible.cfg"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    path = folder / "fabric.json"
    assert path.exists(), done.stdout[-3000:]
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def test_real_figures_a_limited_link_and_a_cable_that_is_out(lab: RdmaLab, tmp_path: Path) -> None:
    report = fabric(lab, tmp_path)
    assert (report["tool"], report["emulated"]) == ("ib_write_bw", True)
    figures = [pair["value"] for pair in report["pairs"] if pair["value"]]
    assert len(figures) >= 4, [pair["seen"] for pair in report["pairs"]]
    assert all(0.0001 < figure < 20 for figure in figures)
    assert any(pair["counters"] or pair["value"] for pair in report["pairs"])
    lab.cable(3, plugged=False)
    report = fabric(lab, tmp_path)
    (broken,) = [host for host in report["hosts"] if host["name"] == "node3"]
    assert (broken["verdict"], report["verdict"]) == ("fail", "fail")
    assert "DOWN" in broken["problems"][0]["seen"]
