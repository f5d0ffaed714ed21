"""Alarms of GPU nodes: an output of a real tool for each, what is said of it, and a near miss that must be silent.

``python -m tests.preflight.alarm_cases`` prints the table. Long outputs lie in ``recorded_alarms``, with their sources.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .hosts import files, result, value
from .hosts import host as host_of

FOLDER = Path(__file__).parent / "recorded_alarms"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmCase:
    """``verdict`` of ``check`` on a host with the readings ``fires``; ``quiet`` on one with the readings ``near``.

    ``says`` stands in what was seen, ``does`` in the advice. ``source`` is where the output was found.
    """

    name: str
    check: str
    fires: Mapping[str, Any]
    verdict: str
    says: str
    near: Mapping[str, Any]
    quiet: str = "pass"
    does: str = ""
    source: str = ""


def recorded_alarm(name: str) -> str:
    """An output that is too long to stand here."""
    return (FOLDER / name).read_text()


H100 = recorded_alarm("nvidia_smi_h100.txt")


def smi(*changes: tuple[str, str], name: str = "", after: str = "", rc: int = 0) -> dict[str, Any]:
    """``nvidia-smi -q`` of two H100, in whose first GPU the value of a line was replaced: ("Compute Mode", "Prohibited").

    A change may name its section: ("Fabric/State", "In Progress").
    """
    lines = H100.splitlines()
    for label, changed in changes:
        section, _, label_of = label.rpartition("/")
        start = next(i for i, line in enumerate(lines) if line.strip() == section) if section else 0
        index = next(i for i, line in enumerate(lines) if i >= start and line.strip().startswith(f"{label_of} "))
        head, _, _ = lines[index].partition(" : ")
        lines[index] = f"{head} : {changed}"
    text = "\n".join(lines)
    text = text.replace("NVIDIA H100 80GB HBM3", name) if name else text
    status = "ok" if rc == 0 else "failed"
    return {"nvidia_smi": {"status": status, "text": text, "rc": rc, "error": after}} | NVIDIA


def fabric(**health: str) -> dict[str, Any]:
    """The same with rows of the NVLink fabric's health, as drivers since 580 print them."""
    rows = {"Summary": "Healthy", "Bandwidth": "Full", "Route Recovery in progress": "False", "Route Unhealthy": "False",
            "Access Timeout Recovery": "False", "Incorrect Configuration": "None"}  # fmt: skip
    rows |= {name.replace("_", " "): state for name, state in health.items()}
    printed = "\n".join(f"            {name:<30}: {state}" for name, state in rows.items())
    text = H100.replace("            Bandwidth                     : N/A", printed, 1)
    return {"nvidia_smi": text} | NVIDIA


def log(*lines: str, **more: Any) -> dict[str, Any]:
    """A host with NVIDIA's GPUs, whose kernel said this a minute ago."""
    text = "\n".join(line if line.startswith("[") else f"[19940.100000] {line}" for line in lines)
    return {"dmesg": text} | files(proc={"/proc/uptime": "20000.0 1.0"}) | NVIDIA | more


NVIDIA = {"devices": value({"/dev/nvidia0": True})}
RDMA = {"rdma_devices": value(["mlx5_0"])}
AMD_PCI = {"lspci": recorded_alarm("lspci_mi300x.txt"), "devices": value({"/dev/kfd": True})}
GPU_PCI = "0000:{bus}:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev {rev})\n"
ALIVE = GPU_PCI.format(bus="18", rev="a1") + "\n" + GPU_PCI.format(bus="2a", rev="a1")
DEAD = GPU_PCI.format(bus="18", rev="ff") + "\t!!! Unknown header type 7f\n\n" + GPU_PCI.format(bus="2a", rev="a1")
NVLINK = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
H100_NAME = "NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-00000000000{index})"
LINKS_UP = "".join(f"GPU {index}: {H100_NAME.format(index=index)}\n{NVLINK}" for index in (0, 1))


def nvlink(*counters: str) -> dict[str, Any]:
    """``nvidia-smi nvlink -e`` of two GPUs; the counters are of the second one's link 3."""
    usual = ("Replay Errors: 0", "Recovery Errors: 0", "CRC Errors: 0")

    def told(lines: tuple[str, ...]) -> str:
        return "".join(f"\t Link 3: {line}\n" for line in lines)

    text = f"GPU 0: {H100_NAME.format(index=0)}\n{told(usual)}GPU 1: {H100_NAME.format(index=1)}\n{told(counters or usual)}"
    return smi() | {"nvidia_smi_nvlink": LINKS_UP, "nvidia_smi_nvlink_errors": text}


def board(count: int, *, virtual: bool = False) -> dict[str, Any]:
    """A host with so many of a board's GPUs, in nvidia-smi as on the bus."""
    first, *_ = H100.split("\nGPU 00000000:2A")
    head, _, one = first.partition("GPU 00000000:18:00.0")
    gpus = [f"GPU 00000000:{16 + n:02X}:00.0" + one.replace("Module Id                         : 2",
            f"Module Id                         : {n + 1}") for n in range(count)]  # fmt: skip
    return {"nvidia_smi": head + "\n".join(gpus), "is_virtual": value(virtual)} | NVIDIA


def xid(text: str, pci: str = "0000:18:00") -> dict[str, Any]:
    """An Xid in the kernel's log."""
    return log(f"NVRM: Xid (PCI:{pci}): {text}")


GPUD = "github.com/leptonai/gpud, components/accelerator/nvidia/xid"
SMI = "recorded nvidia-smi of an H100, driver 565 (recorded_alarms/README.md), with the value of that line replaced"
UNKNOWN_HANDLE = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error"
GONE = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU"

NVIDIA_SMI: tuple[AlarmCase, ...] = (
    AlarmCase(name="GPU without a handle", check="gpu-lost", verdict="fail", says="0000:5F:00.0", does="reboot",
              fires=smi(after=UNKNOWN_HANDLE, rc=15), near=smi(), source="github.com/NVIDIA/dcgm-exporter/issues/604"),
    AlarmCase(name="GPU is lost", check="gpu-lost", verdict="fail", says="GPU is lost", does="power-cycle",
              fires={"nvidia_smi": {"status": "failed", "text": GONE + "\n", "rc": 15, "error": ""}} | NVIDIA, near=smi(),
              source="github.com/JosephKJ/OWOD/issues/81"),
    AlarmCase(name="GPU is lost, though nvidia-smi ends with 0", check="gpu-lost", verdict="fail", says="5F:00.0",
              fires=smi() | {"nvidia_smi_list": f"{UNKNOWN_HANDLE}\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"},
              near=smi() | {"nvidia_smi_list": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"},
              source="github.com/NVIDIA/open-gpu-kernel-modules/issues/387"),
    AlarmCase(name="no devices were found", check="gpu-lost", verdict="fail", says="No devices were found",
              fires={"nvidia_smi": {"status": "failed", "text": "No devices were found\n", "rc": 6, "error": ""}} | NVIDIA,
              near=smi(), source="several; nvidia-smi's exit code 6"),
    AlarmCase(name="ERR! in place of a value", check="gpu-lost", verdict="fail", says="ERR!",
              fires=smi(("GPU Power Readings/Power Draw", "ERR!")), near=smi(("Fan Speed", "N/A")), source=SMI),
    AlarmCase(name="[Unknown Error] in place of a value", check="gpu-lost", verdict="fail", says="Unknown Error",
              fires=smi(("Temperature/GPU Current Temp", "[Unknown Error]")), near=smi(), source=SMI),
    AlarmCase(name="GPU requires reset in place of a value", check="gpu-lost", verdict="fail", says="requires reset",
              fires=smi(("FB Memory Usage/Used", "[GPU requires reset]")), near=smi(), source="github.com/leptonai/gpud/pull/1133"),
    AlarmCase(name="GPU on the bus that gives ones", check="gpu-lost", verdict="fail", says="0000:18:00.0",
              fires=smi() | {"lspci": DEAD}, near=smi() | {"lspci": ALIVE}, source="lspci's text for a device that is off"),
    AlarmCase(name="recovery action: reset", check="gpu-recovery", verdict="fail", says="reset", does="--gpu-reset",
              fires=smi(("GPU Recovery Action", "Reset")), near=smi(), source="github.com/scitix/sichek/pull/121 (H200, 570)"),
    AlarmCase(name="recovery action: reboot", check="gpu-recovery", verdict="fail", says="reboot", does="reboot",
              fires=smi(("GPU Recovery Action", "Reboot")), near=smi(("GPU Recovery Action", "N/A")), source=SMI),
    AlarmCase(name="recovery action: drain P2P", check="gpu-recovery", verdict="fail", says="drain p2p", does="peer memory",
              fires=smi(("GPU Recovery Action", "Drain P2P")), near=smi(), source="nvml.h, nvmlDeviceGpuRecoveryAction_t"),
    AlarmCase(name="recovery action: drain and reset", check="gpu-recovery", verdict="fail", says="drain and reset",
              does="start none", fires=smi(("GPU Recovery Action", "Drain and Reset")), near=smi(), source="nvml.h, likewise"),
    AlarmCase(name="recovery action as GB200 writes it", check="gpu-recovery", verdict="fail", says="reset",
              fires=smi(("GPU Recovery Action", "GPU_RESET")), near=smi(), source="a public note on NVLink partitions (NVL72)"),
    AlarmCase(name="reset required", check="gpu-recovery", verdict="fail", says="reset",
              fires=smi(("Reset Required", "Yes"), ("GPU Recovery Action", "N/A")),
              near=smi(("Reset Required", "Requested functionality has been deprecated")), source=SMI),
    AlarmCase(name="drain and reset recommended", check="gpu-recovery", verdict="fail", says="drain and reset",
              fires=smi(("Drain and Reset Recommended", "Yes"), ("GPU Recovery Action", "None")),
              near=smi(("Drain and Reset Recommended", "Requested functionality has been deprecated")), source=SMI),
    AlarmCase(name="fabric: bandwidth degraded", check="gpu-fabric-health", verdict="fail", says="Bandwidth Degraded",
              fires=fabric(Bandwidth="Degraded", Summary="Limited Capacity"), near=fabric(),
              source="github.com/NVIDIA/k8s-test-infra/issues/677 (GB300 tray, 580)"),
    AlarmCase(name="fabric: route unhealthy", check="gpu-fabric-health", verdict="fail", says="Route Unhealthy True",
              fires=fabric(Route_Unhealthy="True", Summary="Unhealthy"), near=fabric(Route_Unhealthy="N/A"), source="likewise"),
    AlarmCase(name="fabric: route recovery", check="gpu-fabric-health", verdict="warn", says="Route Recovery",
              fires=fabric(Route_Recovery_in_progress="True", Summary="Unhealthy"), near=fabric(), source="likewise"),
    AlarmCase(name="fabric: access timeout", check="gpu-fabric-health", verdict="warn", says="Access Timeout",
              fires=fabric(Access_Timeout_Recovery="True", Summary="Unhealthy"), near=fabric(), source="likewise"),
    AlarmCase(name="fabric: wrong configuration", check="gpu-fabric-health", verdict="fail", says="Insufficient Nvlinks",
              fires=fabric(Incorrect_Configuration="Insufficient Nvlinks", Summary="Unhealthy"), near=fabric(), source="likewise"),
    AlarmCase(name="fabric: limited capacity alone", check="gpu-fabric-health", verdict="fail", says="Limited Capacity",
              fires=fabric(Summary="Limited Capacity"), near=smi(), quiet="skipped", source="likewise"),
    AlarmCase(name="fabric: a GPU in another clique", check="gpu-fabric-health", verdict="fail", says="clique 3",
              fires=smi(("Fabric/CliqueId", "3")), near=smi(), quiet="skipped", source=SMI),
    AlarmCase(name="fabric: insufficient resources", check="gpu-fabric", verdict="fail", says="Insufficient Resources",
              fires=smi(("Fabric/Status", "Insufficient Resources")), near=smi(), source="github.com/Azure/azhpc-images/pull/506"),
    AlarmCase(name="fabric: rack GPU without a domain", check="gpu-fabric-health", verdict="fail", says="no ClusterUUID",
              fires=smi(name="NVIDIA GB200"), near=smi(), quiet="skipped", source="github.com/Azure/azhpc-images/pull/506"),
    AlarmCase(name="power limit lowered", check="gpu-power", verdict="warn", says="500 W of 700 W", does="nvidia-smi -pl",
              fires=smi(("GPU Power Readings/Current Power Limit", "500.00 W"), ("GPU Power Readings/Requested Power Limit", "500.00 W")),
              near=smi(("GPU Power Readings/Current Power Limit", "699.99 W")), source=SMI),
    AlarmCase(name="power limit enforced below the requested", check="gpu-power", verdict="warn", says="in force",
              fires=smi(("GPU Power Readings/Current Power Limit", "600.00 W"), ("GPU Power Readings/Default Power Limit", "N/A")),
              near=smi(), source=SMI),
    AlarmCase(name="application clocks lowered", check="gpu-clock-limits", verdict="warn", says="1410 MHz of 1980 MHz",
              fires=smi(("Applications Clocks/Graphics", "1410 MHz")), does="-rac",
              near=smi(("Applications Clocks/Graphics", "Requested functionality has been deprecated")), source=SMI),
    AlarmCase(name="highest clock unlike its neighbours'", check="gpu-clock-limits", verdict="warn", says="highest SM clock 1755",
              fires=smi(("Max Clocks/SM", "1755 MHz")), near=smi(("Max Clocks/Video", "1200 MHz")), source=SMI),
    AlarmCase(name="compute mode prohibited", check="gpu-mode", verdict="fail", says="prohibited", does="-c DEFAULT",
              fires=smi(("Compute Mode", "Prohibited")), near=smi(), source=SMI),
    AlarmCase(name="compute mode exclusive", check="gpu-mode", verdict="warn", says="Exclusive_Process",
              fires=smi(("Compute Mode", "Exclusive_Process")), near=smi(), source=SMI),
    AlarmCase(name="ECC waits for a reboot", check="gpu-mode", verdict="warn", says="disabled pending",
              fires=smi(("ECC Mode/Pending", "Disabled")), near=smi(), source=SMI),
    AlarmCase(name="MIG waits for a reset", check="gpu-mode", verdict="warn", says="MIG disabled now, enabled pending",
              fires=smi(("MIG Mode/Pending", "Enabled")), near=smi(), source=SMI),
    AlarmCase(name="confidential computing", check="gpu-mode", verdict="warn", says="confidential",
              fires=smi(("Conf Compute Protected Memory Usage/Total", "80816 MiB")), near=smi(), source=SMI),
    AlarmCase(name="hardware slowdown", check="gpu-clocks", verdict="fail", says="HW Slowdown",
              fires=smi(("HW Slowdown", "Active")), near=smi(("SW Power Cap", "Active")), source=SMI),
    AlarmCase(name="thermal slowdown", check="gpu-clocks", verdict="fail", says="HW Thermal",
              fires=smi(("HW Thermal Slowdown", "Active")), near=smi(), source=SMI),
    AlarmCase(name="power brake", check="gpu-clocks", verdict="fail", says="Power Brake", does="brake",
              fires=smi(("HW Power Brake Slowdown", "Active")), near=smi(), source=SMI),
    AlarmCase(name="software thermal slowdown", check="gpu-clocks", verdict="warn", says="SW Thermal",
              fires=smi(("SW Thermal Slowdown", "Active")), near=smi(), source=SMI),
    AlarmCase(name="thermal margin", check="gpu-temperature", verdict="warn", says="2 C to its limit",
              fires=smi(("GPU T.Limit Temp", "2 C")), near=smi(("GPU T.Limit Temp", "12 C")), source=SMI),
    AlarmCase(name="hot memory", check="gpu-temperature", verdict="warn", says="memory 97 C",
              fires=smi(("Memory Current Temp", "97 C")), near=smi(("Memory Current Temp", "88 C")), source=SMI),
    AlarmCase(name="PCIe replays", check="gpu-pcie", verdict="warn", says="20431 replays", does="reseat",
              fires=smi(("Replays Since Reset", "20431")), near=smi(("Replays Since Reset", "7")), source=SMI),
    AlarmCase(name="PCIe replay rollover", check="gpu-pcie", verdict="warn", says="3 rollovers",
              fires=smi(("Replay Number Rollovers", "3")), near=smi(), source=SMI),
    AlarmCase(name="PCIe generation while in P0", check="gpu-pcie", verdict="warn", says="PCIe generation 3 of 5",
              fires=smi(("PCIe Generation/Current", "3")), near=smi(("PCIe Generation/Current", "1"), ("Performance State", "P8")), source=SMI),
    AlarmCase(name="row remap pending", check="gpu-rows", verdict="fail", says="pending", does="reset",
              fires=smi(("Remapped Rows/Pending", "Yes")), near=smi(("Remapped Rows/Uncorrectable Error", "2")), source=SMI),
    AlarmCase(name="row remap failed", check="gpu-rows", verdict="fail", says="failed", does="replace",
              fires=smi(("Remapping Failure Occurred", "Yes")), near=smi(), source=SMI),
    AlarmCase(name="bank without a spare row", check="gpu-rows", verdict="warn", says="1 banks without",
              fires=smi(("Bank Remap Availability Histogram/None", "1 bank(s)")),
              near=smi(("Bank Remap Availability Histogram/High", "4 bank(s)")), source=SMI),
    AlarmCase(name="bank with few spare rows", check="gpu-rows", verdict="warn", says="2 banks with few",
              fires=smi(("Bank Remap Availability Histogram/Low", "2 bank(s)")),
              near=smi(("Bank Remap Availability Histogram/Partial", "2 bank(s)")), source=SMI),
    AlarmCase(name="SRAM threshold exceeded", check="gpu-ecc", verdict="fail", says="SRAM threshold", does="replace",
              fires=smi(("SRAM Threshold Exceeded", "Yes")), near=smi(("Aggregate/DRAM Correctable", "12")), source=SMI),
    AlarmCase(name="uncorrected DRAM error", check="gpu-ecc", verdict="fail", says="1 uncorrected",
              fires=smi(("Volatile/DRAM Uncorrectable", "1")), near=smi(("Volatile/DRAM Correctable", "9")), source=SMI),
    AlarmCase(name="uncorrected SRAM error", check="gpu-ecc", verdict="fail", says="1 uncorrected",
              fires=smi(("Volatile/SRAM Uncorrectable SEC-DED", "1")), near=smi(), source=SMI),
    AlarmCase(name="infoROM corrupted", check="gpu-firmware", verdict="warn", says="infoROM is corrupted",
              fires=smi(after="WARNING: infoROM is corrupted at gpu 0000:67:00.0"), near=smi(), source="several public notes, drivers 418 on"),
    AlarmCase(name="VBIOS unlike its neighbours'", check="gpu-firmware", verdict="warn", says="96.00.89.00.01",
              fires=smi(("VBIOS Version", "96.00.89.00.01")), near=smi(), source=SMI),
    AlarmCase(name="NVLink recovery errors", check="gpu-nvlink-errors", verdict="fail", says="GPU 1 link 3 Recovery Errors 2",
              fires=nvlink("Replay Errors: 0", "Recovery Errors: 2", "CRC Errors: 0"), near=nvlink(),
              source="github.com/stas00/ml-engineering (H100)"),
    AlarmCase(name="NVLink replay errors", check="gpu-nvlink-errors", verdict="warn", says="Replay Errors 2353",
              fires=nvlink("Replay Errors: 2353", "Recovery Errors: 0", "CRC Errors: 0"),
              near=nvlink("Replay Errors: 3", "Recovery Errors: 0", "CRC Errors: 0"), source="a public note on V100 SXM2"),
    AlarmCase(name="NVLink CRC errors", check="gpu-nvlink-errors", verdict="warn", says="CRC Errors 65535",
              fires=nvlink("CRC Errors: 65535"), near=nvlink("CRC Errors: 0"), source="likewise"),
    AlarmCase(name="NVLink 5 recovery that failed", check="gpu-nvlink-errors", verdict="fail", says="Link recovery failed events 1",
              fires=nvlink("Link recovery failed events: 1", "Rx Errors: 0"),
              near=nvlink("Link recovery successful events: 2", "Total link recovery events: 2"),
              source="a public note on B300, driver 595"),
    AlarmCase(name="NVLink inactive", check="gpu-nvlink", verdict="fail", says="17 of 18 links",
              fires=nvlink() | {"nvidia_smi_nvlink": LINKS_UP.replace("26.562 GB/s", "<inactive>", 1)}, near=nvlink(), source=SMI),
    AlarmCase(name="DCGM: failure", check="gpu-dcgm", verdict="fail", says="NvLink link 3 is currently down", does="dcgmi diag",
              fires={"dcgmi_health": recorded_alarm("dcgmi_health_nvlink.txt")},
              near={"dcgmi_health": recorded_alarm("dcgmi_health_healthy.txt")}, source="NVIDIA's DCGM guide"),
    AlarmCase(name="DCGM: warning", check="gpu-dcgm", verdict="warn", says="Warning",
              fires={"dcgmi_health": recorded_alarm("dcgmi_health_nvlink.txt").replace("Failure", "Warning")},
              near={"dcgmi_health": {"status": "failed", "text": "Error: Health watches not enabled. Please enable watches. \n",
                                     "rc": 255, "error": ""}}, quiet="skipped", source="NVIDIA's DCGM guide"),
    AlarmCase(name="GPU missing of a board, on no list", check="gpu-count", verdict="fail", says="7:", does="Xid 79",
              fires=board(7), near=board(8), source=SMI),
    AlarmCase(name="GPU missing of nvidia-smi, there on the bus", check="gpu-count", verdict="fail", says="2 of 3",
              fires=smi() | {"lspci": ALIVE + "\n" + GPU_PCI.format(bus="3a", rev="a1")}, near=smi() | {"lspci": ALIVE}, source=SMI),
    AlarmCase(name="GPUs of a machine that was given a part", check="gpu-count", verdict="fail", says="5:",
              fires=board(5), near=board(5, virtual=True), source=SMI),
)  # fmt: skip


def seen(case: AlarmCase) -> tuple[Any, Any]:
    """The results of a case's check on both hosts."""
    return result(case.check, host_of(case.fires)), result(case.check, host_of(case.near))
