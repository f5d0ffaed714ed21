"""What torch was built with, which libraries it has loaded, and the GPUs that it can use."""

import ctypes
import re
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from raybench.documents.selftest import NcclLibrary, TorchGpu, TorchReading

_MAPS = Path("/proc/self/maps")
_NCCL = re.compile(r"/libnccl\.so[.\d]*$")  # not libnccl-net.so, a plugin


def read_torch() -> TorchReading:
    """Import torch and ask it."""
    began = time.perf_counter()
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that cannot be loaded
        return TorchReading(problem=f"{type(error).__name__}: {' '.join(str(error).split())}")
    seconds = time.perf_counter() - began
    available, problem = _availability(torch)
    cudnn, cudnn_problem = _cudnn(torch)
    return TorchReading(
        version=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=torch.version.hip,
        architectures=_architectures(torch),
        available=available,
        cuda_problem=problem,
        gpus=_gpus(torch) if available else (),
        nccl=_compiled_nccl(torch),
        nccl_libraries=tuple(map(_nccl_library, mapped_nccl(_MAPS.read_text(errors="replace").splitlines()))),
        cudnn=cudnn,
        cudnn_problem=cudnn_problem,
        import_seconds=seconds,
    )


def mapped_nccl(maps: Iterable[str]) -> tuple[str, ...]:
    """The NCCL libraries that a process has loaded, from the lines of /proc/PID/maps, each once."""
    paths = (line.split(maxsplit=5)[5].strip() for line in maps if line.count(" ") >= 5 and "libnccl" in line)
    return tuple(dict.fromkeys(path for path in paths if _NCCL.search(path.removesuffix(" (deleted)"))))


def nccl_version(number: int) -> str:
    """``2.27.5`` of 22705; up to 2.8 it was 2804."""
    digits = 10000 if number >= 10000 else 1000
    return f"{number // digits}.{number % digits // 100}.{number % 100}"


def _nccl_library(path: str) -> NcclLibrary:  # gpu: selftest
    number = ctypes.c_int()
    try:
        known = ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number)) == 0
    except (OSError, AttributeError):
        known = False
    return NcclLibrary(path=path, version=nccl_version(number.value) if known else None)


def _availability(torch: ModuleType) -> tuple[bool, str]:  # gpu: selftest
    """Whether torch can use CUDA, else why not in its own words."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        problem = ""
        try:
            if available or torch.version.cuda:
                torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            available, problem = False, str(error)
    return available, " ".join((problem or "; ".join(str(one.message) for one in told)).split())


def _architectures(torch: ModuleType) -> tuple[str, ...]:  # gpu: selftest
    """Of its kernels. torch.cuda.get_arch_list is empty wherever no GPU can be used."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    return tuple((flags() or "").split()) if flags is not None else ()


def _compiled_nccl(torch: ModuleType) -> str | None:  # gpu: selftest
    if not hasattr(torch._C, "_nccl_version"):
        return None
    version = torch.cuda.nccl.version()
    return ".".join(str(part) for part in version[:3])


def _cudnn(torch: ModuleType) -> tuple[str | None, str]:  # gpu: selftest
    """The version of the cuDNN that is loaded; torch itself refuses one that it was not compiled for."""
    try:
        number = torch.backends.cudnn.version()
    except RuntimeError as error:
        return None, " ".join(str(error).split())
    return (None, "") if number is None else (str(number), "")


def _gpus(torch: ModuleType) -> tuple[TorchGpu, ...]:  # gpu: selftest
    return tuple(_gpu(torch, index) for index in range(torch.cuda.device_count()))


def _gpu(torch: ModuleType, index: int) -> TorchGpu:  # gpu: selftest
    properties = torch.cuda.get_device_properties(index)
    return TorchGpu(
        uuid=str(getattr(properties, "uuid", "unknown")),
        name=properties.name,
        capability=f"{properties.major}.{properties.minor}",
        memory_bytes=int(properties.total_memory),
    )
