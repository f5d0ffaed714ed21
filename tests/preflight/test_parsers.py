"""Parsers on output of real tools."""

import pytest

from raybench.preflight.parsers.nvidia_smi import parse_nvlink_status, parse_smi, parse_topology
from raybench.preflight.parsers.pci import parse_lspci
from raybench.preflight.parsers.rdma import parse_ibstat, parse_mlnx_qos, ports_from_sysfs
from raybench.preflight.parsers.system import (
    parse_chrony,
    parse_dmesg,
    parse_meminfo,
    parse_ntpq,
    parse_packages,
    parse_pairs,
    xids_of,
)

from . import recorded


def test_nvidia_smi_of_an_a100() -> None:
    report = parse_smi(recorded.SMI_A100)
    assert (report.driver, report.cuda, len(report.gpus)) == ("535.161.08", "12.2", 2)
    first = report.gpus[0]
    assert (first.name, first.pci_address) == ("NVIDIA A100-SXM4-80GB", "0000:10:1c.0")
    assert first.get("PCI", "GPU Link Info", "Link Width", "Current") == "16x"
    assert first.number("FB Memory Usage", "Total") == 81920
    assert first.get("Remapped Rows", "Bank Remap Availability Histogram", "Max") == "639 bank(s)"
    assert first.get("Retired Pages", "Pending Page Blacklist") is None  # N/A
    assert first.get("Clocks Throttle Reasons", "HW Slowdown") == "Not Active"
    assert first.processes == ()


def test_nvidia_smi_of_an_h200_with_a_process_and_a_section_after_it() -> None:
    (gpu,) = parse_smi(recorded.SMI_H200).gpus
    assert [process["Name"] for process in gpu.processes] == ["/usr/bin/python3"]
    assert (gpu.get("Fabric", "State"), gpu.get("Fabric", "Status")) == ("Completed", "Success")
    assert gpu.get("Fabric", "Health", "Bandwidth") is None


@pytest.mark.parametrize("text", ["", recorded.SMI_BROKEN, "GPU 0000", "a : b : c\n      x"])
def test_what_is_no_report_gives_no_gpu(text: str) -> None:
    assert parse_smi(text).gpus == ()


def test_nvlink_status() -> None:
    up = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
    links = parse_nvlink_status(
        recorded.NVLINK_H100.format(first=up, second="\t Link 0: <inactive>\n\t Link 1: 26.562 GB/s\n")
    )
    assert len(links[0]) == 18
    assert links[1] == {0: None, 1: 26.562}


def test_topology_names_nics_by_its_legend_or_its_columns() -> None:
    table = parse_topology(recorded.TOPO_H100)
    assert table.gpus == ("GPU0", "GPU1")
    assert table.links["GPU1", "NIC1"] == "PIX"
    assert table.links["GPU0", "GPU1"] == "NV18"
    assert table.nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert parse_topology(recorded.TOPO_AZURE).links["GPU0", "mlx5_0"] == "SYS"
    assert parse_topology("no such thing").gpus == ()


def test_ibstat() -> None:
    text = recorded.IBSTAT_CONNECTX7.format(state="Down", physical="Polling", rate=10, lid=65535, sm=0)
    first, second = parse_ibstat(text)
    assert (first.name, first.device_type, first.rate_gbits, first.lid, first.sm_lid) == (
        "mlx5_0/1",
        "MT4129",
        400,
        48,
        1,
    )
    assert (second.state, second.physical_state, second.firmware) == ("Down", "Polling", "28.40.1000")
    (roce,) = parse_ibstat(recorded.IBSTAT_BLUEFIELD)
    assert (roce.device, roce.is_ethernet, roce.rate_gbits) == ("mlx5_bond_0", True, 400)
    (soft,) = parse_ibstat(recorded.IBSTAT_RXE)
    assert (soft.device_type, soft.firmware, soft.rate_gbits) == ("", "", 2.5)
    assert parse_ibstat("ibpanic: [2137592] main: stat of IB device 'mthca0' failed") == ()
    (simulated,) = parse_ibstat("CA 'ibsim0'\n\tCA type: simulator\n\tPort 1:\n\t\tRate: 26\n\t\tLink layer: IB\n")
    assert simulated.link_layer == "InfiniBand"


def test_ports_without_ibstat_are_read_from_sysfs() -> None:
    base = "/sys/class/infiniband/mlx5_0"
    values = {
        f"{base}/hca_type": "MT4123",
        f"{base}/fw_ver": "20.31.1014",
        f"{base}/ports/1/state": "4: ACTIVE",
        f"{base}/ports/1/phys_state": "5: LinkUp",
        f"{base}/ports/1/rate": "200 Gb/sec (4X HDR)",
        f"{base}/ports/1/lid": "0xc",
        f"{base}/ports/1/sm_lid": "0x5",
        f"{base}/ports/1/link_layer": "InfiniBand",
    }
    (port,) = ports_from_sysfs(values)
    assert (port.name, port.state, port.physical_state, port.rate_gbits) == ("mlx5_0/1", "Active", "LinkUp", 200)
    assert (port.lid, port.sm_lid, port.firmware) == (12, 5, "20.31.1014")
    assert ports_from_sysfs({}) == ()


def test_mlnx_qos() -> None:
    qos = parse_mlnx_qos(recorded.MLNX_QOS.format(trust="dscp", enabled="0   0   0   1   0   0   0   0   "))
    assert (qos.trust, qos.lossless, qos.priority_of_dscp[26]) == ("dscp", (3,), 3)
    none = parse_mlnx_qos(recorded.MLNX_QOS.format(trust="pcp", enabled="0   0   0   0   0   0   0   0   "))
    assert (none.trust, none.lossless) == ("pcp", ())
    assert parse_mlnx_qos("Netlink error: -95").lossless is None


def test_lspci() -> None:
    text = recorded.LSPCI_CONNECTX6.format(acs="+", mrr=512, link="Speed 8GT/s (downgraded), Width x8 (downgraded)")
    bridge, nic, gpu = parse_lspci(text)
    assert bridge.is_bridge
    assert bridge.acs_on == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert (nic.is_rdma_nic, nic.width, nic.width_capable, nic.speed_gts, nic.max_read_request) == (True, 8, 16, 8, 512)
    assert (nic.ats_on, nic.driver, nic.vendor) == (False, "mlx5_core", "15b3")
    assert (gpu.is_gpu, gpu.speed_gts, gpu.acs_on) == (True, 2.5, None)
    (short,) = parse_lspci(
        "00:1f.6 Ethernet controller [0200]: Intel Corporation I219-LM [8086:15bb]\n\tCapabilities: <access denied>\n"
    )
    assert (short.address, short.width, short.max_read_request) == ("0000:00:1f.6", None, None)


def test_xids_and_what_only_looks_like_one() -> None:
    text = (
        recorded.DMESG_XID.format(number=79)
        + recorded.DMESG_SXID.format(kind="Non-fatal")
        + "[12346.0] NVRM: Xid count 5\n"
    )
    first, second = xids_of(parse_dmesg(text, 20000.0))
    assert (first.number, first.device, first.switch) == (79, "0000:18:00", False)
    assert first.age_seconds == pytest.approx(20000 - 12345.678901)
    assert (second.number, second.device, second.switch) == (12028, "0000:c1:00.0", True)
    (stamped,) = xids_of(parse_dmesg("[Mon May 25 12:34:56 2026] NVRM: Xid (PCI:0000:1a:00): 13, Graphics SM", 20000.0))
    assert (stamped.number, stamped.age_seconds) == (13, None)


@pytest.mark.parametrize(
    ("text", "offset", "synchronised"),
    [
        (recorded.CHRONY.format(offset="0.000000990", direction="fast"), 0.00000099, True),
        (recorded.CHRONY.format(offset="12.5", direction="slow"), -12.5, True),
        (recorded.CHRONY_LOST, None, False),
        ("506 Cannot talk to daemon", None, False),
    ],
)
def test_chrony(text: str, offset: float | None, synchronised: bool) -> None:
    tracking = parse_chrony(text)
    assert (tracking.offset_seconds, tracking.synchronised) == (offset, synchronised)


def test_small_files() -> None:
    ntpq = "     remote           refid      st t when poll reach   delay   offset  jitter\n"
    assert (
        parse_ntpq(ntpq + "*10.0.0.1        10.1.1.1         2 u   33   64  377    0.412  -23.250   0.027\n")
        == -0.02325
    )
    assert parse_ntpq(ntpq + "+10.0.0.1        10.1.1.1         2 u   33   64  377    0.412  -23.250   0.027\n") is None
    assert parse_pairs('ID=ubuntu\nNAME="Ubuntu"\n#RemoveIPC=yes\n') == {"ID": "ubuntu", "NAME": "Ubuntu"}
    assert parse_meminfo("MemTotal:       24683592 kB\nHugePages_Total:       0\n") == {"MemTotal": 24683592 * 1024}
    assert parse_packages("rdma-core 44.0-2\nbroken\n") == {"rdma-core": "44.0-2"}
