"""Memory, swap, shared memory and disks."""

import re

from diagnostics.limits import NCCL_WITH_LARGE_SHM, SHM_BYTES_PER_RANK
from raybench.preflight.checks.software import nccl_version
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.system import parse_meminfo
from raybench.preflight.verdict import Judgement, failed, passed, unknown, warned

GIB = 2**30
_TEMPORARY = "/tmp"


def memory(view: HostView) -> Judgement:
    """Enough of it, and not taken by somebody else."""
    found = parse_meminfo(view.file("proc", "/proc/meminfo") or "")
    if "MemTotal" not in found:
        return unknown("/proc/meminfo cannot be read")
    total, available = found["MemTotal"], found.get("MemAvailable", found.get("MemFree", 0))
    seen = f"{total / GIB:.0f} GiB, {available / GIB:.0f} GiB available"
    wanted = view.expected.memory_min_gib
    if wanted is not None and total < wanted * GIB:
        advice = "compare with dmidecode -t memory: a module may have failed"
        return failed(seen, f"at least {wanted:g} GiB", "preflight_memory_min_gib", advice)
    percent = view.expected.memory_available_min_percent
    if available < total * percent / 100:
        return warned(
            seen, f"{percent:g} % available", "a run needs free memory", "end what takes the memory: ps aux --sort -rss"
        )
    return passed(seen, f"{percent:g} % available")


def swap(view: HostView) -> Judgement:
    """Memory that was swapped out makes one rank the straggler of all."""
    found = parse_meminfo(view.file("proc", "/proc/meminfo") or "")
    if "SwapTotal" not in found:
        return unknown("/proc/meminfo cannot be read")
    used = found["SwapTotal"] - found.get("SwapFree", found["SwapTotal"])
    seen = f"{used / GIB:.1f} of {found['SwapTotal'] / GIB:.1f} GiB used"
    limit = view.expected.swap_used_max_gib
    if used <= limit * GIB:
        return passed(seen, f"at most {limit:g} GiB used")
    advice = "free memory, then swapoff -a and swapon -a"
    return warned(seen, f"at most {limit:g} GiB used", "a host that swaps slows the others", advice)


def disk(view: HostView) -> Judgement:
    """Free space and inodes where raybench, Ray and NCCL write."""
    systems = {path: state for path, state in view.value("file_systems").items() if path != "/dev/shm"}
    silent = sorted(name.partition(":")[2] for name in view.readings if name.startswith("file_system:"))
    if silent:
        advice = "find the server of this file system; umount -f -l it; its processes hang until then"
        return failed(f"no answer from {', '.join(silent)}", "every file system answers", "statvfs in time", advice)
    limit = view.expected.disk_free_min_percent
    shares = {
        path: 100 * min(state["free"] / max(state["total"], 1), _inode_share(state)) for path, state in systems.items()
    }
    if not shares:
        return unknown("no file system could be measured")
    path, percent = min(shares.items(), key=lambda item: item[1])
    seen = f"{path}: {percent:.0f} % free ({systems[path]['free'] / GIB:.0f} GiB)"
    if percent >= limit:
        return passed(seen, f"{limit:g} % free")
    verdict = failed if percent < limit / 2 else warned
    return verdict(
        seen, f"{limit:g} % free", "gpud's limit; half of it fails", f"free space: du -xh {path} | sort -h | tail"
    )


def read_only(view: HostView) -> Judgement:
    """A file system that the kernel remounted read-only after an error, or that nobody can write a checkpoint to."""
    rows = [
        (str(point), str(kind), wanted) for point, kind, is_read_only, wanted in view.value("mounts") if is_read_only
    ]
    lost = [f"{point} ({kind})" for point, kind, wanted in rows if wanted is False]
    if lost:
        return failed(
            f"read-only: {', '.join(lost)}",
            "as /etc/fstab wants it: for reading and writing",
            "after an error the kernel mounts a file system read-only",
            "look for I/O and file system errors in dmesg; check the disk, fsck, then mount -o remount,rw",
        )
    told = [f"{point} ({kind}{', in no fstab' if wanted is None else ''})" for point, kind, wanted in rows]
    return passed(f"read-only: {', '.join(told)}" if told else "none", "none that /etc/fstab wants to be written")


def folders(view: HostView) -> Judgement:
    """Where jobs write and what they run: Ray's sessions and compiled kernels lie in /tmp, caches at home."""
    temporary, home = view.value("file_systems").get(_TEMPORARY), view.value("home")
    wanted = f"{_TEMPORARY} and the home directory can be written to, and {_TEMPORARY} runs programs"
    if temporary is None or "writable" not in temporary:
        return unknown(f"{_TEMPORARY} was not looked at: it is not there, or not among preflight_folders")
    if not temporary["writable"]:
        advice = f"look at mount and ls -ld {_TEMPORARY}: mode 1777, mounted for writing; Ray starts nothing without it"
        return failed(f"{_TEMPORARY} cannot be written to", wanted, f"Ray keeps its sessions in {_TEMPORARY}", advice)
    if not home["writable"]:
        advice = f"mount and ls -ld {home['path']}: is its file server's export read-only? Or set HOME for jobs"
        return warned(f"{home['path']} cannot be written to", wanted, "caches and settings of jobs lie there", advice)
    if not temporary["programs"]:
        advice = f"mount -o remount,exec {_TEMPORARY}, or set TMPDIR and TORCHINDUCTOR_CACHE_DIR to a folder elsewhere"
        basis = f"torch.compile loads what it builds from {_TEMPORARY} ('failed to map segment from shared object')"
        return warned(f"{_TEMPORARY} is mounted noexec", wanted, basis, advice)
    return passed(f"{_TEMPORARY} and the home directory can be written to", wanted)


def _inode_share(state: dict[str, int]) -> float:
    return state["inodes_free"] / state["inodes"] if state.get("inodes") else 1.0


def _short_for_nccl(view: HostView, free_bytes: int) -> str:
    """What the host's NCCL needs for a rank on each GPU, where less is free; empty where that is there or unknown."""
    ranks = len(view.smi.gpus) if view.has_gpu_hardware and view.status("nvidia_smi") == "ok" else 0
    version = nccl_version(view)
    if version is None or _numbers(version) < NCCL_WITH_LARGE_SHM or free_bytes >= ranks * SHM_BYTES_PER_RANK:
        return ""
    return f"{_shown(ranks * SHM_BYTES_PER_RANK)} free: NCCL {version} takes {SHM_BYTES_PER_RANK} bytes a rank"


def _shown(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.0f} MiB"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def shared_memory(view: HostView) -> Judgement:
    """NCCL and data loaders put buffers into /dev/shm; containers often come with 64 MiB."""
    state = view.value("file_systems").get("/dev/shm")
    limit = view.expected.shm_min_gib
    basis = "Primus fails below 8 GiB; NCCL's documentation names /dev/shm"
    advice = "mount -o remount,size=50% /dev/shm, docker run --shm-size, or raybench configure --tags shared_memory"
    if state is None:
        return failed("there is no /dev/shm", f"{limit:g} GiB", basis, advice)
    seen = f"{_shown(state['total'])}, {_shown(state['free'])} free"
    short = _short_for_nccl(view, state["free"])
    if short:
        return failed(seen, short, "measured: NCCL 2.32.3 takes it at the first collective, over sockets too", advice)
    if state["total"] >= limit * GIB and state["free"] >= min(limit, 1) * GIB:
        return passed(seen, f"at least {limit:g} GiB")
    verdict = failed if view.has_gpu_hardware or state["free"] < 2**26 else warned
    return verdict(seen, f"at least {limit:g} GiB", basis, advice)
