"""Do Python's packages, torch, the driver, CUDA, cuDNN and NCCL fit each other? Pure: readings in, outcomes out."""

import re
from collections.abc import Iterator

from raybench.documents.selftest import DriverReading, TorchReading
from raybench.hardware.cuda_drivers import least_driver
from raybench.installation import install_advice
from raybench.services.selftest.check import Outcome, Readings, failed, not_run, passed, unknown

# cuInit: CUresult of cuda.h, https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
_NO_DEVICE = 100
_HIDE_ALL = ("", "-1", "NoDevFiles")
_CUDA_RESULTS = {
    3: ("CUDA is not initialised", "look for Xids in dmesg; reboot where the driver was updated"),
    34: ("libcuda is the stub of the toolkit", "take the folder 'stubs' out of LD_LIBRARY_PATH"),
    100: ("the driver shows no GPU", "check nvidia-smi, and CUDA_VISIBLE_DEVICES; a container needs --gpus all"),
    101: ("a device is not valid", "check nvidia-smi -L against CUDA_VISIBLE_DEVICES"),
    802: ("the system is not ready", "start the fabric manager: systemctl start nvidia-fabricmanager"),
    803: ("libcuda and the kernel module have different versions", "reboot, or load the module of the driver again"),
    804: ("the cuda-compat package does not support this GPU", "take it out of LD_LIBRARY_PATH, or update the driver"),
    999: ("an unknown error", "modprobe nvidia-uvm; look for Xids in dmesg"),
}
_KERNEL = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def python_packages(readings: Readings) -> Outcome:
    """What runs need is installed, and not too old."""
    figures = {one.name: one.installed for one in readings.packages}
    wrong = [
        f"{one.name} {one.installed or 'is not installed'} (at least {one.least})"
        for one in readings.packages
        if one.installed is None or numbers_of(one.installed) < numbers_of(one.least)
    ]
    if wrong:
        return failed("; ".join(wrong), install_advice("run"), **figures)
    if not readings.packages:
        return unknown("raybench's own requirements cannot be read", "install raybench again")
    return passed(", ".join(f"{name} {version}" for name, version in figures.items()), **figures)


def torch_import(readings: Readings) -> Outcome:
    """Torch can be imported."""
    built = readings.torch
    if built.version is None:
        return failed(built.problem, "python -c 'import torch' says why; install torch again")
    runtime = f"CUDA {built.cuda}" if built.cuda else f"ROCm {built.hip}" if built.hip else "no GPU"
    seconds = built.import_seconds
    return passed(f"torch {built.version}, built for {runtime}", torch=built.version, import_seconds=seconds)


def gpu_driver(readings: Readings) -> Outcome:
    """The driver is loaded, and answers for its GPUs."""
    driver = readings.driver
    advice = "nvidia-smi and dmesg | grep NVRM say why; install the driver, or reboot into its kernel"
    if driver.problem:
        return unknown(f"the driver could not be read: {driver.problem}", advice)
    if driver.version is None:
        return failed(f"no driver is loaded ({driver.nvml_problem or 'no version'})", advice, pci_gpus=driver.pci_gpus)
    if driver.nvml_problem:
        judge = unknown if "not installed" in driver.nvml_problem else failed
        return judge(f"driver {driver.version}, {driver.nvml_problem}", advice, driver=driver.version)
    if not driver.gpus:
        return failed(f"driver {driver.version} has no GPU", advice, driver=driver.version, pci_gpus=driver.pci_gpus)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in driver.gpus))
    return passed(f"{driver.version}: {len(driver.gpus)} x {names}", driver=driver.version, gpus=len(driver.gpus))


def cuda_driver_fit(readings: Readings) -> Outcome:
    """The driver is new enough for the CUDA that torch was built for.

    By the CUDA of its libcuda; of the same major version an older one is enough (minor version compatibility, since
    CUDA 11). Without libcuda by the table of drivers.
    """
    driver, built = readings.driver, readings.torch
    if built.cuda is None:
        return not_run("torch is not built for CUDA (torch-cuda)")
    figures = {"driver": driver.version, "driver_cuda": driver.cuda, "torch_cuda": built.cuda}
    major, least = numbers_of(built.cuda)[0], least_driver(numbers_of(built.cuda)[0])
    said = f"driver {driver.version} has CUDA {driver.cuda or 'unknown'}, torch is built for {built.cuda}"
    advice = f"install driver {least or 'of that CUDA'} or newer, or a torch built for the driver's CUDA"
    old = driver_is_old(driver, least)
    if driver.cuda is not None:
        if numbers_of(driver.cuda)[0] < major:
            return failed(said, advice, **figures)
        by = " through cuda-compat" if old else ""
        if numbers_of(driver.cuda) < numbers_of(built.cuda):
            by += " (minor version compatibility: no PTX is compiled)"
        return passed(said + by, **figures)
    if old is None:
        return unknown(f"{said}: no table has its driver", "run nvidia-smi: it shows the newest CUDA", **figures)
    return failed(said, advice, **figures) if old else passed(f"{said}, which needs {least}", **figures)


def driver_is_old(driver: DriverReading, least: int | None) -> bool | None:
    """Whether the kernel module is older than a branch; None where either is not known."""
    return None if driver.version is None or least is None else numbers_of(driver.version)[0] < least


def torch_cuda(readings: Readings) -> Outcome:
    """Torch can use the GPUs; else why not."""
    built = readings.torch
    if built.version is None:
        return unknown("torch cannot be imported (torch-import)")
    if readings.driver.problem and not built.available:
        return unknown(f"the driver could not be read: {readings.driver.problem}")
    if built.available and built.gpus:
        sliced = " (MIG slices)" if any(gpu.mig for gpu in readings.driver.gpus) else ""
        names = ", ".join(dict.fromkeys(gpu.name for gpu in built.gpus))
        return passed(f"{len(built.gpus)} x {names}{sliced}", gpus=len(built.gpus))
    seen, next_step = why_no_cuda(readings.driver, built)
    return failed(seen, next_step, torch=built.version, cuda_init=readings.driver.cuda_init)


def why_no_cuda(driver: DriverReading, built: TorchReading) -> tuple[str, str]:
    """Why torch cannot use the GPUs of a machine that has some, and what to do; the nearest cause first."""
    return next(_causes(driver, built))


def _causes(driver: DriverReading, built: TorchReading) -> Iterator[tuple[str, str]]:
    if built.cuda is None:
        advice = "install a build of torch for CUDA (pytorch.org, Get Started)"
        yield f"torch {built.version} is built without CUDA", advice
        return
    if driver.visible_devices is not None and driver.visible_devices.strip() in _HIDE_ALL:
        yield f"CUDA_VISIBLE_DEVICES={driver.visible_devices!r} hides all GPUs", "unset CUDA_VISIBLE_DEVICES"
    if driver.closed_files:
        files = " ".join(driver.closed_files[:3])
        yield f"no permission for {files}", "chmod a+rw these files, or add the user to their group"
    if driver.libcuda_problem:
        advice = "install the driver's libraries (libnvidia-compute); a container needs --gpus all"
        yield f"no libcuda: {driver.libcuda_problem}", advice
    if driver.cuda is not None and numbers_of(driver.cuda)[0] < numbers_of(built.cuda)[0]:
        least = least_driver(numbers_of(built.cuda)[0]) or "of that CUDA"
        seen = f"the driver is too old: it has CUDA {driver.cuda}, torch is built for {built.cuda}"
        yield seen, f"install driver {least} or newer, or a torch built for CUDA {driver.cuda}"
    if driver.cuda_init in (0, _NO_DEVICE) and any(gpu.mig for gpu in driver.gpus):
        yield "MIG is on, and torch sees no slice", "nvidia-smi mig -lgi lists slices; nvidia-smi -mig 0 ends MIG"
    if driver.cuda_init:
        text, advice = _CUDA_RESULTS.get(driver.cuda_init, ("an error", "look for it in cuda.h, CUresult"))
        yield f"cuInit returned {driver.cuda_init}: {text}", advice
    yield built.cuda_problem or "torch gives no reason", "python -c 'import torch; torch.cuda.init()' says more"


def gpu_architecture(readings: Readings) -> Outcome:
    """Torch has kernels for each GPU."""
    built = readings.torch
    kernels = ", ".join(built.architectures)
    if not built.architectures:
        return unknown(
            "torch does not say for which GPUs it was built",
            "python -c 'import torch; print(torch.cuda.get_arch_list())'",
        )
    missing = {
        f"{gpu.name} ({gpu.capability})": None
        for gpu in built.gpus
        if not any(runs_on(kernel, gpu.capability) for kernel in built.architectures)
    }
    if missing:
        return failed(
            f"no kernels for {', '.join(missing)}; torch has {kernels}",
            "install a build of torch for this GPU",
            architectures=kernels,
        )
    here = ", ".join(dict.fromkeys(gpu.capability for gpu in built.gpus))
    return passed(f"{here} in {kernels}", architectures=kernels)


def runs_on(kernel: str, capability: str) -> bool:
    """Whether a kernel built for ``sm_80`` or ``compute_90`` runs on a GPU of a compute capability (``8.6``).

    Binary code runs on the same major version with the same minor or a later one, that of an ``a`` on its own alone
    and of an ``f`` within its family; PTX (``compute``) on every later one (CUDA C++ Programming Guide, 5.1).
    """
    found = _KERNEL.fullmatch(kernel)
    if found is None:
        return False
    built, here = (int(found[2]), int(found[3])), tuple(numbers_of(capability))
    if found[4] == "a":
        return built == here
    return built <= here and ((found[1] == "compute" and not found[4]) or built[0] == here[0])


def cudnn(readings: Readings) -> Outcome:
    """The cuDNN that is loaded is one that torch was compiled for; torch compares them itself."""
    built = readings.torch
    if built.cudnn_problem:
        return failed(built.cudnn_problem, "take the other cuDNN out of LD_LIBRARY_PATH")
    return passed(f"cuDNN {built.cudnn}", cudnn=built.cudnn) if built.cudnn else not_run("torch is built without cuDNN")


def nccl_library(readings: Readings) -> Outcome:
    """One NCCL is loaded, and no older one than torch was compiled with."""
    built = readings.torch
    paths = {one.path: one.version for one in built.nccl_libraries}
    listed = ", ".join(f"{path} ({version or 'version unknown'})" for path, version in paths.items())
    if built.nccl is None:
        return failed(f"torch {built.version} is built without NCCL", "install a build of torch with NCCL")
    if len(paths) > 1:
        return failed(
            f"two NCCL libraries are loaded: {listed}",
            "take one out of LD_LIBRARY_PATH and LD_PRELOAD, or uninstall it",
            nccl=built.nccl,
        )
    if not paths:
        return passed(f"NCCL {built.nccl}, within torch", nccl=built.nccl)
    loaded = next(iter(paths.values()))
    if loaded is None:
        return unknown(f"torch is compiled with {built.nccl}; loaded is {listed}", "", nccl=built.nccl)
    if numbers_of(loaded) < numbers_of(built.nccl):
        return failed(
            f"torch is compiled with NCCL {built.nccl}, loaded is the older {listed}",
            f"install NCCL {built.nccl} or newer, or take the older out of LD_LIBRARY_PATH",
            nccl=built.nccl,
            loaded=loaded,
        )
    newer = f"; torch is compiled with {built.nccl}" if loaded != built.nccl else ""
    return passed(f"NCCL {listed}{newer}", nccl=built.nccl, loaded=loaded)


def numbers_of(version: str) -> tuple[int, ...]:
    """``(2, 13, 0)`` of ``2.13.0+cpu``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)
