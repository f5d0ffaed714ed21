"""Whether AMD's driver answers and all GPUs are there, how they are divided, and torch for them."""

import re
from collections.abc import Mapping

from raybench.preflight.checks.amd.health import NO_AMD_GPU, static_of
from raybench.preflight.checks.software import python_facts
from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.parsers.amd_smi import at, parse_amd_smi, parse_rocm_smi
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_TOOL = "amd-smi, else rocm-smi"
_DEAD = re.compile(
    r"not initialized|[Uu]nable to (?:get|detect)|not found in modules|DRIVER_NOT_LOADED|NO_DRV|driver not loaded"
    r"|No AMD GPUs|AMDSMI_STATUS_\w*ERR|is_amdgpu_initialized|Error code",
)
_DRIVER_ADVICE = (
    "modprobe amdgpu; dmesg | grep amdgpu says why it does not start; the driver must fit the kernel and ROCm"
)


def driver(view: HostView) -> Judgement:
    """AMD's driver is loaded, answers, and lets this login at its device."""
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    said = f"{view.said('amd_smi_list')}\n{view.said('rocm_smi')}"
    dead = [line.strip() for line in said.splitlines() if _DEAD.search(line)]
    if dead and not parse_amd_smi(view.said("amd_smi_list")):
        return failed(dead[0][:300], "the driver answers", _TOOL, _DRIVER_ADVICE)
    if view.file("proc", "/proc/modules") is not None and "amdgpu" not in view.modules:
        return failed("amdgpu is not loaded", "amdgpu is loaded", "/proc/modules", _DRIVER_ADVICE)
    nodes: Mapping[str, bool] = view.readings.get("devices", {}).get("value") or {}
    if nodes.get("/dev/kfd") is False:
        advice = "add the user to the groups render and video, or let udev give /dev/kfd and /dev/dri/renderD* away"
        return failed("/dev/kfd may not be opened", "/dev/kfd can be opened", "the device node's permissions", advice)
    if view.status("amd_smi_list") == "timeout":
        return failed("amd-smi did not end", "amd-smi answers", "a tool that hangs hangs in the driver", _DRIVER_ADVICE)
    gpus = static_of(view)
    if not gpus and view.status("amd_smi_list") == "missing" and view.status("rocm_smi") == "missing":
        return unknown("neither amd-smi nor rocm-smi is installed", "install amd-smi-lib, which ROCm brings along")
    version = next((str(found) for gpu in gpus if (found := at(gpu, "driver", "version"))), "")
    return passed(f"amdgpu {version}".strip(), "the driver answers")


def count(view: HostView) -> Judgement:
    """As many GPUs in amd-smi as on the bus, and as many on the bus as the board has."""
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    on_bus = [one for one in view.pci if one.is_gpu and one.vendor == "1002"] if view.status("lspci") == "ok" else []
    found = parse_amd_smi(view.said("amd_smi_list")) or parse_rocm_smi(view.said("rocm_smi"))
    listed = {str(at(gpu, "bdf") or index) for index, gpu in enumerate(found)}
    advice = "dmesg | grep amdgpu; power-cycle the host; if the GPU stays away, reseat or replace it"
    silent = [one.address for one in on_bus if not one.answers]
    if silent:
        return failed(f"{', '.join(silent)}: every read fails", "every GPU answers", "lspci", advice)
    if found and on_bus and len(listed) < len(on_bus):
        return failed(f"{len(listed)} of {len(on_bus)} on the bus", str(len(on_bus)), "amd-smi against lspci", advice)
    whole = max((size for one in on_bus for name, size in _BOARDS if name in one.description), default=0)
    virtual = view.readings.get("is_virtual", {}).get("value")
    if whole and whole // 2 < len(on_bus) < whole and view.expected.gpu_count is None and not virtual:
        return failed(str(len(on_bus)), str(whole), "modules of such a board on the bus", advice)
    if not found and not on_bus:
        return unknown("neither lspci nor amd-smi could be read")
    return passed(f"{len(listed) if found else len(on_bus)} GPUs", "as many as on the bus")


_BOARDS = (("MI300X", 8), ("MI325X", 8), ("MI350X", 8), ("MI355X", 8))  # OAM modules of a board (AMD's data sheets)


def partition(view: HostView) -> Judgement:
    """Partitions of compute and memory: alike on all GPUs of a host, else ranks get unlike GPUs."""
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    found = {
        (at(gpu, "partition", "compute_partition"), at(gpu, "partition", "memory_partition")) for gpu in static_of(view)
    }
    told = sorted(f"{compute or '?'}, {memory or '?'}" for compute, memory in found - {(None, None)})
    if not told:
        return skipped("these GPUs have no partitions, or amd-smi does not tell")
    if len(told) > 1:
        advice = "amd-smi set --compute-partition SPX and --memory-partition NPS1 on all, when they are idle"
        return warned("; ".join(told), "the same on all GPUs", "amd-smi static: partition", advice)
    return passed(told[0], "the same on all GPUs")


def rccl(view: HostView) -> Judgement:
    """torch of this host is built for ROCm, which has RCCL in it: another one would use the CPUs alone."""
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    try:
        version = str(python_facts(view)["packages"].get("torch", ""))
    except UnavailableError:
        return skipped("the Python of jobs could not be read; software-python says why")
    if not version:
        return skipped("torch is not installed here: jobs may bring their own in containers")
    if "rocm" in version:
        return passed(f"torch {version}", "torch for ROCm")
    advice = "pip install torch --index-url https://download.pytorch.org/whl/rocmVERSION, or a container of ROCm"
    return warned(f"torch {version}", "torch for ROCm", "its version names what it is built for", advice)
