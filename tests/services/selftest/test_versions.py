"""Driver, CUDA, torch, cuDNN and NCCL that do not fit each other are named, and those that just do are not accused."""

import pytest

from raybench.documents.selftest import DriverGpu, NcclLibrary
from raybench.services.selftest.check import NVIDIA, Package, unmet_need
from raybench.services.selftest.versions import (
    cuda_driver_fit,
    cudnn,
    gpu_architecture,
    gpu_driver,
    nccl_library,
    python_packages,
    runs_on,
    torch_cuda,
    torch_import,
)
from tests.services.selftest.machine import NCCL, driver, readings, torch, unusable


@pytest.mark.parametrize(
    ("version", "cuda", "torch_cuda_version", "result", "said"),
    [
        ("580.159.04", "13.0", "13.0", "passed", "torch is built for 13.0"),
        ("580.159.04", "13.0", "12.8", "passed", "torch is built for 12.8"),
        ("535.183.01", "12.2", "12.8", "passed", "minor version compatibility"),
        ("535.183.01", "13.0", "13.0", "passed", "through cuda-compat"),
        ("570.86.10", "12.8", "13.0", "failed", "driver 570.86.10 has CUDA 12.8"),
        ("570.86.10", None, "13.0", "failed", "CUDA unknown"),
        ("580.159.04", None, "13.0", "passed", "which needs 580"),
        ("900.1.1", None, "19.0", "unknown", "no table has its driver"),
        ("900.1.1", "19.1", "19.0", "passed", "CUDA 19.1"),
    ],
)
def test_the_driver_is_compared_with_the_cuda_of_torch(
    version: str, cuda: str | None, torch_cuda_version: str, result: str, said: str
) -> None:
    outcome = cuda_driver_fit(readings(driver=driver(version=version, cuda=cuda), torch=torch(cuda=torch_cuda_version)))
    assert (outcome.result, said in outcome.seen) == (result, True), outcome.seen
    assert ("580" in outcome.next_step) == (result == "failed")


@pytest.mark.parametrize(
    ("changes", "built", "said"),
    [
        ({}, {"cuda": None, "version": "2.13.0+cpu"}, "torch 2.13.0+cpu is built without CUDA"),
        ({"visible_devices": ""}, {}, "CUDA_VISIBLE_DEVICES='' hides all GPUs"),
        ({"visible_devices": "-1"}, {}, "CUDA_VISIBLE_DEVICES='-1' hides all GPUs"),
        ({"closed_files": ("/dev/nvidia0", "/dev/nvidiactl")}, {}, "no permission for /dev/nvidia0 /dev/nvidiactl"),
        ({"cuda": None, "cuda_init": None, "libcuda_problem": "libcuda.so.1: not found"}, {}, "no libcuda"),
        ({"cuda": "12.4", "cuda_init": 0}, {}, "the driver is too old: it has CUDA 12.4, torch is built for 13.0"),
        ({"cuda_init": 802}, {}, "cuInit returned 802: the system is not ready"),
        ({"cuda_init": 803}, {}, "libcuda and the kernel module have different versions"),
        ({"cuda_init": 4711}, {}, "cuInit returned 4711"),
        ({"gpus": (DriverGpu(uuid="GPU-a", name="NVIDIA H200", mig=True),)}, {}, "MIG is on"),
        ({"visible_devices": "0"}, {}, "No CUDA GPUs are available"),
    ],
)
def test_why_torch_cannot_use_gpus_that_are_there(
    changes: dict[str, object], built: dict[str, object], said: str
) -> None:
    outcome = torch_cuda(readings(driver=driver(**changes), torch=unusable(**built)))
    assert outcome.result == "failed"
    assert said in outcome.seen
    assert outcome.next_step


def test_gpus_that_torch_can_use_pass_and_slices_are_said() -> None:
    assert torch_cuda(readings()).seen == "2 x NVIDIA H200"
    sliced = driver(gpus=(DriverGpu(uuid="GPU-a", name="NVIDIA H200", mig=True),))
    assert "MIG slices" in torch_cuda(readings(driver=sliced)).seen


def test_a_driver_that_is_missing_or_of_another_version_than_its_library() -> None:
    absent = driver(version=None, gpus=(), nvml_problem="NVML: NVML Shared Library Not Found")
    assert gpu_driver(readings(driver=absent)).result == "failed"
    mismatch = driver(gpus=(), nvml_problem="NVML: Driver/library version mismatch")
    assert (gpu_driver(readings(driver=mismatch)).result, gpu_driver(readings()).result) == ("failed", "passed")
    unread = driver(gpus=(), nvml_problem="nvidia-ml-py is not installed")
    assert gpu_driver(readings(driver=unread)).result == "unknown"


def test_a_gpu_on_the_bus_of_a_container_is_not_its_own() -> None:
    bus = driver(device_files=0, gpus=(), version=None, nvml_problem="NVML: not found", pci_gpus=8)
    nothing = unusable(cuda=None)
    assert unmet_need(NVIDIA, readings(driver=bus, torch=nothing)) is None
    inside = driver(device_files=0, gpus=(), version=None, nvml_problem="NVML: not found", pci_gpus=8, container=True)
    reason = unmet_need(NVIDIA, readings(driver=inside, torch=nothing))
    assert reason == "8 GPUs on the PCI bus of the host, none given to this container"
    given = driver(device_files=1, gpus=(), version="580.1", nvml_problem="NVML: not found", pci_gpus=8, container=True)
    assert unmet_need(NVIDIA, readings(driver=given, torch=nothing)) is None


@pytest.mark.parametrize(
    ("kernel", "capability", "runs"),
    [
        ("sm_80", "8.6", True),
        ("sm_86", "8.0", False),
        ("sm_80", "9.0", False),
        ("compute_80", "9.0", True),
        ("compute_90", "8.9", False),
        ("sm_90a", "9.0", True),
        ("sm_90a", "9.1", False),
        ("sm_100", "10.3", True),
        ("sm_100f", "10.3", True),
        ("compute_100f", "12.0", False),
        ("gfx942", "9.4", False),
    ],
)
def test_which_kernels_run_on_which_gpu(kernel: str, capability: str, runs: bool) -> None:
    assert runs_on(kernel, capability) is runs


def test_a_gpu_without_kernels_is_named() -> None:
    old = gpu_architecture(readings(torch=torch(architectures=("sm_75", "sm_80", "compute_100"))))
    assert (old.result, old.seen) == ("failed", "no kernels for NVIDIA H200 (9.0); torch has sm_75, sm_80, compute_100")
    assert gpu_architecture(readings(torch=torch(architectures=("sm_80", "compute_80")))).result == "passed"
    assert gpu_architecture(readings(torch=torch(architectures=()))).result == "unknown"


@pytest.mark.parametrize(
    ("libraries", "result", "said"),
    [
        ((NCCL,), "passed", "NCCL /venv"),
        ((), "passed", "within torch"),
        ((NCCL, NcclLibrary(path="/usr/lib/libnccl.so.2", version="2.27.5")), "failed", "two NCCL libraries"),
        ((NcclLibrary(path="/usr/lib/libnccl.so.2", version="2.19.3"),), "failed", "loaded is the older"),
        ((NcclLibrary(path="/usr/lib/libnccl.so.2", version="2.30.1"),), "passed", "compiled with 2.27.5"),
        ((NcclLibrary(path="/usr/lib/libnccl.so.2", version=None),), "unknown", "version unknown"),
    ],
)
def test_the_nccl_that_is_loaded_against_the_one_of_torch(
    libraries: tuple[NcclLibrary, ...], result: str, said: str
) -> None:
    outcome = nccl_library(readings(torch=torch(nccl_libraries=libraries)))
    assert (outcome.result, said in outcome.seen) == (result, True), outcome.seen


def test_a_torch_without_nccl_or_with_a_wrong_cudnn_fails() -> None:
    assert nccl_library(readings(torch=torch(nccl=None))).result == "failed"
    wrong = torch(cudnn=None, cudnn_problem="cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2)")
    assert cudnn(readings(torch=wrong)).result == "failed"
    assert (cudnn(readings()).result, cudnn(readings(torch=torch(cudnn=None))).result) == ("passed", "not-run")


def test_packages_that_are_missing_or_too_old_are_named() -> None:
    old, absent = (
        Package(name="ray", least="2.55", installed="2.9.3"),
        Package(name="numpy", least="1.26", installed=None),
    )
    outcome = python_packages(readings(packages=(old, absent)))
    assert outcome.seen == "ray 2.9.3 (at least 2.55); numpy is not installed (at least 1.26)"
    assert python_packages(readings(packages=())).result == "unknown"
    assert python_packages(readings()).result == "passed"
    broken = torch(version=None, problem="ImportError: libcudart.so.13: cannot open shared object file")
    assert torch_import(readings(torch=broken)).result == "failed"
