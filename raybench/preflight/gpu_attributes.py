"""What of a host's GPUs is compared with those of other hosts: products, versions, and what somebody set on them."""

from collections import Counter
from collections.abc import Iterator, Mapping

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.amd_smi import at, parse_amd_smi

# Of nvidia-smi -q, by its drivers' names: 535 and later, before.
_GPU_SETTINGS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "GPU power limit": (("GPU Power Readings", "Current Power Limit"), ("Power Readings", "Power Limit")),
    "GPU ECC": (("ECC Mode", "Current"), ("Ecc Mode", "Current")),
    "GPU compute mode": (("Compute Mode",),),
    "GPU clocks set": (("Applications Clocks", "Graphics"),),
    "GPU highest clock": (("Max Clocks", "SM"),),
    "GPU highest PCIe generation": (("PCI", "GPU Link Info", "PCIe Generation", "Max"),),
    "GPU confidential memory": (("Conf Compute Protected Memory Usage", "Total"),),
}


_AMD_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "GPU products of AMD": ("asic", "market_name"),
    "AMD driver": ("driver", "version"),
    "AMD power limit": ("limit", "socket_power"),
    "AMD VBIOS": ("vbios", "version"),
    "AMD compute partition": ("partition", "compute_partition"),
    "AMD memory partition": ("partition", "memory_partition"),
}


def nvidia_versions(view: HostView) -> Iterator[tuple[str, str]]:
    """Versions of driver, CUDA and firmware by nvidia-smi."""
    if view.has_gpu_hardware:
        yield "GPU driver", view.smi.driver or ""
        yield "CUDA", view.smi.cuda or ""
        yield "VBIOS", ", ".join(sorted({gpu.get("VBIOS Version") or "" for gpu in view.smi.gpus} - {""}))
        images = {gpu.get("Inforom Version", "Image Version") or "" for gpu in view.smi.gpus}
        yield "infoROM", ", ".join(sorted(images - {""}))


def nvidia_settings(view: HostView) -> Iterator[tuple[str, str]]:
    """What an administrator sets with nvidia-smi: a GPU with less of it holds up all others."""
    for name, paths in _GPU_SETTINGS.items() if view.has_gpu_hardware else ():
        found = Counter(next(filter(None, (gpu.get(*path) for path in paths)), "") for gpu in view.smi.gpus)
        yield name, ", ".join(f"{count} x {text}" for text, count in sorted(found.items()) if text)


def amd_settings(view: HostView) -> Iterator[tuple[str, str]]:
    """What amd-smi says that GPUs of all hosts should have alike."""
    gpus = parse_amd_smi(view.said("amd_smi_static")) if view.has_amd_gpus else ()
    for name, path in _AMD_SETTINGS.items():
        found = Counter(str(at(gpu, *path) or "") for gpu in gpus)
        yield name, ", ".join(f"{count} x {text}" for text, count in sorted(found.items()) if text)
