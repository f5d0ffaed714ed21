"""What the probe reads of RDMA devices, from a folder that stands for /sys/class/infiniband."""

from pathlib import Path

import pytest
from module_utils.raybench_host import rdma as host_rdma
from module_utils.raybench_probe import rdma as probe

from tests.preflight import recorded


@pytest.fixture
def soft_roce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded files of an emulated device, below a folder that stands for /sys/class/infiniband."""
    for line in recorded.rdma("sysfs_gids_soft_roce.txt").splitlines():
        path, _, content = line.removeprefix("/sys/class/infiniband/").partition(":")
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content + "\n")
    ports = tmp_path / "rxe0/ports/1"
    (ports / "gids/2").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    (ports / "pkeys").mkdir()
    (ports / "pkeys/0").write_text("0xffff\n")
    monkeypatch.setattr(host_rdma, "CLASS", str(tmp_path))
    return tmp_path / "rxe0"


def test_a_device_without_a_nic_is_known_by_its_parent(soft_roce: Path) -> None:
    (soft_roce / "parent").write_text("eth1\n")
    assert (host_rdma.device_names(), probe.drivers()) == (["rxe0"], {"rxe0": "rdma_rxe"})
    assert probe.interfaces() == {"eth1": "rxe0"}
    assert probe.gids() == [
        ["rxe0", 1, 0, "fe80:0000:0000:0000:5054:00ff:fe00:0101", "RoCE v2", "eth1"],
        ["rxe0", 1, 1, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2", "eth1"],
    ]
    assert probe.pkeys() == {"rxe0/1": ["0xffff"]}


def test_without_a_parent_the_gid_table_names_the_interface(soft_roce: Path) -> None:
    assert (probe.drivers(), probe.interfaces()) == ({"rxe0": ""}, {"eth1": "rxe0"})


def test_a_nic_is_known_by_its_driver_and_its_own_interface(soft_roce: Path) -> None:
    (soft_roce / "device/net/ens1f0").mkdir(parents=True)
    (soft_roce.parent / "mlx5_core").mkdir()
    (soft_roce / "device/driver").symlink_to(soft_roce.parent / "mlx5_core")
    assert (probe.drivers()["rxe0"], probe.interfaces()) == ("mlx5_core", {"ens1f0": "rxe0"})
