"""Alarms of links, cables and modules, as mlxlink, ethtool and ibv_devinfo print them."""

from typing import Any

from playbooks.module_utils.raybench_probe.counters import statistics_of

from .alarm_cases import AlarmCase, recorded_alarm
from .hosts import files, value
from .recorded import rdma

NDR, COPPER = recorded_alarm("mlxlink_connectx7_400g.txt"), recorded_alarm("mlxlink_copper.txt")
QSFP = recorded_alarm("ethtool_module_qsfp.txt")
NICS = {
    "rdma_devices": value(["mlx5_0"]),
    "rdma_drivers": value({"mlx5_0": "mlx5_core"}),
    "rdma_interfaces": value({"ens1f0": "mlx5_0"}),
}


def changed(text: str, *changes: tuple[str, str]) -> str:
    """An output in which values of rows were replaced; the row must be there."""
    lines = text.splitlines()
    for label, given in changes:
        (index,) = [
            i
            for i, line in enumerate(lines)
            if line.strip().startswith(f"{label} ") and line.strip()[len(label) :].lstrip().startswith(":")
        ]
        lines[index] = f"{lines[index].partition(' : ')[0]} : {given}"
    return "\n".join(lines)


def mlxlink(*changes: tuple[str, str], text: str = NDR) -> dict[str, Any]:
    """A host with a ConnectX-7 of which mlxlink says this."""
    return NICS | {"mlxlink:mlx5_0": changed(text, *changes)}


def module(*changes: tuple[str, str], text: str = QSFP) -> dict[str, Any]:
    """A host with an Ethernet port whose module says this."""
    return NICS | {"ethtool_module:ens1f0": changed(text, *changes)}


def statistics(**counters: int) -> dict[str, Any]:
    """A host with an Ethernet port that counted this since boot."""
    usual = {
        "rx_packets": 38460159194,
        "rx_crc_errors_phy": 0,
        "rx_discards_phy": 0,
        "module_high_temp": 0,
        "rx0_packets": 5,
    }
    rows = "".join(f"     {name}: {count}\n" for name, count in (usual | counters).items())
    return NICS | {"ethtool_statistics:ens1f0": f"NIC statistics:\n{rows}"}


def efa_counters(**grown: int) -> dict[str, Any]:
    """A host with an EFA device whose counters, as recorded, grew by this within a second."""
    rows = (line.split(" :") for line in rdma("hw_counters_efa.txt").splitlines())
    before = dict.fromkeys(grown, 0) | {name: int(count) for name, count in rows}
    after = {name: count + grown.get(name, 0) for name, count in before.items()}
    place = "rdmap0s29/ports/1/hw_counters/"
    counters = {"status": "ok", "seconds": 1.0, "before": {place + name: count for name, count in before.items()},
                "after": {place + name: count for name, count in after.items()}}  # fmt: skip
    return {"rdma_devices": value(["rdmap0s29"]), "rdma_drivers": value({"rdmap0s29": "efa"}), "counters": counters}


def statistic(name: str = "rdma_statistic_connectx.txt", **grown: int) -> dict[str, Any]:
    """A host whose counters, as ``rdma statistic`` printed them, grew by this within a second."""
    before = statistics_of(rdma(name))
    device = next(iter(before)).rpartition("/")[0]
    added = {f"{device}/{counter}": count for counter, count in grown.items()}
    before = dict.fromkeys(added, 0) | before
    after = {path: count + added.get(path, 0) for path, count in before.items()}
    return NICS | {"counters": {"status": "ok", "seconds": 1.0, "before": before, "after": after}}


def linked(said: str) -> dict[str, Any]:
    """A host of whose ports only ``rdma link`` tells."""
    return {"rdma_devices": value(["mlx5_0"]), "rdma_link": said}


def efa_parts(listed: str, packages: str) -> dict[str, Any]:
    """A host with EFA, what its installer says that it brought, and the packages that are there."""
    return {"rdma_drivers": value({"rdmap0s29": "efa"}), "dpkg": packages} | files(kernel={EFA_LIST: listed})


EFA_COUNTERS = "github.com/linux-rdma/perftest/issues/113, and Linux, drivers/infiniband/hw/efa: names of its counters"
STATISTIC = "rdma statistic of ConnectX (recorded_rdma/README.md), grown"
IB_LINK = (
    "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid {lid} sm_lid {sm} lmc 0 state {state} physical_state LINK_UP\n"
)
EFA_LIST = "/opt/amazon/efa_installed_packages"
EFA_OLD = (
    "# EFA installer version: 1.22.0\n# Debug packages installed: no\n# Packages installed:\nefa-config-1.13-1.el8.noarch "
    "efa-profile-1.5-1.el8.noarch libfabric-aws-1.17.0-1.el8.x86_64 libfabric-aws-devel-1.17.0-1.el8.x86_64 "
    "openmpi40-aws-4.1.5-1.x86_64 rdma-core-43.0-1.el8.x86_64"
)
DOWN = (("State", "Polling"), ("Physical state", "ETH_AN_FSM_ENABLE"))
MST = "Mellanox/mstflint, opcodes and texts of mlxlink; the output is of a ConnectX-7 (recorded_alarms/README.md)"
ETHTOOL = "ethtool -m, several public outputs (recorded_alarms/README.md)"
WARNING = "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\nNo IB devices found\n"

NIC_CASES: tuple[AlarmCase, ...] = (
    AlarmCase(name="link: bad signal integrity", check="rdma-link", verdict="fail", says="Bad signal integrity (opcode 15)", does="cable",
              fires=mlxlink(*DOWN, ("Status Opcode", "15"), ("Group Opcode", "PHY FW"), ("Recommendation", "Bad signal integrity")),
              near=mlxlink(), source=MST),
    AlarmCase(name="link: training failed", check="rdma-link", verdict="fail", says="opcode 5",
              fires=mlxlink(*DOWN, ("Status Opcode", "5"), ("Recommendation", "Link training failure")), near=mlxlink(text=COPPER), source=MST),
    AlarmCase(name="link: unsupported EEPROM", check="rdma-link", verdict="fail", says="opcode 1027",
              fires=mlxlink(*DOWN, ("Status Opcode", "1027"), ("Group Opcode", "MNG FW"), ("Recommendation", "Bad/unsupported EEPROM")),
              near=mlxlink(), source=MST),
    AlarmCase(name="link: cable is unplugged", check="rdma-link", verdict="warn", says="Cable is unplugged",
              fires=mlxlink(("State", "Disable"), ("Status Opcode", "1024"), ("Recommendation", "Cable is unplugged")), near=mlxlink(),
              source=MST),
    AlarmCase(name="link: cable speed not enabled", check="rdma-link", verdict="warn", says="Cable speed not enabled",
              fires=mlxlink(("Status Opcode", "25"), ("Group Opcode", "PHY FW"), ("Recommendation", "Cable speed not enabled")),
              near=mlxlink(), source="a public guide to ConnectX-5 (MFT 4.30)"),
    AlarmCase(name="link: effective BER", check="rdma-link", verdict="fail", says="Effective Physical BER 1e-12",
              fires=mlxlink(("Effective Physical BER", "1E-12")), near=mlxlink(("Effective Physical BER", "15E-255")),
              source="github.com/scitix/sichek, transceiver"),
    AlarmCase(name="link: raw BER", check="rdma-link", verdict="warn", says="Raw Physical BER 5e-05",
              fires=mlxlink(("Raw Physical BER", "5E-5")), near=mlxlink(("Raw Physical BER", "5E-8")), source="likewise"),
    AlarmCase(name="link: error rate of a minute", check="rdma-link", verdict="fail", says="Effective",
              fires=mlxlink(("Effective Physical BER", "3E-11")),
              near=mlxlink(("Effective Physical BER", "3E-11"), ("Time Since Last Clear [Min]", "0.6")), source="likewise"),
    AlarmCase(name="link: down again and again", check="rdma-link", verdict="warn", says="down 9 times",
              fires=mlxlink(("Link Down Counter", "9")), near=mlxlink(("Link Down Counter", "1")), source="likewise"),
    AlarmCase(name="link: recovered from errors", check="rdma-link", verdict="warn", says="recovered from errors 7 times",
              fires=mlxlink(("Link Error Recovery Counter", "7")), near=mlxlink(), source="likewise"),
    AlarmCase(name="link: slower than port and cable", check="rdma-link", verdict="warn", says="HDR, where port and cable can NDR",
              fires=mlxlink(("Speed", "IB-HDR")), near=mlxlink(("Speed", "IB-HDR"), ("Supported Cable Speed", "0x00000071 (HDR,EDR,FDR,SDR)")),
              source=MST),
    AlarmCase(name="module: too hot for its limit", check="rdma-optics", verdict="fail", says="module at 79 C, its limit 75 C",
              fires=mlxlink(("Temperature [C]", "79 [-5..75]")), near=mlxlink(("Temperature [C]", "66 [-5..75]")), source=MST),
    AlarmCase(name="module: near its limit", check="rdma-optics", verdict="warn", says="72 C of 75 C",
              fires=mlxlink(("Temperature [C]", "72 [-5..75]")), near=mlxlink(text=COPPER), source=MST),
    AlarmCase(name="module: too little light", check="rdma-optics", verdict="fail", says="Rx power -12.4 dBm",
              fires=mlxlink(("Rx Power Current [dBm]", "1.886,-12.400,2.281,1.976 [-10.41..6]")), near=mlxlink(), source=MST),
    AlarmCase(name="module: no light on a lane", check="rdma-optics", verdict="fail", says="missing on lane 3",
              fires=mlxlink(("Rx Power Current [dBm]", "1.886,1.989,-40.000,1.976 [-10.41..6]")),
              near=mlxlink(("Rx Power Current [dBm]", "N/A")), source=MST),
    AlarmCase(name="module: a lane with half the light", check="rdma-optics", verdict="warn", says="-2.9 dBm on lane 2",
              fires=mlxlink(("Rx Power Current [dBm]", "1.886,-2.900,2.281,1.976 [-10.41..6]")),
              near=mlxlink(("Rx Power Current [dBm]", "1.886,-0.900,2.281,1.976 [-10.41..6]")), source=MST),
    AlarmCase(name="module: laser too weak", check="rdma-optics", verdict="fail", says="Tx power -9.1 dBm",
              fires=mlxlink(("Tx Power Current [dBm]", "1.562,-9.100,1.559,1.761 [-8.508..5]")), near=mlxlink(), source=MST),
    AlarmCase(name="ethtool -m: no light", check="rdma-optics", verdict="fail", says="Laser rx power low alarm",
              fires=module(text=recorded_alarm("ethtool_module_dark.txt")),
              near=module(text=recorded_alarm("ethtool_module_without_values.txt")), source=ETHTOOL),
    AlarmCase(name="ethtool -m: temperature alarm", check="rdma-optics", verdict="fail", says="Module temperature high alarm",
              fires=module(("Module temperature high alarm", "On")), near=module(), source=ETHTOOL),
    AlarmCase(name="ethtool -m: temperature warning", check="rdma-optics", verdict="warn", says="Module temperature high warning",
              fires=module(("Module temperature high warning", "On")), near=module(), source=ETHTOOL),
    AlarmCase(name="ethtool -m: near its limit", check="rdma-optics", verdict="warn", says="71.4 C of 75 C",
              fires=module(("Module temperature", "71.40 degrees C / 160.52 degrees F")), near=module(), source=ETHTOOL),
    AlarmCase(name="ethtool -m: CMIS module without signal", check="rdma-optics", verdict="fail", says="Rx loss of signal",
              fires=module(text=QSFP + "\tRx loss of signal : [ Yes, No, No, No, No, No, No, No ]\n"),
              near=module(text=QSFP + "\tRx loss of signal : None\n\tModule State : 0x03 (ModuleReady)\n"), source="ethtool, cmis.c"),
    AlarmCase(name="ethtool -m: CMIS module in fault", check="rdma-optics", verdict="fail", says="Fault",
              fires=module(text=QSFP + "\tModule State : 0x05 (ModuleFault)\n"),
              near=module(text=QSFP + "\tModule State : 0x03 (ModuleReady)\n"), source="ethtool, cmis.c"),
    AlarmCase(name="ethtool -S: packets discarded", check="rdma-ethernet", verdict="warn", says="rx_discards_phy 58591428329",
              fires=statistics(rx_discards_phy=58591428329), near=statistics(rx_discards_phy=2), source="a public note on ConnectX (DPDK)"),
    AlarmCase(name="ethtool -S: CRC errors", check="rdma-ethernet", verdict="warn", says="rx_crc_errors_phy 40213",
              fires=statistics(rx_crc_errors_phy=40213), near=statistics(rx_crc_errors_phy=3), source="Linux, mlx5 counters"),
    AlarmCase(name="ethtool -S: hot module", check="rdma-ethernet", verdict="fail", says="module_high_temp 1",
              fires=statistics(module_high_temp=1), near=statistics(), source="Linux, mlx5 counters"),
    AlarmCase(name="ethtool -S: link down", check="rdma-ethernet", verdict="warn", says="link_down_events_phy 113",
              fires=statistics(link_down_events_phy=113), near=statistics(link_down_events_phy=2), source="Linux, mlx5 counters"),
    AlarmCase(name="EFA: packets dropped on receipt", check="rdma-counters", verdict="warn", says="rdmap0s29/1 rx_drops 400.0/s",
              fires=efa_counters(rx_drops=400), near=efa_counters(rx_bytes=10**9, rx_pkts=10**6), source=EFA_COUNTERS),
    AlarmCase(name="EFA: retransmissions that time out", check="rdma-counters", verdict="warn", says="retrans_timeout_events 7.0/s",
              fires=efa_counters(retrans_timeout_events=7), near=efa_counters(retrans_pkts=7), source=EFA_COUNTERS),
    AlarmCase(name="EFA: a peer that does not answer", check="rdma-counters", verdict="warn", says="unresponsive_remote_events 3.0/s",
              fires=efa_counters(unresponsive_remote_events=3), near=efa_counters(keep_alive_rcvd=3), source=EFA_COUNTERS),
    AlarmCase(name="EFA: a connection that is impaired", check="rdma-counters", verdict="warn", says="impaired_remote_conn_events 2.0/s",
              fires=efa_counters(impaired_remote_conn_events=2), near=efa_counters(completed_cmds=2), source=EFA_COUNTERS),
    AlarmCase(name="completions with an error", check="rdma-counters", verdict="warn", says="mlx5_0/1 req_cqe_error 3.0/s",
              fires=statistic(req_cqe_error=3), near=statistic(req_cqe_error=4, req_cqe_flush_error=4), source=STATISTIC),
    AlarmCase(name="responses with an error", check="rdma-counters", verdict="warn", says="resp_cqe_error 1.0/s",
              fires=statistic(resp_cqe_error=501, resp_cqe_flush_error=500), near=statistic(), source=STATISTIC),
    AlarmCase(name="acknowledgements that did not come", check="rdma-counters", verdict="warn", says="local_ack_timeout_err 9.0/s",
              fires=statistic(local_ack_timeout_err=9), near=statistic(rp_cnp_handled=40000, np_cnp_sent=52000, np_ecn_marked_roce_packets=9000),
              source=STATISTIC),
    AlarmCase(name="packets out of sequence", check="rdma-counters", verdict="warn", says="out_of_sequence 5000.0/s",
              fires=statistic(out_of_sequence=5000), near=statistic(out_of_sequence=40, rx_write_requests=10**6), source=STATISTIC),
    AlarmCase(name="sequence errors", check="rdma-counters", verdict="warn", says="packet_seq_err 30.0/s",
              fires=statistic(packet_seq_err=30), near=statistic(packet_seq_err=3), source=STATISTIC),
    AlarmCase(name="a receiver that is not ready", check="rdma-counters", verdict="fail", says="rnr_nak_retry_err 1.0/s",
              fires=statistic(rnr_nak_retry_err=1), near=statistic(rx_read_requests=1), source=STATISTIC),
    AlarmCase(name="adaptive retransmissions that time out", check="rdma-counters", verdict="warn", says="roce_adp_retrans_to 4.0/s",
              fires=statistic(roce_adp_retrans_to=4), near=statistic(roce_adp_retrans=4), source=STATISTIC),
    AlarmCase(name="Soft-RoCE: retries exceeded", check="rdma-counters", verdict="warn", says="rxe0/1 retry_exceeded_err 1.0/s",
              fires=statistic("rdma_statistic_soft_roce.txt", retry_exceeded_err=1),
              near=statistic("rdma_statistic_soft_roce.txt", sent_pkts=10**6, completer_retry_err=3), source="rdma statistic of Soft-RoCE (recorded_rdma/README.md)"),
    AlarmCase(name="rdma link: port down", check="rdma-port", verdict="fail", says="rxe0/1 Down/Polling",
              fires=linked(rdma("rdma_link_soft_roce_cable_out.txt")), near=linked(rdma("rdma_link_soft_roce.txt")),
              source="rdma link of Soft-RoCE (recorded_rdma/README.md)"),
    AlarmCase(name="rdma link: InfiniBand port that nobody brings up", check="rdma-sm", verdict="fail", says="none for mlx5_0/1",
              fires=linked(IB_LINK.format(lid=65535, sm=0, state="INIT")), near=linked(IB_LINK.format(lid=13, sm=1, state="ACTIVE")),
              source="iproute2, man rdma-link: its form for InfiniBand"),
    AlarmCase(name="EFA: libfabric too old for the plugin", check="rdma-efa-versions", verdict="fail",
              says="aws-ofi-nccl needs libfabric 1.18, here is 1.17.0", does="EFA installer",
              fires=efa_parts(EFA_OLD, "aws-ofi-nccl 1.9.1 installed"), near=efa_parts(EFA_OLD, "aws-ofi-nccl 1.7.4 installed"),
              source="github.com/aws/aws-parallelcluster-cookbook/pull/1882 and github.com/aws/aws-ofi-nccl/issues/241"),
    AlarmCase(name="EFA: parts of two installers", check="rdma-efa-versions", verdict="warn", says="installed is 2.1.0amzn5.0",
              fires=efa_parts(EFA_OLD.replace("1.17.0", "1.22.0"), "libfabric1-aws 2.1.0amzn5.0 installed"),
              near=efa_parts(EFA_OLD.replace("1.17.0", "2.1.0"), "libfabric1-aws 2.1.0amzn5.0 installed"),
              source="github.com/aws/aws-parallelcluster-cookbook/pull/1882, with another version"),
    AlarmCase(name="no device for libibverbs", check="rdma-verbs", verdict="fail", says="not seen: mlx5_0 (libibverbs: Warning",
              does="ibverbs-providers",
              fires=NICS | {"ibv_devinfo": {"status": "failed", "text": "No IB devices found\n", "rc": 255, "error": WARNING}},
              near=NICS | {"rdma_devices": value(["mlx5_12"]), "ibv_devinfo": rdma("ibv_devinfo_connectx6dx_port_down.txt")},
              source="several; libibverbs' own text"),
)  # fmt: skip
