"""What AMD's GPUs do against memory errors: pages taken out of use, and blocks that watch for errors."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from raybench.preflight.checks.amd.health import NO_AMD_GPU, RESET, Gpu, of_each, static_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.amd_smi import at, number, parse_amd_smi
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

_REPLACE = "drain the host and have the GPU replaced: the driver itself gives up where the limit is reached (RMA)"
_NEARLY = 0.8  # of the driver's own limit


def pages(view: HostView) -> Judgement:
    """Pages of memory that the driver took out of use: pending ones go at the next reset."""
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    gpus = parse_amd_smi(view.said("amd_smi_bad_pages"))
    if not gpus:
        return skipped("amd-smi bad-pages says nothing here")
    basis, expected = "amd-smi bad-pages", "no page that could not be retired, none pending"
    unreserved = of_each(gpus, lambda gpu: _pages(gpu, "un_res"))
    if unreserved:
        return failed(f"could not be retired: {unreserved}", expected, basis, RESET)
    pending = of_each(gpus, lambda gpu: _pages(gpu, "pending"))
    if pending:
        return warned(f"pending: {pending}", expected, basis, "reboot the host, or reset the GPU, when it is idle")
    many = _many(view, gpus)
    if many:
        return many
    retired = of_each(gpus, lambda gpu: _pages(gpu, "retired"))
    return passed(f"retired: {retired}" if retired else f"none on {len(gpus)} GPUs", expected)


def _many(view: HostView, gpus: tuple[Gpu, ...]) -> Judgement | None:
    """GPUs whose retired pages have reached the driver's limit for them, or nearly."""
    limits = {str(gpu.get("gpu")): at(gpu, "ras") for gpu in static_of(view)}
    expected, basis = "fewer than the driver's limit", "amd-smi bad-pages and static: bad_page_threshold"
    full, near = [], []
    for index, gpu in enumerate(gpus):
        name = str(gpu.get("gpu", index))
        ras = limits.get(name)
        limit = number(ras, "bad_page_threshold") if isinstance(ras, Mapping) else None
        count, told = _count(_kind(gpu, "retired")), str(at(ras or {}, "bad_page_threshold_exceeded")).upper()
        said = f"GPU {name}: {count} retired" + (f", the limit {limit:.0f}" if limit else "")
        if told in {"TRUE", "YES", "1"} or (limit and limit > 0 and count >= limit):
            full.append(said)
        elif limit and limit > 0 and count >= _NEARLY * limit:
            near.append(said)
    if full:
        return failed("; ".join(full), expected, basis, _REPLACE)
    return warned("; ".join(near), expected, basis, _REPLACE) if near else None


def _kind(gpu: Gpu, kind: str) -> Any:
    return next((value for name, value in gpu.items() if name.startswith(kind)), None)


def _count(found: Any) -> int:
    """Pages: a list of them, one of its own (older amd-smi), a number, or words that say that there is none."""
    if isinstance(found, list):
        return len(found)
    if isinstance(found, Mapping):
        return 1
    text = "" if found is None else str(found)
    if text.isdecimal():
        return int(text)
    return 0 if not text or text.startswith("No bad") else 1


def _pages(gpu: Gpu, kind: str) -> str:
    count = _count(_kind(gpu, kind))
    return f"{count} pages" if count else ""


def blocks(view: HostView) -> Judgement:
    """Blocks that watch for errors on most GPUs of the host and not on one: its errors would go unseen.

    Which blocks do differs by product: an MI300A has the memory controller's off.
    """
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    states = {str(gpu.get("gpu", index)): _states(gpu) for index, gpu in enumerate(static_of(view))}
    known = {gpu: found for gpu, found in states.items() if found}
    if not known:
        return skipped("amd-smi tells nothing of blocks that watch for errors here")
    odd = []
    for block in sorted({name for found in known.values() for name in found}):
        usual, count = Counter(found.get(block) for found in known.values()).most_common(1)[0]
        if usual == "ENABLED" and count * 2 > len(known):
            off = [gpu for gpu, found in known.items() if found.get(block) == "DISABLED"]
            odd += [f"GPU {gpu}: {block} is off" for gpu in off]
    expected, basis = "alike on all GPUs", "amd-smi static: ras, ecc_block_state"
    if odd:
        advice = (
            "reboot the host; if it stays so, compare VBIOS and firmware (amd-smi firmware), and have the GPU replaced"
        )
        return warned("; ".join(odd[:8]), expected, basis, advice)
    return passed(f"alike on {len(known)} GPUs", expected, basis)


def _states(gpu: Gpu) -> dict[str, str]:
    """Older amd-smi has a list of ``{"block": "UMC", "status": "ENABLED"}``."""
    found = at(gpu, "ras", "ecc_block_state") or at(gpu, "ras", "block_state")
    if isinstance(found, list):
        found = {one.get("block"): one.get("status") for one in found if isinstance(one, Mapping)}
    return (
        {str(name).upper(): str(state).upper() for name, state in found.items()} if isinstance(found, Mapping) else {}
    )
