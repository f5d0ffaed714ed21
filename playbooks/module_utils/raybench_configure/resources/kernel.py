"""What the running kernel holds: values under /proc and /sys, modules, the size of /dev/shm."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import HostError
from ..host import Host
from .resource import Resource, State


class ValueResource(Resource):
    """Files of one line under /proc/sys or /sys that match a pattern. State: value by path."""

    kind = "value"

    def read(self, host: Host) -> State:
        """The values; None where there is no such file."""
        found = {}
        for path in host.glob(self.target):
            text = host.text(path)
            if text is not None:
                found[path] = " ".join(text.split())
        return found or None

    def write(self, host: Host, state: State) -> None:
        """Write the values that differ. A file that has gone (a CPU taken offline) is passed over."""
        now = self.read(host) or {}
        for path, value in (state or {}).items():
            if path in now and now[path] != value and value is not None:
                _write(host.path(path), str(value), path)


class ModuleResource(Resource):
    """A kernel module. State: whether it is loaded (or built in)."""

    kind = "module"

    def read(self, host: Host) -> State:
        """Whether /sys/module knows it."""
        return {"loaded": host.exists(f"/sys/module/{self.target.replace('-', '_')}")}

    def write(self, host: Host, state: State) -> None:
        """Load it or take it out. Raises HostError with what modprobe said, as where it is in use."""
        load = bool(state and state["loaded"])
        answer = host.run("modprobe", *(["--"] if load else ["-r", "--"]), self.target, seconds=60)
        if answer.status:
            verb = "loaded" if load else "removed (a reboot takes it away)"
            raise HostError(f"module {self.target} could not be {verb}: {answer.reason}")


class SharedMemoryResource(Resource):
    """The size of a mounted tmpfs. State: the size option of the mount, or None where the kernel's default holds."""

    kind = "tmpfs"

    def read(self, host: Host) -> State:
        """The size as /proc/self/mounts shows it; None where no tmpfs is mounted there."""
        for entry in reversed((host.text("/proc/self/mounts") or "").splitlines()):
            fields = entry.split()
            if len(fields) > 3 and fields[1] == self.target:
                found = re.search(r"(?:^|,)size=(\d+[kmg]?)(?:,|$)", fields[3])
                return {"size": found[1] if found else None} if fields[2] == "tmpfs" else None
        return None

    def write(self, host: Host, state: State) -> None:
        """Remount with that size. The kernel refuses less than is in use."""
        size = (state or {}).get("size") or default_size(host.text("/proc/meminfo") or "")
        answer = host.run("mount", "-o", f"remount,size={size}", self.target)
        if answer.status:
            raise HostError(f"{self.target} could not be given {size}: {answer.reason}")


def default_size(memory: str) -> str:
    """Half of MemTotal, whole pages: the kernel gives it where no size is said, and shows none. 50% is a page more."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", memory, re.MULTILINE)
    page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
    return f"{int(found[1]) // page_kib // 2 * page_kib}k" if found else "50%"


class ConfigfsTosResource(Resource):
    """The type of service of RDMA-CM connections of a device, ``mlx5_0/1`` (device/port).

    Documentation/ABI/testing/configfs-rdma_cm: a folder made for the device shows its ports' default_roce_tos.
    """

    kind = "roce_tos"

    def read(self, host: Host) -> State:
        """The value, and whether the device's folder is there; None where the kernel offers no such setting."""
        folder, port = self._folder(host)
        if not folder.parent.is_dir():
            return None
        made = _make(folder)
        try:
            text = (folder / f"ports/{port}/default_roce_tos").read_text()
            return {"tos": int(text.strip(), 0), "shown": not made}
        except (OSError, ValueError):
            return None
        finally:
            if made:
                folder.rmdir()

    def write(self, host: Host, state: State) -> None:
        """Set it. The kernel keeps the value without the folder, so that goes where it was not there at first."""
        folder, port = self._folder(host)
        wanted = state or {}
        _make(folder)
        _write(folder / f"ports/{port}/default_roce_tos", str(wanted.get("tos") or 0), self.target)
        if not wanted.get("shown", True):
            folder.rmdir()

    def _folder(self, host: Host) -> tuple[Path, str]:
        device, port = self.target.split("/")
        return host.path(f"/sys/kernel/config/rdma_cm/{device}"), port


class TrafficClassResource(Resource):
    """The traffic class that a device gives all its RoCE packets; there with DOCA-OFED's driver only."""

    kind = "traffic_class"

    def read(self, host: Host) -> State:
        """``Global tclass=106`` as the driver prints it; None in the state where none is set."""
        text = host.text(self._path)
        if text is None:
            return None
        found = re.search(r"[Gg]lobal tclass=(\d+)", text)
        return {"traffic_class": int(found[1]) if found else None}

    def write(self, host: Host, state: State) -> None:
        """Set it; 0 where none was set at first, which is what packets without one carry."""
        value = (state or {}).get("traffic_class")
        _write(host.path(self._path), str(0 if value is None else value), self.target)

    def same(self, one: State, other: State) -> bool:
        """None and 0 mark packets alike."""
        return (one is None) == (other is None) and ((one or {}).get("traffic_class") or 0) == (
            (other or {}).get("traffic_class") or 0
        )

    @property
    def _path(self) -> str:
        device, port = self.target.split("/")
        return f"/sys/class/infiniband/{device}/tc/{port}/traffic_class"


def _make(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    except OSError:
        return False
    return True


def _write(path: Path, value: str, name: str) -> None:
    try:
        path.write_text(f"{value}\n")
    except OSError as error:
        raise HostError(f"{name} did not take {value!r}: {error.strerror}") from None
