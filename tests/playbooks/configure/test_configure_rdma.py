"""GPU memory for the NICs, RDMA modules and packages, as items plan them for a host."""

from pathlib import Path

import pytest
from module_utils.raybench_configure.engine import carry_out
from module_utils.raybench_configure.journal import Journal
from module_utils.raybench_configure.rdma import package_plan
from module_utils.raybench_configure.resources.service import Transaction, parse_apt, parse_dnf

from .item_hosts import MLX, NVIDIA_CLOSED, NVIDIA_OPEN, machine, planned, targets


@pytest.mark.parametrize(
    ("version", "kernel", "symbols", "said"),
    [
        (NVIDIA_OPEN, "6.8.0-45-generic", "", "DMA-BUF: nothing to load (open kernel modules 570 on Linux 6.8)"),
        (NVIDIA_OPEN, "5.4.0-200-generic", "", "no peer memory API"),
        (NVIDIA_CLOSED, "6.8.0-45-generic", "", "no peer memory API"),
        (
            NVIDIA_CLOSED,
            "6.8.0-45-generic",
            "0 T ib_register_peer_memory_client\t[ib_uverbs]\n",
            "nvidia-peermem, because",
        ),
        (NVIDIA_CLOSED, "6.8.0-45-generic", "0 T my_ib_register_peer_memory_client2\n", "no peer memory API"),
        ("", "6.8.0", "", "no NVIDIA driver"),
    ],
)
def test_how_gpu_memory_is_reached_is_decided_from_driver_and_kernel(
    tmp_path: Path, version: str, kernel: str, symbols: str, said: str
) -> None:
    files = {**MLX, "/proc/sys/kernel/osrelease": kernel, "/proc/kallsyms": symbols}
    host = machine(tmp_path, files | ({"/proc/driver/nvidia/version": version} if version else {}), modprobe="")
    plan = planned(host, "gpu_peer_memory.peer_memory", method="auto")
    assert said in " ".join([plan.skipped or "", plan.problem or "", *plan.notes])
    assert ("nvidia-peermem" in targets(plan)) is said.startswith("nvidia-peermem")


def test_modules_are_those_of_the_hardware_and_listed_only_where_nothing_loads_them(tmp_path: Path) -> None:
    host = machine(tmp_path, {**MLX, "/sys/module/mlx5_core/x": "", "/sys/module/mlx5_ib/x": ""}, modprobe="")
    host.put("/usr/lib/modules-load.d/rdma.conf", "# RDMA\nib_umad\n")
    plan = planned(host, "rdma_driver.modules", extra=["rdma_rxe"])
    assert targets(plan) == ["/etc/modules-load.d/raybench-rdma.conf", "ib_uverbs", "rdma_ucm", "ib_umad", "rdma_rxe"]
    listed = (plan.settings[0].resource.text(plan.settings[0].wanted(None))).splitlines()[1:]
    assert listed == ["ib_uverbs", "rdma_ucm", "rdma_rxe"]


def test_a_machine_without_rdma_gets_no_modules(tmp_path: Path) -> None:
    files = {name: text.replace("0x15b3", "0x8086") for name, text in MLX.items() if "/pci/" in name}
    assert "no RDMA NIC" in (planned(machine(tmp_path, files), "rdma_driver.modules", extra=[]).skipped or "")


def test_a_module_that_the_kernel_lacks_is_advised_on_and_not_listed(tmp_path: Path) -> None:
    def modprobe(command: tuple[str, ...]) -> str:
        if command[-1] == "irdma":
            raise ValueError("FATAL: Module irdma not found")
        return ""

    plan = planned(machine(tmp_path, modprobe=modprobe), "rdma_driver.modules", extra=["irdma"])
    assert "no module irdma" in plan.advice[0]
    assert "irdma" not in targets(plan)


def test_packages_that_would_remove_others_are_not_installed(tmp_path: Path) -> None:
    commands = {
        "dpkg_query": "ii \tbash\n",
        "apt_get": "Remv libfoo [1]\nInst perftest (4.5 Debian:12 [amd64])\n",
    }
    plan = package_plan(machine(tmp_path, **commands), ["perftest"])
    assert plan.problem is not None
    assert "would remove libfoo" in plan.problem
    assert plan.settings == []


DNF = """Last metadata expiration check: 0:00:01 ago.
Dependencies resolved.
================================================================================
 Package              Architecture   Version              Repository       Size
================================================================================
Installing:
 perftest             x86_64         24.07.0-0.44.el9     appstream       361 k
Upgrading:
 libibverbs           x86_64         51.0-1.el9           baseos          436 k
Installing dependencies:
 libibumad            x86_64         51.0-1.el9           baseos           27 k
 pciutils-libs        x86_64         3.7.0-5.el9          baseos           41 k

Transaction Summary
================================================================================
Install  3 Packages
Upgrade  1 Package

Total download size: 865 k
Operation aborted.
"""


def test_what_dnf_would_do_is_read_heading_by_heading() -> None:
    assert parse_dnf(DNF) == Transaction(new=("perftest", "libibumad", "pciutils-libs"), upgraded=("libibverbs",))
    assert parse_dnf(DNF.replace("Upgrading:", "Removing dependent packages:")).removed == ("libibverbs",)
    assert parse_dnf("No match for argument: perftest\nError: Unable to find a match: perftest\n") == Transaction()


def test_an_upgrade_is_not_taken_for_a_new_package(tmp_path: Path) -> None:
    said = "Inst libc6 [2.36-9] (2.36-10 Debian:12 [amd64]) []\nInst perftest (4.5 Debian:12 [amd64])\nConf libc6\n"
    assert parse_apt(said) == Transaction(new=("perftest",), upgraded=("libc6",))
    plan = package_plan(machine(tmp_path, dpkg_query="ii \tlibc6\n", apt_get=said), ["perftest"])
    assert "rollback does not take those back" in plan.notes[0]
    assert plan.settings[0].resource.read(machine(tmp_path / "b", dpkg_query="ii \tlibc6\n")) == {"perftest": False}


KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBF\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_the_repository_of_doca_is_signed_and_its_package_waits_for_it(tmp_path: Path) -> None:
    host = machine(tmp_path, MLX, apt_get="", dpkg_query="ii \tbash\n")
    url = "https://example.org/doca/ubuntu24.04/x86_64/"
    plan = planned(host, "rdma_driver.repository", url=url, key=KEY)
    assert targets(plan) == ["/etc/apt/keyrings/raybench-doca.asc", "/etc/apt/sources.list.d/raybench-doca.list"]
    options = {"packages": ["bash"], "manage": "auto", "doca_repository": url}
    assert "once its repository is set up" in (planned(host, "rdma_driver.packages", **options).skipped or "")
    carry_out(host, Journal(host), "r", plan, check=False)
    line = (host.text("/etc/apt/sources.list.d/raybench-doca.list") or "").splitlines()[1]
    assert line == f"deb [signed-by=/etc/apt/keyrings/raybench-doca.asc] {url} ./"
    assert "doca-ofed cannot be installed" in (planned(host, "rdma_driver.packages", **options).problem or "")
