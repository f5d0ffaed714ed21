"""How much memory a rank may fill, and how many sizes therefore fit every rank."""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext, TooLargeError
from raybench.benchmarks.timing import synchronize

_SHARE = 0.8  # of what is free: the check of the data and the backend need some too
_CGROUP_ROOT, _OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_CGROUP_FILES = {
    "v2": ("memory.max", "memory.current", "inactive_file"),
    "v1": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def sizes_that_fit(context: RankContext, needs: Sequence[int]) -> int:
    """How many of these ascending needs, in bytes a rank, fit every rank: the same number in every rank, at least 1.

    Raises TooLargeError, in every rank alike, where not even the first fits.
    """
    if context.device.type == "cuda":  # gpu: collectives-1, collectives-4
        torch.cuda.empty_cache()  # what an earlier benchmark left in PyTorch's cache is free for us
    synchronize(context)  # ranks that share a memory have all let go of the earlier buffers
    free = free_bytes(context)
    agreed = torch.tensor([sum(need <= free * _SHARE for need in needs)], device=context.device)
    dist.all_reduce(agreed, dist.ReduceOp.MIN)
    fitting = int(agreed.item())
    if not fitting:
        raise TooLargeError(
            f"{needs[0]} bytes of buffers do not fit the memory of every rank ({free} bytes free on rank "
            f"{context.rank}); ask for smaller --sizes",
            too_large=len(needs),
        )
    return fitting


def free_bytes(context: RankContext) -> int:
    """This rank's equal part of what is free on its GPU, or on its machine within the limits of its control group."""
    if context.device.type == "cuda":  # gpu: collectives-1, collectives-4
        return int(torch.cuda.mem_get_info(context.device)[0]) // max(context.ranks_on_device, 1)
    import psutil  # not needed on a GPU

    available = int(psutil.virtual_memory().available)
    limited = cgroup_headroom(_OWN_CGROUP, _CGROUP_ROOT)
    return (available if limited is None else min(available, limited)) // max(context.ranks_on_machine, 1)


def cgroup_headroom(own: Path, root: Path) -> int | None:
    """Bytes left below the tightest memory limit of this process's control group and its parents; None without one.

    Lines of ``own``: ``0::/user.slice`` (v2), ``9:memory:/docker/4f2a`` (v1). Cached files that the kernel would give
    up first do not count as used. A container often sees its own group at ``root`` itself, so that is tried as well.
    """
    lefts = [
        left
        for version, folder, path in _groups(own, root)
        for parent in (path, *path.parents)
        if parent == folder or folder in parent.parents
        if (left := _left(parent, version)) is not None
    ]
    return min(lefts, default=None)


def _groups(own: Path, root: Path) -> list[tuple[str, Path, Path]]:
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    groups = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            groups.append(("v2", root, root / name.strip("/")))
        elif "memory" in controllers.split(","):
            groups.append(("v1", root / "memory", root / "memory" / name.strip("/")))
    return groups


def _left(group: Path, version: str) -> int | None:
    limit_name, current_name, cached_name = _CGROUP_FILES[version]
    try:
        limit, current = (int((group / name).read_text(encoding="ascii")) for name in (limit_name, current_name))
    except (OSError, ValueError):  # no such group here, or "max"
        return None
    return max(limit - max(current - _cached(group, cached_name), 0), 0)


def _cached(group: Path, name: str) -> int:
    try:
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
