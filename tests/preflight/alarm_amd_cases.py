"""Alarms of AMD's GPUs, as amd-smi and rocm-smi print them."""

import json
from typing import Any

from .alarm_cases import AMD_PCI, AlarmCase, recorded_alarm
from .hosts import files, value

STATIC, METRIC = recorded_alarm("amd_smi_static_mi300x.txt"), recorded_alarm("amd_smi_metric_mi300x.txt")
LINKS, ROCM = recorded_alarm("amd_smi_xgmi_links.txt"), recorded_alarm("rocm_smi_ras.txt")
RATES, UNLINKED = recorded_alarm("amd_smi_xgmi_metric_mi300x.txt"), recorded_alarm("amd_smi_xgmi_without_links.txt")
MI300A = recorded_alarm("amd_smi_static_ras_mi300a.txt")
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


def in_json_with(name: str, *values: Any) -> dict[str, Any]:
    """``amd-smi metric --json`` of so many GPUs that say this below a name."""
    return AMD_PCI | {
        "amd_smi_metric": json.dumps({"gpu_data": [{"gpu": n, name: one} for n, one in enumerate(values)]})
    }


def blocks(**counts: int) -> dict[str, int]:
    """What a block that watches for errors counted."""
    return {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0} | counts


def throttled(status: str) -> dict[str, Any]:
    """What holds clocks down, by partition, as amd-smi of ROCm 7 has it."""
    return {"prochot_violation_status": "NOT ACTIVE", "gfx_clk_below_host_limit_violation_status": {"xcp_0": ["ACTIVE"]},
            "hbm_thermal_violation_status": {"xcp_0": ["NOT ACTIVE", status, "N/A"]}}  # fmt: skip


def ras(*states: str, block: str = "GFX") -> dict[str, Any]:
    """``amd-smi static --ras`` of so many MI300A, in which a block is in these states."""
    told = [MI300A.replace("GPU: 0", f"GPU: {n}").replace(f"{block}: ENABLED", f"{block}: {one}")
            for n, one in enumerate(states)]  # fmt: skip
    return AMD_PCI | {"amd_smi_static": "\n".join(told)}


def retired(count: int, limit: object = 256, exceeded: str = "N/A") -> dict[str, Any]:
    """So many retired pages of a GPU whose driver has a limit for them."""
    static = {"gpu": 0, "ras": {"bad_page_threshold": limit, "bad_page_threshold_exceeded": exceeded}}
    return pages(retired=ONE_PAGE * count) | {"amd_smi_static": json.dumps({"gpu_data": [static]})}


def rocm_json(**values: str) -> dict[str, Any]:
    """``rocm-smi --json`` of two GPUs, the second with these values."""
    usual = {"Temperature (Sensor junction) (C)": "45.0", "PCIe Replay Count": "0", "XGMI Error count": "0"}
    named = {name.replace("_", " "): value for name, value in values.items()}
    return AMD_PCI | {"rocm_smi": json.dumps({"card0": usual, "card1": usual | named, "system": {"Driver": "6.3"}})}


def linked(*states: str) -> dict[str, Any]:
    """``amd-smi xgmi --link-status --json`` of ROCm 7, of so many GPUs."""
    rows = [{"gpu": n, "bdf": f"0000:{n:02x}:00.0", "link_status": list(one)} for n, one in enumerate(states)]
    return AMD_PCI | {"amd_smi_xgmi": json.dumps({"link_status": rows})}


def speeds(*gigabits: int) -> dict[str, Any]:
    """``amd-smi xgmi --metric --json``, of a GPU for each rate."""
    rows = [{"gpu": n, "link_metrics": {"bit_rate": {"value": one, "unit": "Gb/s"}, "max_bandwidth": {"value": one * 16, "unit": "Gb/s"},
                                        "link_type": "XGMI", "links": []}} for n, one in enumerate(gigabits)]  # fmt: skip
    return AMD_PCI | {"amd_smi_xgmi_metric": json.dumps({"xgmi_metric": rows})}


def ways(*bandwidths: str) -> dict[str, Any]:
    """``amd-smi topology --json`` of a GPU with a neighbour for each bandwidth."""
    links = [{"gpu": n + 1, "link_status": "ENABLED", "link_type": "XGMI", "num_hops": 1, "bandwidth": one}
             for n, one in enumerate(bandwidths)]  # fmt: skip
    return AMD_PCI | {"amd_smi_topology": json.dumps([{"gpu": 0, "bdf": "0000:0c:00.0", "links": links}])}


def pairs_of_gpus(state: str) -> dict[str, Any]:
    """What newer amd-smi prints of each pair, of four GPUs."""
    head = "XGMI LINK STATUS:\n        bdf            GPU0  GPU1  GPU2  GPU3\n"
    rows = [["SELF", "U", state, "U"], ["U", "SELF", "U", "U"], [state, "U", "SELF", "U"], ["U", "U", "U", "SELF"]]
    return AMD_PCI | {
        "amd_smi_xgmi": head + "".join(f"GPU{n}\t0000:{n:02x}:00.0   {'  '.join(row)}\n" for n, row in enumerate(rows))
    }


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
    AlarmCase(name="AMD: uncorrectable ECC of a block, no total", check="amd-ecc", verdict="fail", says="GPU 1: 4 uncorrectable (gfx)",
              fires=in_json_with("ecc_blocks", {"UMC": blocks()}, {"UMC": blocks(), "GFX": blocks(uncorrectable_count=4)}),
              near=in_json_with("ecc_blocks", {"UMC": blocks()}, {"UMC": blocks(correctable_count=2)}),
              source="github.com/ROCm/device-metrics-exporter/pull/368: names of blocks and counts"),
    AlarmCase(name="AMD: deferred ECC of a block", check="amd-ecc", verdict="warn", says="1 deferred: found, and not read yet (umc)",
              fires=in_json_with("ecc_blocks", {"UMC": blocks(deferred_count=1)}), near=in_json_with("ecc_blocks", {"UMC": blocks()}),
              source="likewise"),
    AlarmCase(name="AMD: memory too hot, by partition", check="amd-throttle", verdict="warn", says="hbm thermal",
              fires=in_json_with("throttle", throttled("ACTIVE")), near=in_json_with("throttle", throttled("NOT ACTIVE")),
              source="amd-smi metric --throttle --json (ROCm 7)"),
    AlarmCase(name="AMD: PCIe replay rollover", check="amd-limits", verdict="warn", says="2 PCIe replay rollovers",
              fires=metric(("REPLAY_ROLL_OVER_COUNT", "2")), near=metric(("REPLAY_ROLL_OVER_COUNT", "0")), source=SMI),
    AlarmCase(name="AMD: a single bad page, as older amd-smi has it", check="amd-pages", verdict="fail", says="could not be retired: GPU 0: 1 pages",
              fires=pages(un_res=ONE_PAGE[0]), near=pages(un_res="No bad pages found."), source="github.com/ROCm/amdsmi, 6.3"),
    AlarmCase(name="AMD: retired pages at the driver's limit", check="amd-pages", verdict="fail", says="256 retired, the limit 256", does="RMA",
              fires=retired(256), near=retired(3), source="github.com/ROCm/amdsmi: bad_page_threshold; Linux, amdgpu_ras.c"),
    AlarmCase(name="AMD: retired pages near the driver's limit", check="amd-pages", verdict="warn", says="210 retired, the limit 256",
              fires=retired(210), near=retired(210, "N/A"), source="likewise"),
    AlarmCase(name="AMD: the driver says too many bad pages", check="amd-pages", verdict="fail", says="GPU 0: 2 retired",
              fires=retired(2, "N/A", "True"), near=retired(2, "N/A", "False"), source="github.com/ROCm/amdsmi: bad_page_threshold_exceeded"),
    AlarmCase(name="AMD: a block that watches no longer", check="amd-ras", verdict="warn", says="GPU 2: GFX is off",
              fires=ras("ENABLED", "ENABLED", "DISABLED", "ENABLED"), near=ras(*["ENABLED"] * 4),
              source="amd-smi static --ras of an MI300A (recorded_alarms/README.md), a state replaced"),
    AlarmCase(name="AMD: XGMI link down, in JSON", check="amd-xgmi", verdict="fail", says="GPU1: 1 of 4 links down",
              fires=linked("UXUU", "UUDX"), near=linked("UXUU", "UUUX"), source="amd-smi xgmi --link-status --json (ROCm 7)"),
    AlarmCase(name="AMD: XGMI link down between a pair", check="amd-xgmi", verdict="fail", says="GPU0: 1 of 3 links down",
              fires=pairs_of_gpus("D"), near=pairs_of_gpus("U"), source="the layout of amd_smi_xgmi_without_links.txt, with links"),
    AlarmCase(name="AMD: no XGMI links at all", check="amd-xgmi-rate", verdict="warn", says="GPU2: 16 Gb/s a lane, 512 Gb/s a link",
              fires=AMD_PCI | {"amd_smi_xgmi_metric": RATES.replace("0000:38:00.0 32 Gb/s ", "0000:38:00.0 16 Gb/s ")},
              near=AMD_PCI | {"amd_smi_xgmi_metric": UNLINKED, "amd_smi_xgmi": UNLINKED}, quiet="skipped",
              source="amd-smi xgmi (recorded_alarms/README.md), a rate replaced; the near miss as recorded"),
    AlarmCase(name="AMD: XGMI links of one GPU slower", check="amd-xgmi-rate", verdict="warn", says="GPU3: 16 Gb/s a lane, 256 Gb/s a link",
              fires=speeds(32, 32, 32, 16), near=speeds(32, 32, 32, 32), source="amd-smi xgmi --metric --json (ROCm 7)"),
    AlarmCase(name="AMD: half the links between two GPUs", check="amd-xgmi-rate", verdict="warn", says="GPU 0 to 2: 25000-25000 MB/s",
              fires=ways("50000-50000", "25000-25000", "50000-50000"), near=ways(*["50000-50000"] * 3), source=SMI),
    AlarmCase(name="AMD: errors counted by the links' block", check="amd-xgmi", verdict="fail", says="GPU 0: 3 uncorrectable errors of XGMI_WAFL",
              fires=in_json_with("ecc_blocks", {"XGMI_WAFL": blocks(uncorrectable_count=3)}) | {"amd_smi_xgmi": LINKS},
              near=in_json_with("ecc_blocks", {"XGMI_WAFL": blocks(correctable_count=3)}) | {"amd_smi_xgmi": LINKS},
              source="github.com/ROCm/amdsmi, CHANGELOG.md: the block's name"),
    AlarmCase(name="rocm-smi: XGMI errors", check="amd-xgmi", verdict="fail", says="GPU 1: XGMI 2 (Multiple errors detected since last read)",
              fires=AMD_PCI | {"amd_smi_xgmi": LINKS, "rocm_smi": ROCM + "GPU[1]\t\t: XGMI Error count: 2 (Multiple errors detected since last read)\n"},
              near=AMD_PCI | {"amd_smi_xgmi": LINKS, "rocm_smi": ROCM + "GPU[1]\t\t: XGMI Error count: 0 (No errors detected since last read)\n"},
              source="rocm-smi --showxgmierr, of its source (ROC-smi)"),
    AlarmCase(name="rocm-smi: PCIe replays", check="amd-limits", verdict="warn", says="GPU 1: 900 PCIe replays",
              fires=AMD_PCI | {"rocm_smi": ROCM + "GPU[1]\t\t: PCIe Replay Count: 900\n"},
              near=AMD_PCI | {"rocm_smi": ROCM + "GPU[0]\t\t: PCIe Replay Count: 0\n"}, source="rocm-smi -a, a public output of ROCm's issues"),
    AlarmCase(name="rocm-smi in JSON: hot junction", check="amd-temperature", verdict="warn", says="GPU 1: hotspot 97 C",
              fires=rocm_json(**{"Temperature (Sensor junction) (C)": "97.0"}), near=rocm_json(), source="rocm-smi --showtemp --json"),
    AlarmCase(name="AMD: torch for CUDA", check="amd-rccl", verdict="warn", says="2.9.0+cu128",
              fires=AMD_PCI | {"python": PYTHON % "2.9.0+cu128"}, near=AMD_PCI | {"python": PYTHON % "2.9.0+rocm6.4"},
              source="versions of torch's wheels"),
)  # fmt: skip
