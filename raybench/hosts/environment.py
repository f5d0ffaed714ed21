"""What a node's Python environment is built from: the versions of this machine, and raybench itself as a wheel.

``python -m raybench.hosts.environment FOLDER`` writes ``lock.txt`` and the wheel, and prints what the hosts are told
as JSON. The build of a version is the host's own: ``torch==2.13.0`` is locked, not ``+cpu``, so that a node with GPUs
takes the build with CUDA from its index although the controller has none.
"""

import base64
import hashlib
import importlib.util
import json
import platform
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from raybench.errors import UsageError
from raybench.installation import install_advice
from raybench.version import __version__

ROOTS = ("ray", "torch", "numpy", "click", "msgspec", "psutil", "PyYAML", "rich")
_NVML = "nvidia-ml-py"  # without it only one figure is missing: how busy a GPU is
_PACKAGES = ("raybench", "diagnostics")
_STAMP = (2020, 1, 1, 0, 0, 0)  # the same content is the same file


def locked_versions(roots: tuple[str, ...] = ROOTS) -> dict[str, str]:
    """Name and public version of the installed roots and all that they need here, by name.

    Raises UsageError where a root is not installed.
    """
    from packaging.requirements import Requirement  # comes with Ansible and with Ray
    from packaging.utils import canonicalize_name

    found: dict[str, str] = {}
    wanted: list[tuple[str, str]] = [*((name, "") for name in roots), (_NVML, "raybench")]
    while wanted:
        name, needed_by = wanted.pop()
        if canonicalize_name(name) in found:
            continue
        package = _installed(name)
        if package is None:
            if needed_by:
                continue  # of another platform, or an extra that is not installed
            raise UsageError(
                f"{name} is not installed on this machine, so there is no version to give the hosts: "
                f"{install_advice('run')}, or name a Python that they have (--python, raybench_python)"
            )
        found[canonicalize_name(name)] = package.version.partition("+")[0]
        for text in package.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append((requirement.name, name))
    return dict(sorted(found.items()))


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def write_wheel(folder: Path) -> Path:
    """raybench of this machine as a wheel, from the files that are imported here, however they were installed."""
    path = folder / f"raybench-{__version__}-py3-none-any.whl"
    info = f"raybench-{__version__}.dist-info"
    files = {name: file.read_bytes() for name, file in _sources()}
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: raybench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nraybench = raybench.__main__:main\n"
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _STAMP)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    return path


def _sources() -> Iterator[tuple[str, Path]]:
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise UsageError(f"the package {package} cannot be found on this machine; install raybench again")
        root = Path(spec.origin).parent
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"{package}/{file.relative_to(root).as_posix()}", file


def _metadata() -> bytes:
    """Name and version; what raybench needs is in the lock, and is named to pip beside the wheel."""
    return f"Metadata-Version: 2.1\nName: raybench\nVersion: {__version__}\n".encode()


def _digest(content: bytes) -> str:
    """As RECORD wants it (PEP 376, PEP 427): URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _roots(versions: Mapping[str, str]) -> list[str]:
    return [*ROOTS, *([_NVML] if _NVML in versions else [])]


def write_environment(folder: Path) -> dict[str, Any]:
    """Write ``lock.txt`` and the wheel to a folder. Returns what the hosts are told."""
    versions = locked_versions()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    lock = "".join(f"{name}=={version}\n" for name, version in versions.items())
    (folder / "lock.txt").write_text(lock, encoding="ascii")
    wheel = write_wheel(folder)
    content = hashlib.sha256(lock.encode() + wheel.read_bytes()).hexdigest()
    minor = ".".join(platform.python_version_tuple()[:2])
    return {"minor": minor, "wheel": wheel.name, "roots": _roots(versions), "digest": content}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(write_environment(Path(sys.argv[1]))) + "\n")
    except (UsageError, OSError) as error:
        sys.exit(f"raybench: {error}")
