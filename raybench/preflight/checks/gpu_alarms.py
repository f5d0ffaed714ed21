"""What is wrong with a GPU by its own word: it does not answer, wants a reset, or its link or firmware fails."""

import re
from collections.abc import Iterator

from raybench.preflight.checks.gpu import gpus_of
from raybench.preflight.checks.gpu_health import each
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.nvidia_smi import Gpu, parse_nvlink_errors, without_notices
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_UNREACHABLE = re.compile(r"unable to determine the device handle|no devices were found|gpu is lost", re.IGNORECASE)
_LOST_ADVICE = (
    "drain the host; dmesg | grep -e Xid -e NVRM says why; reboot it, and power-cycle it where that is not enough: "
    "a GPU that is lost again is to be reseated or replaced"
)


def lost(view: HostView) -> Judgement:
    """GPUs that the driver knows of and that do not answer: everything that runs on all GPUs ends or hangs there."""
    if not view.has_gpu_hardware or view.has_only_amd_gpus:
        return skipped("no NVIDIA GPU here")
    said = tuple(dict.fromkeys(_said(view)))
    if said:
        basis = "nvidia-smi -q and -L, the kernel's list of PCI devices"
        return failed("; ".join(said[:8]), "every GPU answers", basis, _LOST_ADVICE)
    gpus = view.smi.gpus
    return passed(f"{len(gpus)} GPUs answer", "every GPU answers")


def _said(view: HostView) -> Iterator[str]:
    for reading in ("nvidia_smi", "nvidia_smi_list"):
        yield from (line for line in without_notices(view.said(reading))[1] if _UNREACHABLE.search(line))
    if view.status("nvidia_smi") == "ok" or _UNREACHABLE.search(view.said("nvidia_smi")):
        for index, gpu in enumerate(view.smi.gpus if view.status("nvidia_smi") == "ok" else ()):
            if gpu.fault:
                yield f"GPU {index} ({gpu.pci_address}): {gpu.fault}"
    if view.status("lspci") == "ok":
        silent = (device for device in view.pci if (device.is_gpu or device.is_nvswitch) and not device.answers)
        yield from (f"{device.address} {device.description}: on the bus, and every read fails" for device in silent)


# By NVML's numbers (nvmlDeviceGpuRecoveryAction_t), as nvidia-smi and Xid 154 write them, in small letters.
RECOVERY = {
    "reset": "reset the GPU: end its processes, then nvidia-smi --gpu-reset -i GPU; reboot where that fails",
    "reboot": "drain the host and reboot it: a reset of the GPU is not enough",
    "drain p2p": "end what uses NVLink or peer memory of this GPU; then reset the GPU",
    "drain and reset": "let jobs on the GPU end, start none, then nvidia-smi --gpu-reset -i GPU",
    "recover imex domain": "restart nvidia-imex in this NVLink domain",
}
_NO_RECOVERY = frozenset({"", "none", "no", "unknown"})


def recovery_of(text: str) -> str:
    """The word for an action: of ``GPU Reset Required`` and ``GPU_RESET`` it is ``reset``."""
    words = re.sub(r"[_\s]+", " ", text).strip().lower()
    return re.sub(r"^(?:gpu|node) | required$", "", words)


def recovery(view: HostView) -> Judgement:
    """The driver's own word that a GPU is not to be used before it is reset, or the host rebooted."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no NVIDIA GPU here")
    asked = {index: word for index, gpu in enumerate(gpus) if (word := _recovery(gpu)) not in _NO_RECOVERY}
    if asked:
        seen = "; ".join(f"GPU {index} ({gpus[index].pci_address}): {word}" for index, word in asked.items())
        words = sorted(set(asked.values()), key=list(RECOVERY).index) if set(asked.values()) <= set(RECOVERY) else []
        advice = "; ".join(RECOVERY[word] for word in words) or "do what nvidia-smi -q names as GPU Recovery Action"
        wanted = failed(seen, "none", "nvidia-smi -q: GPU Recovery Action", advice)
        return wanted.for_node(action="reboot" if "reboot" in words else "")
    if all(gpu.get("GPU Recovery Action") is None and gpu.get("GPU Reset Status", _RESET) is None for gpu in gpus):
        return skipped("this driver names no recovery action (drivers before 550)")
    return passed(f"none for {len(gpus)} GPUs", "none")


_RESET, _DRAIN = "Reset Required", "Drain and Reset Recommended"


def _recovery(gpu: Gpu) -> str:
    word = recovery_of(gpu.get("GPU Recovery Action") or "")
    if word in _NO_RECOVERY and gpu.get("GPU Reset Status", _RESET) == "Yes":
        return "reset"
    if word in _NO_RECOVERY and gpu.get("GPU Reset Status", _DRAIN) == "Yes":
        return "drain and reset"
    return word


def pcie(view: HostView) -> Judgement:
    """Packets that had to be sent again between GPU and host, and a link that trained to less than both ends can."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no NVIDIA GPU here")
    basis = "nvidia-smi -q: replays since the GPU was reset, PCIe generation of GPU and host"
    limit = view.expected.gpu_pcie_replays_max
    bad = each(gpus, lambda gpu: ", ".join(_pcie_faults(gpu, limit)))
    expected = f"at most {limit} replays, no rollover, the generation that both ends have"
    if bad:
        advice = "reseat the GPU or its riser; look for AER messages in dmesg; watch whether the count grows under load"
        return warned(bad, expected, basis, advice)
    counted = [gpu.number("PCI", "Replays Since Reset") for gpu in gpus]
    if all(count is None for count in counted):
        return unknown("nvidia-smi gives no count of replays", "in a virtual machine the host knows")
    return passed(f"at most {max(count or 0 for count in counted):.0f} replays", expected)


def _pcie_faults(gpu: Gpu, limit: int) -> Iterator[str]:
    replays, rollovers = gpu.number("PCI", "Replays Since Reset"), gpu.number("PCI", "Replay Number Rollovers")
    if replays is not None and replays > limit:
        yield f"{replays:.0f} replays"
    if rollovers:
        yield f"{rollovers:.0f} rollovers"

    def generation(name: str) -> float | None:
        return gpu.number("PCI", "GPU Link Info", "PCIe Generation", name)

    most, now = generation("Max"), generation("Current")
    if gpu.get("Performance State") == "P0" and most and now and now < most:  # in others it saves power
        yield f"PCIe generation {now:.0f} of {most:.0f} while in P0"


# The newer counters are of NVLink 5. Recovery is what a link does that lost its training.
_BROKEN_LINKS = re.compile(r"[Rr]ecovery (?:Errors|failed|events failed)|uncorrect|Local link integrity", re.IGNORECASE)
_HARMLESS_LINKS = re.compile(
    r"\b(?:Tx|Rx) (?:packets|bytes)|successful|Total link recovery|BER\b|corrected", re.IGNORECASE
)
_REPLAYS_MAX = 100  # of a link since the driver was loaded; each is a packet sent again


def nvlink_errors(view: HostView) -> Judgement:
    """Errors that NVLinks counted since the driver was loaded: a link that has many is about to fail, and slow now."""
    if not gpus_of(view):
        return skipped("no NVIDIA GPU here")
    if not any(rates for rates in view.nvlinks.values()):
        return skipped("these GPUs have no NVLink")
    counted = parse_nvlink_errors(view.text("nvidia_smi_nvlink_errors"))
    if not any(counted.values()):
        return unknown("nvidia-smi nvlink -e shows no counter")
    basis = "nvidia-smi nvlink -e, since the driver was loaded"
    advice = "look for Xid 74 or 144 to 150 in dmesg; reset all GPUs; what returns on one link is its board or its GPU"
    broken, many = [], []
    for index, counters in counted.items():
        for name, count in counters.items():
            if count and _BROKEN_LINKS.search(name):
                broken.append(f"GPU {index} {name} {count}")
            elif not _HARMLESS_LINKS.search(name) and count > (_REPLAYS_MAX if "Replay" in name else 0):
                many.append(f"GPU {index} {name} {count}")
    if broken:
        return failed("; ".join((broken + many)[:8]), "no link recovered or failed", basis, advice)
    if many:
        return warned("; ".join(many[:8]), f"no errors, at most {_REPLAYS_MAX} replays a link", basis, advice)
    return passed(f"none on {len(counted)} GPUs", "no errors")


def firmware(view: HostView) -> Judgement:
    """The GPU's own store of settings and counters is damaged, or its VBIOS is not that of the GPUs beside it."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no NVIDIA GPU here")
    damaged = [line for line in view.smi.notices if "inforom" in line.lower()]
    if damaged:
        advice = (
            "the GPU still computes, but loses counts of errors and retired rows: update its infoROM with the vendor's "
            "tool or have it replaced"
        )
        return warned("; ".join(damaged[:8]), "no warning", "nvidia-smi -q", advice)
    by_kind: dict[str, set[str]] = {}
    for gpu in gpus:
        by_kind.setdefault(gpu.name, set()).add(gpu.get("VBIOS Version") or "")
    mixed = [f"{name}: {', '.join(sorted(found))}" for name, found in by_kind.items() if len(found - {""}) > 1]
    if mixed:
        advice = "bring all GPUs of the host to one VBIOS, with the vendor's firmware package"
        return warned("; ".join(mixed), "one VBIOS a product", "nvidia-smi -q", advice)
    versions = ", ".join(sorted({version for found in by_kind.values() for version in found if version}))
    return passed(versions or "nothing said against it", "one VBIOS a product, infoROM whole")
