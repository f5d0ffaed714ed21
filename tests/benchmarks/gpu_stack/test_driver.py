"""What is read of the driver from files of the kernel, and of libraries from /proc/PID/maps."""

from pathlib import Path

import pytest

from raybench.benchmarks.gpu_stack.driver import (
    closed_files,
    cuda_version,
    kernel_module,
    nvlinks,
    pci_gpus,
    read_driver,
)
from raybench.benchmarks.gpu_stack.torch_build import mapped_nccl, nccl_version


def device(bus: Path, name: str, vendor: str, kind: str) -> None:
    folder = bus / name
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")


def test_gpus_of_nvidia_are_counted_on_the_bus_and_nothing_else(tmp_path: Path) -> None:
    device(tmp_path, "0000:3d:00.0", "0x10de", "0x030200")  # H200: a 3D controller
    device(tmp_path, "0000:01:00.0", "0x10de", "0x030000")  # a screen's
    device(tmp_path, "0000:05:00.0", "0x10de", "0x068000")  # NVSwitch
    device(tmp_path, "0000:07:00.0", "0x1002", "0x030000")  # AMD
    assert pci_gpus(tmp_path) == 2


def test_the_version_of_the_kernel_module(tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs)\nGCC ...\n"
    )
    assert kernel_module(file) == "580.95.05"
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n")
    assert kernel_module(file) == "535.183.01"
    assert kernel_module(tmp_path / "absent") is None


def test_device_files_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (tmp_path / name).touch()
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path).name != "nvidiactl")
    assert closed_files(tmp_path) == ("/dev/nvidiactl",)


def test_a_machine_without_gpus_says_so_everywhere(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    reading = read_driver(tmp_path)
    assert (reading.pci_gpus, reading.device_files, reading.container) == (0, 0, True)


def test_versions_as_cuda_and_nccl_count_them() -> None:
    assert [cuda_version(number) for number in (12040, 13000, 11080)] == ["12.4", "13.0", "11.8"]
    assert [nccl_version(number) for number in (22705, 2804, 23000)] == ["2.27.5", "2.8.4", "2.30.0"]


def test_nccl_libraries_are_found_once_each_and_plugins_are_none() -> None:
    maps = """\
7f0000000000-7f0000001000 r--p 00000000 08:01 131 /venv/lib/nvidia/nccl/lib/libnccl.so.2
7f0000001000-7f0000002000 r-xp 00001000 08:01 131 /venv/lib/nvidia/nccl/lib/libnccl.so.2
7f0000003000-7f0000004000 r-xp 00001000 08:01 132 /opt/aws/lib/libnccl-net.so
7f0000005000-7f0000006000 r-xp 00001000 08:01 133 /opt/my nccl/libnccl.so.2.19.3
7f0000007000-7f0000008000 r-xp 00001000 08:01 134 /usr/lib/libtorch_cuda.so
7f0000009000-7f000000a000 rw-p 00000000 00:00 0
"""
    found = mapped_nccl(maps.splitlines())
    assert found == ("/venv/lib/nvidia/nccl/lib/libnccl.so.2", "/opt/my nccl/libnccl.so.2.19.3")


@pytest.mark.parametrize(
    ("answers", "up"),
    [
        ([1, 1, 0, "InvalidArgument"], 2),  # one of three is down
        (["NotSupported"], 0),  # a GPU on PCIe
        (["GpuIsLost"], None),
        ([1, "Unknown"], None),
    ],
)
def test_nvlinks_of_a_gpu_that_does_not_answer_are_not_none(answers: list[int | str], up: int | None) -> None:
    import pynvml

    class Nvml:
        NVML_NVLINK_MAX_LINKS = 18
        NVMLError = pynvml.NVMLError
        NVMLError_NotSupported = pynvml.NVMLError_NotSupported
        NVMLError_InvalidArgument = pynvml.NVMLError_InvalidArgument

        @staticmethod
        def nvmlDeviceGetNvLinkState(_handle: object, link: int) -> int:  # noqa: N802 - NVML's name
            answer = answers[link]
            if isinstance(answer, str):
                raise getattr(pynvml, f"NVMLError_{answer}")
            return answer

    assert nvlinks(Nvml, object()) == up
