"""Whether a process is such as this one would start: what its children get from it is what ours would get. Linux."""

import os
from collections.abc import Mapping
from pathlib import Path

from raybench.execution.variables import PASSED_ON

_NAMESPACES = ("mnt", "net", "pid", "ipc", "uts", "user", "cgroup")
_STATUS = ("Uid", "Gid", "Groups", "CapEff", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list")
_VARIABLES = ("LD_", "PYTHON", "CUDA_", "TORCH", "PATH", "HOME", "TMPDIR", "MALLOC_", "KMP_", "MKL_", *PASSED_ON)
# What each rank is given of its own, and what Ray sets in its workers that no rank reads.
_APART = {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONBREAKPOINT"}


def difference(pid: int, environment: Mapping[str, str] | None = None) -> str | None:
    """What tells a process from one that this process would start itself; None where nothing does.

    Anything that cannot be read counts as a difference: the process may be on another machine.
    """
    try:
        return _difference(Path("/proc", str(pid)), os.environ if environment is None else environment)
    except OSError as error:
        return f"process {pid} cannot be looked at: {error.strerror}"


def _difference(other: Path, environment: Mapping[str, str]) -> str | None:
    own = Path("/proc/self")
    for name in _NAMESPACES:
        if (own / "ns" / name).readlink() != (other / "ns" / name).readlink():
            return f"{name} namespace"
    for name in ("exe", "root"):
        if (own / name).readlink() != (other / name).readlink():
            return name
    for name in ("limits", "cgroup"):
        if (own / name).read_bytes() != (other / name).read_bytes():
            return name
    if _status(own) != _status(other):
        return "user, capabilities or processors"
    if os.getpriority(os.PRIO_PROCESS, 0) != os.getpriority(os.PRIO_PROCESS, int(other.name)):
        return "priority"
    theirs = dict(entry.split("=", 1) for entry in _environ(other) if "=" in entry)
    ours, others = _compared(environment), _compared(theirs)
    differing = sorted(name for name in ours.keys() | others.keys() if ours.get(name) != others.get(name))
    return f"environment variable {differing[0]}" if differing else None


def _compared(environment: Mapping[str, str]) -> dict[str, object]:
    """The variables that matter. Ray doubles entries of PYTHONPATH in its workers, which changes nothing."""
    return {
        name: tuple(dict.fromkeys(value.split(os.pathsep))) if name == "PYTHONPATH" else value
        for name, value in environment.items()
        if name.startswith(_VARIABLES) and name not in _APART
    }


def _status(process: Path) -> list[str]:
    lines = (process / "status").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [line for line in lines if line.partition(":")[0] in _STATUS]


def _environ(process: Path) -> list[str]:
    return [os.fsdecode(entry) for entry in (process / "environ").read_bytes().split(b"\0")]
