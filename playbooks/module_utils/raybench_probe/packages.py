"""Versions of Python packages that matter. Imports nothing of ours: other Pythons of the host run its text as well."""

import json
import os
import sys
from typing import Any, Dict, Sequence

DISTRIBUTIONS = (
    "torch", "ray", "raybench", "numpy", "triton", "transformer-engine", "flash-attn", "deepspeed", "vllm",
    "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13",
)  # fmt: skip


def python_facts() -> Dict[str, Any]:
    """This Python's version, path and packages."""
    version = ".".join(map(str, sys.version_info[:3]))
    return {"python": version, "executable": sys.executable, "packages": versions(sys.path)}


def versions(folders: Sequence[str]) -> Dict[str, str]:
    """Of ``DISTRIBUTIONS``, the versions that would be imported: of the first folder that has one.

    Read off the names of folders: importlib.metadata takes three times the CPU to import.
    """
    found = {}  # type: Dict[str, str]
    for path in folders:
        try:
            names = os.listdir(path or ".")
        except OSError:
            continue
        for name in names:
            stem, _, end = name.rpartition(".")
            words = stem.split("-")
            own = words[0].lower().replace("_", "-").replace(".", "-")
            if end in ("dist-info", "egg-info") and own in DISTRIBUTIONS and own not in found:
                found[own] = words[1] if len(words) > 1 else _written_version(os.path.join(path, name))
    return {name: version for name, version in found.items() if version}


def _written_version(folder: str) -> str:
    for name in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as lines:
                return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("Version:"))
        except (OSError, StopIteration):
            pass
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(python_facts()))
