"""The size of /dev/shm, where ranks of one host and data loaders meet."""

from __future__ import annotations

import re
from typing import Any

from .host import Host
from .plan import ItemPlan, Setting, edited_file, fixed, skip
from .resources.kernel import SharedMemoryResource
from .resources.resource import State
from .value import size_bytes

_TARGET = "/dev/shm"
_LEEWAY = 0.98  # 50 % of MemTotal is a little less than what the kernel takes half of
_OPTIONS = "rw,nosuid,nodev"


def plan_shared_memory(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``size``: at least so much, ``64G`` or ``50%``. Never made smaller; kept over boots by /etc/fstab."""
    total = memory_bytes(host)
    wanted = size_bytes(options["size"], "system_limits_shared_memory", total)
    if wanted > total:
        return skip(f"{options['size']} is more than this host's memory ({total >> 30} GiB)")
    resource = SharedMemoryResource(_TARGET)
    now = resource.read(host)
    if now is None:
        return skip(f"{_TARGET} is not a tmpfs")
    if mounted_bytes(now, total) >= wanted * _LEEWAY:
        return skip(f"{_TARGET} has {mounted_bytes(now, total) / 2**30:.1f} GiB: enough")
    if not host.may_mount():
        return skip(f"{_TARGET} cannot be remounted from inside this container: start it with a larger --shm-size")
    size = f"{max(1, wanted >> 20) << 10}k"  # whole MiB: the kernel rounds to its pages, which may be 64 KiB
    plan = ItemPlan(settings=[Setting(resource, fixed(size=size))])
    if host.container():
        plan.notes.append("in a container: the size lasts as long as the container")
    else:
        plan.settings.insert(0, edited_file("/etc/fstab", lambda text: with_size(text, size)))
    return plan


def memory_bytes(host: Host) -> int:
    """MemTotal of /proc/meminfo."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", host.text("/proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def mounted_bytes(state: State, total_bytes: int) -> int:
    """The size of a tmpfs from its mount option; half of the memory where there is none."""
    size = (state or {}).get("size")
    if size is None:
        return total_bytes // 2
    factor = {"k": 2**10, "m": 2**20, "g": 2**30}.get(size[-1])
    return int(size[:-1]) * factor if factor else int(size)


def with_size(text: str, size: str) -> str:
    """fstab with that size for /dev/shm: its line changed where it has one, with all other options, else a new line."""
    rows = text.splitlines(keepends=True)
    for number, row in enumerate(rows):
        fields = row.split()
        if len(fields) >= 4 and not row.lstrip().startswith("#") and fields[1] == _TARGET:
            kept = [option for option in fields[3].split(",") if not option.startswith("size=")]
            rows[number] = row.replace(fields[3], ",".join([*kept, f"size={size}"]), 1)
            return "".join(rows)
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}tmpfs {_TARGET} tmpfs {_OPTIONS},size={size} 0 0\n"
