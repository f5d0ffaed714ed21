"""Alarms of AMD's GPUs, as amd-smi and rocm-smi print them."""

import json
from typing import Any

from .alarm_cases import AMD_PCI, AlarmCase, recorded_alarm
from .hosts import files, value

STATIC, METRIC = recorded_alarm("amd_smi_static_mi300x.txt"), recorded_alarm("amd_smi_metric_mi300x.txt")
LINKS, ROCM = recorded_alarm("amd_smi_xgmi_links.txt"), recorded_alarm("rocm_smi_ras.txt")
LIST = '{"gpu_data": [{"gpu": 0, "bdf": "0000:0c:00.0"}, {"gpu": 1, "bdf": "0000:22:00.0"}]}'
UNLOADED = (
    "ERROR:root:Unable to get devices, driver not initialized (amdgpu not found in modules)\n"
    "ERROR:root:Unable to detect any GPU devices, check amdgpu version and module status (sudo modprobe amdgpu)\n"
)
SMI = "github.com/ROCm/amdsmi, its guide and changelog (recorded_alarms/README.md)"
MI300X = AMD_PCI["lspci"].split("\n\n")[0]
PYTHON = '{"python": "3.12.3", "executable": "/usr/bin/python3", "packages": {"torch": "%s"}}'


def first(text: str, *changes: tuple[str, str]) -> str:
    """An output in whose first GPU values were replaced."""
    one, mark, other = text.partition("\nGPU: 1")
    lines = one.splitlines()
    for label, given in changes:
        index = next(i for i, line in enumerate(lines) if line.strip().startswith(f"{label}:"))
        lines[index] = f"{lines[index].partition(':')[0]}: {given}"
    return "\n".join(lines) + mark + other


def metric(*changes: tuple[str, str]) -> dict[str, Any]:
    """A host with two MI300X of which ``amd-smi metric`` says this."""
    return AMD_PCI | {"amd_smi_static": STATIC, "amd_smi_list": LIST, "amd_smi_metric": first(METRIC, *changes)}


def static(*changes: tuple[str, str]) -> dict[str, Any]:
    """The same of ``amd-smi static``."""
    return metric() | {"amd_smi_static": first(STATIC, *changes)}


def in_json(**ecc: int) -> dict[str, Any]:
    """ECC as JSON of amd-smi 7, where values have their units beside them."""
    gpu = {"gpu": 0, "ecc": ecc, "temperature": {"hotspot": {"value": 39, "unit": "C"}, "mem": "N/A"}}
    return AMD_PCI | {"amd_smi_metric": json.dumps({"gpu_data": [gpu]})}


def board(count: int) -> dict[str, Any]:
    """A host with so many MI300X on the bus."""
    return {"lspci": "\n\n".join(MI300X.replace("0c:00.0", f"{16 + n:02x}:00.0") for n in range(count))}


def pages(**kinds: object) -> dict[str, Any]:
    """``amd-smi bad-pages``."""
    return AMD_PCI | {"amd_smi_bad_pages": json.dumps([{"gpu": 0, "retired": "No bad pages found.", "pending": "No bad pages found.",
                                                       "un_res": "No bad pages found."} | kinds])}  # fmt: skip


def topology(kind: str, state: str = "ENABLED") -> dict[str, Any]:
    """``amd-smi topology`` of three GPUs."""
    links = [
        {"gpu": 1, "link_status": "ENABLED", "link_type": "XGMI"},
        {"gpu": 2, "link_status": state, "link_type": kind},
    ]
    return AMD_PCI | {"amd_smi_topology": json.dumps([{"gpu": 0, "bdf": "0000:0c:00.0", "links": links}])}


ONE_PAGE = [{"page_address": "0x1000", "page_size": "0x1000", "status": "RETIRED"}]
AMD_CASES: tuple[AlarmCase, ...] = (
    AlarmCase(name="AMD: driver not initialised", check="amd-driver", verdict="fail", says="driver not initialized", does="modprobe amdgpu",
              fires=AMD_PCI | {"amd_smi_list": {"status": "failed", "text": "", "rc": 255, "error": UNLOADED}},
              near=metric() | {"amd_smi_list": {"status": "ok", "text": LIST, "rc": 0, "error": "WARNING: User is missing a group"}},
              source="github.com/ROCm/ROCm issues, several"),
    AlarmCase(name="AMD: rocm-smi without a driver", check="amd-driver", verdict="fail", says="amdgpu not found",
              fires=AMD_PCI | {"rocm_smi": {"status": "failed", "text": "ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
                                            "rc": 2, "error": ""}},
              near=AMD_PCI | {"rocm_smi": ROCM}, source="several"),
    AlarmCase(name="AMD: amdgpu is not loaded", check="amd-driver", verdict="fail", says="amdgpu is not loaded",
              fires=AMD_PCI | files(proc={"/proc/modules": "mlx5_core 1 0 - Live 0x0\n"}),
              near=metric() | files(proc={"/proc/modules": "amdgpu 1 0 - Live 0x0\n"}), source="/proc/modules"),
    AlarmCase(name="AMD: /dev/kfd closed", check="amd-driver", verdict="fail", says="/dev/kfd may not", does="render",
              fires=AMD_PCI | {"devices": value({"/dev/kfd": False})}, near=metric(), source="ROCm's installation guide"),
    AlarmCase(name="AMD: a GPU missing of amd-smi", check="amd-count", verdict="fail", says="1 of 2 on the bus",
              fires=metric() | {"amd_smi_list": '[{"gpu": 0, "bdf": "0000:0c:00.0"}]'}, near=metric(), source=SMI),
    AlarmCase(name="AMD: a GPU missing of its board", check="amd-count", verdict="fail", says="7", fires=board(7), near=board(8),
              source="lspci of MI300X"),
    AlarmCase(name="AMD: a GPU that gives ones", check="amd-count", verdict="fail", says="0000:22:00.0: every read fails",
              fires={"lspci": AMD_PCI["lspci"].replace("0000:22:00.0", "0000:0d:00.0") + "\n" + MI300X.partition("\n")[0].replace("0c", "22")
                     + " (rev ff)\n\t!!! Unknown header type 7f\n"}, near=metric(), source="lspci's text for a device that is off"),
    AlarmCase(name="AMD: uncorrectable ECC", check="amd-ecc", verdict="fail", says="2 uncorrectable", does="gpureset",
              fires=metric(("TOTAL_UNCORRECTABLE_COUNT", "2")), near=metric(("TOTAL_CORRECTABLE_COUNT", "5")), source=SMI),
    AlarmCase(name="AMD: uncorrectable ECC, in JSON", check="amd-ecc", verdict="fail", says="GPU 0: 1 uncorrectable",
              fires=in_json(total_correctable_count=3, total_uncorrectable_count=1),
              near=in_json(total_correctable_count=3, total_uncorrectable_count=0), source="amd-smi metric --json (ROCm 7)"),
    AlarmCase(name="AMD: deferred ECC", check="amd-ecc", verdict="warn", says="deferred",
              fires=metric(("TOTAL_DEFERRED_COUNT", "1")), near=metric(), source=SMI),
    AlarmCase(name="rocm-smi: uncorrectable RAS", check="amd-ecc", verdict="fail", says="GPU 1: 3 uncorrectable",
              fires=AMD_PCI | {"rocm_smi": ROCM[::-1].replace("0", "3", 1)[::-1]}, near=AMD_PCI | {"rocm_smi": ROCM},
              source="rocm-smi --showrasinfo all"),
    AlarmCase(name="AMD: pages pending", check="amd-pages", verdict="warn", says="pending: GPU 0: 1 pages", fires=pages(pending=ONE_PAGE),
              near=pages(retired=ONE_PAGE), source=SMI),
    AlarmCase(name="AMD: pages that could not be retired", check="amd-pages", verdict="fail", says="could not be retired",
              fires=pages(un_res=ONE_PAGE), near=pages(), source=SMI),
    AlarmCase(name="AMD: XGMI link down", check="amd-xgmi", verdict="fail", says="GPU1: 1 of 8 links down",
              fires=AMD_PCI | {"amd_smi_xgmi": LINKS.replace("U  U  U  U  U  X  U  U", "U  U  U  D  U  X  U  U")},
              near=AMD_PCI | {"amd_smi_xgmi": LINKS}, source=SMI),
    AlarmCase(name="AMD: XGMI errors", check="amd-xgmi", verdict="fail", says="XGMI MULTIPLE_ERRORS",
              fires=metric(("XGMI_ERR", "MULTIPLE_ERRORS")) | {"amd_smi_xgmi": LINKS}, near=metric() | {"amd_smi_xgmi": LINKS}, source=SMI),
    AlarmCase(name="AMD: PCIe in place of XGMI", check="amd-xgmi", verdict="fail", says="GPU 0 and 2: PCIe", fires=topology("PCIE"),
              near=topology("XGMI"), source=SMI),
    AlarmCase(name="AMD: link disabled", check="amd-xgmi", verdict="fail", says="link disabled", fires=topology("XGMI", "DISABLED"),
              near=topology("XGMI"), source=SMI),
    AlarmCase(name="AMD: socket too hot", check="amd-throttle", verdict="warn", says="socket thermal",
              fires=metric(("SOCKET_THERMAL_VIOLATION_STATUS", "ACTIVE")), near=metric(("PPT_VIOLATION_STATUS", "ACTIVE")), source=SMI),
    AlarmCase(name="AMD: PROCHOT", check="amd-throttle", verdict="fail", says="prochot",
              fires=metric(("PROCHOT_VIOLATION_STATUS", "ACTIVE")), near=metric(), source=SMI),
    AlarmCase(name="AMD: throttled", check="amd-throttle", verdict="warn", says="throttled",
              fires=metric(("THROTTLE_STATUS", "THROTTLED")), near=metric(), source=SMI),
    AlarmCase(name="AMD: hotspot near its limit", check="amd-temperature", verdict="warn", says="hotspot 98 C, it slows down at 100 C",
              fires=metric(("HOTSPOT", "98 °C")), near=metric(("HOTSPOT", "85 °C")), source=SMI),
    AlarmCase(name="AMD: power limit lowered", check="amd-limits", verdict="warn", says="500 W of 750 W",
              fires=static(("SOCKET_POWER", "500 W")), near=static(), source=SMI),
    AlarmCase(name="AMD: PCIe narrower", check="amd-limits", verdict="warn", says="PCIe width 8 of 16",
              fires=metric(("WIDTH", "8")), near=metric(("SPEED", "2.5 GT/s")), source=SMI),
    AlarmCase(name="AMD: PCIe replays", check="amd-limits", verdict="warn", says="4711 PCIe replays",
              fires=metric(("REPLAY_COUNT", "4711")), near=metric(("REPLAY_COUNT", "3")), source=SMI),
    AlarmCase(name="AMD: less memory than its neighbours", check="amd-memory", verdict="warn", says="GPU 0: 98296 of 196592 MB",
              fires=metric(("TOTAL_VRAM", "98296 MB")), near=metric(), source=SMI),
    AlarmCase(name="AMD: memory in use", check="amd-memory", verdict="warn", says="150000 MB",
              fires=metric(("USED_VRAM", "150000 MB")), near=metric(), source=SMI),
    AlarmCase(name="AMD: partitions unlike", check="amd-partition", verdict="warn", says="CPX",
              fires=static(("COMPUTE_PARTITION", "CPX")), near=static(), source=SMI),
    AlarmCase(name="AMD: torch for CUDA", check="amd-rccl", verdict="warn", says="2.9.0+cu128",
              fires=AMD_PCI | {"python": PYTHON % "2.9.0+cu128"}, near=AMD_PCI | {"python": PYTHON % "2.9.0+rocm6.4"},
              source="versions of torch's wheels"),
)  # fmt: skip
