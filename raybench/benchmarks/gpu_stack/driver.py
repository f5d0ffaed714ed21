"""NVIDIA's driver without torch: NVML, libcuda, the PCI bus and the device files."""

import ctypes
import importlib
import os
import re
from pathlib import Path
from typing import Any

from raybench.documents.selftest import DriverGpu, DriverReading

_NVIDIA, _DISPLAY = "0x10de", "0x03"  # vendor; class 03: VGA and 3D controllers
_DEVICE_FILE = re.compile(r"nvidia(\d+|ctl|-uvm)")
_GPU_FILE = re.compile(r"nvidia\d+")
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")  # of Docker, and of Podman
_MIG_ON = 1


def read_driver(root: Path = Path("/")) -> DriverReading:
    """All that can be read; what cannot has its reason."""
    version, gpus, nvml_problem = _nvml()
    cuda, cuda_init, libcuda_problem = _libcuda()
    return DriverReading(
        pci_gpus=pci_gpus(root / "sys/bus/pci/devices"),
        device_files=len([path for path in (root / "dev").glob("nvidia*") if _GPU_FILE.fullmatch(path.name)]),
        container=in_container(root),
        version=version or kernel_module(root / "proc/driver/nvidia/version"),
        nvml_problem=nvml_problem,
        gpus=gpus,
        cuda=cuda,
        cuda_init=cuda_init,
        libcuda_problem=libcuda_problem,
        closed_files=closed_files(root / "dev"),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


def pci_gpus(devices: Path) -> int:
    """GPUs of NVIDIA on the PCI bus, whatever driver they have."""
    return sum(
        _line(device / "vendor") == _NVIDIA and _line(device / "class").startswith(_DISPLAY)
        for device in devices.glob("*")
    )


def in_container(root: Path) -> bool:
    """Whether this is a container, as Docker, Podman and Kubernetes mark theirs."""
    return "KUBERNETES_SERVICE_HOST" in os.environ or any((root / name).exists() for name in _CONTAINER_FILES)


def kernel_module(path: Path) -> str | None:
    """The version of the loaded kernel module.

    Sample (580): ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build``
    """
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", _line(path) + " ")
    return found[1] if found else None


def closed_files(devices: Path) -> tuple[str, ...]:
    """Device files of the driver that this user cannot read and write."""
    files = [path for path in sorted(devices.glob("nvidia*")) if _DEVICE_FILE.fullmatch(path.name)]
    return tuple(f"/dev/{path.name}" for path in files if not os.access(path, os.R_OK | os.W_OK))


def _nvml() -> tuple[str | None, tuple[DriverGpu, ...], str]:  # gpu: selftest
    """The driver's version, its GPUs, and why they are not known."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None, (), "nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
        version = str(nvml.nvmlSystemGetDriverVersion())
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return version, tuple(_gpu(nvml, handle) for handle in handles), ""
    except nvml.NVMLError as error:
        return None, (), f"NVML: {error}"


def _gpu(nvml: Any, handle: Any) -> DriverGpu:  # gpu: selftest
    return DriverGpu(
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        name=str(nvml.nvmlDeviceGetName(handle)),
        mig=_mig(nvml, handle),
        nvlinks=nvlinks(nvml, handle),
    )


def _mig(nvml: Any, handle: Any) -> bool | None:  # gpu: selftest
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0] == _MIG_ON)
    except nvml.NVMLError_NotSupported:
        return False  # most GPUs cannot be divided
    except nvml.NVMLError:
        return None


def nvlinks(nvml: Any, handle: Any) -> int | None:  # gpu: selftest
    """How many NVLinks of a GPU are up; None where it does not say."""
    up = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            up += bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):  # none at all, or no more
            break
        except nvml.NVMLError:
            return None
    return up


def _libcuda() -> tuple[str | None, int | None, str]:  # gpu: selftest
    """The newest CUDA of libcuda, what cuInit returned, and why there is no libcuda."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return None, None, str(error)
    number = ctypes.c_int()
    known = library.cuDriverGetVersion(ctypes.byref(number)) == 0
    return cuda_version(number.value) if known else None, int(library.cuInit(0)), ""


def cuda_version(number: int) -> str:
    """``12.4`` of 12040, as CUDA counts its versions."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
