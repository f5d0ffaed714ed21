"""GPUs: how many, which driver, and what is going on on them."""

import re
from collections import Counter

from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.parsers.nvidia_smi import Gpu
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_DRIVER_ADVICE = (
    "nvidia-smi says why; dmesg | grep NVRM; install the driver for the running kernel, or reboot into its kernel"
)
_LOST_ADVICE = "look for its Xids in dmesg; drain the host and reset the GPU (nvidia-smi --gpu-reset) or power-cycle it"


def gpus_of(view: HostView) -> tuple[Gpu, ...]:
    """The GPUs of nvidia-smi; empty where this host has none of NVIDIA's. Raises UnavailableError where it should."""
    if not view.has_gpu_hardware or view.has_only_amd_gpus:
        return ()
    return view.smi.gpus


def driver(view: HostView) -> Judgement:
    """nvidia-smi answers, and its driver is the one expected."""
    if not view.has_gpu_hardware:
        if view.expected.gpu_count:
            advice = "check lspci, the BIOS and the power of the GPUs"
            return failed("no sign of a GPU", f"{view.expected.gpu_count} GPUs", "preflight_gpu_count", advice)
        return skipped("no GPU here")
    if view.has_only_amd_gpus:
        told = "ok" in {view.status("amd_smi_metric"), view.status("rocm_smi")}
        return skipped("AMD GPUs: checks that begin with amd- tell of them").for_node(effect="" if told else "unknown")
    try:
        version = view.smi.driver
    except UnavailableError as missing:
        if missing.status == "timeout":
            return failed(
                missing.why, "nvidia-smi answers", "a hung nvidia-smi is a driver or GPU that hangs", _DRIVER_ADVICE
            )
        return failed(missing.why[:300], "nvidia-smi answers", "a GPU is there", _DRIVER_ADVICE)
    wanted = view.expected.gpu_driver
    if version is None:
        return unknown("nvidia-smi names no driver version")
    lost = [
        f"GPU {index} ({gpu.pci_address}): {said}" for index, gpu in enumerate(view.smi.gpus) if (said := gpu.fault)
    ]
    if lost:
        return failed("; ".join(lost), "every GPU answers", "nvidia-smi -q", _LOST_ADVICE)
    if wanted is None or version == wanted:
        return passed(version, wanted or "the same on all hosts")
    wrong = failed(version, wanted, "preflight_gpu_driver", "install that driver, or correct the inventory")
    return wrong.for_node(effect="degraded", action="reconfigure")


def count(view: HostView) -> Judgement:
    """As many GPUs as expected, and as many in nvidia-smi as on the bus."""
    on_bus = sum(device.is_gpu for device in view.pci) if view.status("lspci") == "ok" else None
    wanted = view.expected.gpu_count
    if view.has_only_amd_gpus:
        return _amd_count(on_bus or 0, wanted)
    if not view.has_gpu_hardware:
        return skipped("no GPU here") if not wanted else failed("0", str(wanted), "preflight_gpu_count", "check lspci")
    on_bus = on_bus and sum(device.is_gpu and device.vendor == "10de" for device in view.pci)
    found = len(view.smi.gpus)
    names = ", ".join(f"{number} {name}" for name, number in Counter(gpu.name for gpu in view.smi.gpus).items())
    advice = "look for Xid 79 in dmesg; power-cycle the host; if it stays away, reseat or replace the GPU"
    if wanted is not None and found != wanted:
        return failed(f"{found}: {names}", str(wanted), "preflight_gpu_count", advice)
    if on_bus and found < on_bus:
        return failed(f"{found} of {on_bus} on the bus", str(on_bus), "nvidia-smi against lspci", advice)
    if wanted is None and not view.readings.get("is_virtual", {}).get("value"):
        lacking = _lacking_of_board(view.smi.gpus)
        if lacking:
            return failed(f"{found}: {names}", lacking, "boards with NVLink have 4, 8 or 16 GPUs", advice)
    return passed(names or "none", str(wanted) if wanted is not None else "as many as on the bus")


# Products that sit on a board together, joined by NVLink: SXM modules, whatever nvidia-smi calls them.
_ON_BOARD = re.compile(r"(?<!G)(?:SXM|\b(?:H100|H800) \d+GB HBM|\b(?:H200|H20|H800|B200|B300)(?! NVL| PCIe)\b)")
_WHOLE_BOARDS = {3: 4, 5: 8, 6: 8, 7: 8, 9: 16, 10: 16, 11: 16, 12: 16, 13: 16, 14: 16, 15: 16}


def _lacking_of_board(gpus: tuple[Gpu, ...]) -> str:
    """How many GPUs the board has, and which of its modules is not seen; empty where none is missing.

    One or two of a board may well be given to one machine, and so may four of eight.
    """
    if not gpus or not all(_ON_BOARD.search(gpu.name) for gpu in gpus):
        return ""
    whole = _WHOLE_BOARDS.get(len(gpus))
    if whole is None:
        return ""
    modules = {int(number) for gpu in gpus if (number := gpu.number("Platform Info", "Module Id")) is not None}
    missing = sorted(set(range(1, whole + 1)) - modules) if len(modules) == len(gpus) and max(modules) <= whole else []
    return f"{whole}{f' (module {missing[0]} is not seen)' if len(missing) == 1 else ''}"


def _amd_count(on_bus: int, wanted: int | None) -> Judgement:
    """AMD's GPUs are counted on the bus alone."""
    expected = str(wanted) if wanted is not None else "the same on all hosts"
    if wanted is not None and on_bus != wanted:
        return failed(f"{on_bus} AMD", expected, "preflight_gpu_count; lspci", "check lspci, the BIOS and their power")
    return passed(f"{on_bus} AMD on the bus", expected)


def cuda(view: HostView) -> Judgement:
    """The newest CUDA that the driver can run."""
    if not gpus_of(view):
        return skipped("no GPU here")
    version = view.smi.cuda
    return passed(version, "the same on all hosts") if version else unknown("nvidia-smi names no CUDA version")


def persistence(view: HostView) -> Judgement:
    """Without it the driver lets go of idle GPUs: every start waits, and clocks and ECC counters are lost."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    modes = Counter(gpu.get("Persistence Mode") for gpu in gpus)
    if modes.get("Enabled", 0) == len(gpus):
        return passed(f"on for {len(gpus)} GPUs", "on")
    if modes.get(None) == len(gpus):
        return unknown("nvidia-smi does not tell")
    seen = f"off for {len(gpus) - modes.get('Enabled', 0)} of {len(gpus)} GPUs"
    return warned(
        seen, "on", "AzureHPC and scitix ask for it", "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1"
    )


def mig(view: HostView) -> Judgement:
    """A GPU in slices cannot use NVLink or GPUDirect between hosts as a whole one does."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    modes = [gpu.get("MIG Mode", "Current") for gpu in gpus]
    on = sum(mode == "Enabled" for mode in modes)
    wanted = "on" if view.expected.gpu_mig else "off"
    if on == (len(gpus) if view.expected.gpu_mig else 0):
        return passed(f"on for {on} of {len(gpus)} GPUs", wanted)
    return failed(
        f"on for {on} of {len(gpus)} GPUs",
        wanted,
        "NCCL does not support MIG across slices",
        f"nvidia-smi -mig {'1' if view.expected.gpu_mig else '0'} on an idle GPU, then reset it",
    )


def processes(view: HostView) -> Judgement:
    """Somebody else on the GPU takes memory and time; memory without a process is left from one that was killed."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    computing = [process for gpu in gpus for process in gpu.processes if process.get("Type") != "G"]  # G: a screen's
    busy = [f"{process.get('Name', '?')} ({process.get('Process ID')})" for process in computing]
    if busy:
        more = f" and {len(busy) - 3} more" if len(busy) > 3 else ""
        advice = "wait for the job, or end it if it is nobody's: fuser -v /dev/nvidia*"
        return warned(", ".join(busy[:3]) + more, "no process", "a measurement needs the GPU for itself", advice)
    limit = min(view.expected.gpu_limit(gpu.name, "memory_idle_max_mib") for gpu in gpus)
    full = {index: gpu.number("FB Memory Usage", "Used") or 0 for index, gpu in enumerate(gpus)}
    held = {index: used for index, used in full.items() if used > limit}
    if held:
        seen = ", ".join(f"GPU {index}: {used:.0f} MiB" for index, used in held.items())
        advice = "fuser -v /dev/nvidia* finds who holds it; otherwise reset the GPU"
        seen = f"{seen} held by no process that is seen from here"
        return failed(seen, f"at most {limit:.0f} MiB", "Primus: 2 GiB before a start", advice)
    return passed("none", "no process")
