"""CUDA's public headers, from wheels on PyPI: only their include folders are unpacked, nothing else of them is used."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.lab.errors import LabUnavailableError

from .cache import cached

# CUDA 11 has no wheel of its own for cccl; NCCL before 2.16 does not need it.
_WHEELS = {
    11: ("nvidia-cuda-runtime-cu11==11.8.89", "nvidia-cuda-nvcc-cu11==11.8.89"),
    12: ("nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-cccl-cu12==12.9.27"),
}
_DOWNLOAD_SECONDS = 300
_VERBS_HEADER = Path("/usr/include/infiniband/verbs.h")


def missing_tools() -> str | None:
    """None where this machine can build, else what to install."""
    absent = [tool for tool in ("g++", "gcc", "nm", "objcopy") if shutil.which(tool) is None]
    if absent:
        return f"building NCCL needs {', '.join(absent)}: apt-get install g++ binutils"
    if not _VERBS_HEADER.exists():
        return f"building NCCL's emulated adapters needs {_VERBS_HEADER}: apt-get install libibverbs-dev"
    return None


def cuda_headers(major: int) -> Path:
    """The headers of CUDA 11 or 12, downloaded once. Raises LabUnavailableError with what pip said."""
    return cached(f"cuda-{major}", lambda folder: _download(_WHEELS[major], folder))


def _download(wheels: tuple[str, ...], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as store:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", store]
        done = subprocess.run(
            [*command, *wheels], capture_output=True, text=True, check=False, timeout=_DOWNLOAD_SECONDS
        )
        if done.returncode != 0:
            raise LabUnavailableError(f"the headers of CUDA cannot be downloaded: {done.stderr.strip()[-300:]}")
        for wheel in sorted(Path(store).glob("*.whl")):
            _unpack_headers(wheel, folder)


def _unpack_headers(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, mark, below = name.partition("/include/")
            target = (folder / below).resolve()
            if mark and below and not name.endswith("/") and target.is_relative_to(folder.resolve()):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
