"""What AMD's GPUs say of themselves: memory errors, heat, limits and memory, by amd-smi or rocm-smi."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.amd_smi import at, number, parse_amd_smi, parse_rocm_smi
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

Gpu = Mapping[str, Any]
NO_AMD_GPU = "no AMD GPU here"
RESET = "drain the host; amd-smi reset --gpureset -g GPU, or reboot it; have the GPU replaced if it returns"
_COOL = "check airflow, fans and inlet temperature"


def ecc(view: HostView) -> Judgement:
    """Errors of memory and caches since the driver was loaded: uncorrectable ones cost data."""
    return _judged(view, _ecc, "no uncorrectable error", "amd-smi metric: ecc, since the driver was loaded", RESET)


def _ecc(gpu: Gpu, view: HostView) -> Iterator[tuple[bool, str]]:
    worst = number(gpu, "ecc", "total_uncorrectable_count") or 0
    deferred = number(gpu, "ecc", "total_deferred_count") or 0
    corrected = number(gpu, "ecc", "total_correctable_count") or 0
    by_block = {kind: _of_blocks(gpu, kind) for kind in ("uncorrectable_count", "deferred_count")}
    worst, deferred = (
        worst or sum(by_block["uncorrectable_count"].values()),
        deferred or sum(by_block["deferred_count"].values()),
    )
    if worst:
        yield True, f"{worst:.0f} uncorrectable{_named(by_block['uncorrectable_count'])}"
    if deferred:
        yield False, f"{deferred:.0f} deferred: found, and not read yet{_named(by_block['deferred_count'])}"
    if corrected > view.expected.gpu_corrected_sram_max:
        yield False, f"{corrected:.0f} corrected"


def _of_blocks(gpu: Gpu, kind: str) -> dict[str, float]:
    """Counts of the blocks that have any: a total is not always given."""
    blocks = at(gpu, "ecc_blocks")
    counts = {name: number(block, kind) for name, block in blocks.items()} if isinstance(blocks, Mapping) else {}
    return {str(name): count for name, count in counts.items() if count}


def _named(blocks: Mapping[str, float]) -> str:
    return f" ({', '.join(sorted(blocks))})" if blocks else ""


def throttle(view: HostView) -> Judgement:
    """Reasons for which a GPU holds its clocks down now. At its power limit a GPU under load may well be."""
    return _judged(view, _throttle, "no thermal or external limit in force", "amd-smi metric: throttle", _COOL)


def _throttle(gpu: Gpu, _: HostView) -> Iterator[tuple[bool, str]]:
    found = at(gpu, "throttle")
    for name, value in found.items() if isinstance(found, Mapping) else ():
        if name.endswith("_violation_status") and any(one in {"ACTIVE", "TRUE", "1"} for one in _leaves(value)):
            reason = name.removesuffix("_violation_status")
            if reason not in {"ppt", "low_utilization"} and "below_host_limit" not in reason:
                yield reason == "prochot", reason.replace("_", " ")
    for status in (at(gpu, "throttle_status"), at(gpu, "power", "throttle_status")):
        if isinstance(status, str) and status.upper() == "THROTTLED":
            yield False, "throttled"


def _leaves(value: Any) -> Iterator[str]:
    """What stands in a value, or in each part of it: since ROCm 7 ``{"xcp_0": ["NOT ACTIVE", ...]}``."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield str(value).upper()


def temperature(view: HostView) -> Judgement:
    """Temperatures against the GPU's own limits."""
    return _judged(view, _hot, "below its slow-down point", "amd-smi metric and static: temperature, limit", _COOL)


_NEAR_C = 5.0
_SLOWDOWN = {"edge": "edge", "hotspot": "hotspot", "mem": "vram"}
_SLOWDOWN_C = {"edge": 100.0, "hotspot": 100.0, "mem": 105.0}  # MI300A and MI300X, as amd-smi static prints them


def _hot(gpu: Gpu, _: HostView) -> Iterator[tuple[bool, str]]:
    for sensor, name in _SLOWDOWN.items():
        degrees = number(gpu, "temperature", sensor)
        limit = number(gpu, "limit", f"slowdown_{name}_temperature") or _SLOWDOWN_C[sensor]
        if degrees is not None and degrees > limit - _NEAR_C:
            yield False, f"{sensor} {degrees:.0f} C, it slows down at {limit:.0f} C"


def limits(view: HostView) -> Judgement:
    """Power and PCIe: a limit below the product's, a link narrower or slower than both ends can, replays."""
    advice = "amd-smi reset --power-cap; reseat the GPU where its link is narrow; look for AER messages in dmesg"
    return _judged(view, _limits, "full power, width and speed", "amd-smi static and metric: limit, bus, pcie", advice)


def _limits(gpu: Gpu, view: HostView) -> Iterator[tuple[bool, str]]:
    power, most = number(gpu, "limit", "socket_power"), number(gpu, "limit", "max_power")
    if power and most and power < most * 0.99:
        yield False, f"power limit {power:.0f} W of {most:.0f} W"
    for name, unit in (("width", ""), ("speed", " GT/s")):
        now, full = number(gpu, "pcie", name), number(gpu, "bus", f"max_pcie_{name}")
        if now and full and now < full and (name == "width" or now > 2.5):  # at 2.5 GT/s it saves power
            yield False, f"PCIe {name} {now:g} of {full:g}{unit}"
    replays = number(gpu, "pcie", "replay_count")
    if replays and replays > view.expected.gpu_pcie_replays_max:
        yield False, f"{replays:.0f} PCIe replays"
    rollovers = number(gpu, "pcie", "replay_roll_over_count")
    if rollovers:
        yield False, f"{rollovers:.0f} PCIe replay rollovers"


def memory(view: HostView) -> Judgement:
    """A GPU with less memory than its neighbours, and memory in use before a job begins."""
    gpus = _gpus(view)
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    totals = [number(gpu, "mem_usage", "total_vram") or number(gpu, "vram", "size") for gpu in gpus]
    known = [total for total in totals if total]
    if not known:
        return unknown("amd-smi gives no size of memory") if gpus else skipped("amd-smi says nothing here")
    less = [
        f"GPU {i}: {total:.0f} of {max(known):.0f} MB" for i, total in enumerate(totals) if total and total < max(known)
    ]
    basis = "amd-smi metric and static: mem_usage, vram"
    if less:
        advice = "amd-smi static --partition: memory partitions differ, or part of the memory was taken out of use"
        return warned("; ".join(less), "as much as its neighbours", basis, advice)
    limit = view.expected.gpu_memory_idle_max_mib
    held = of_each(
        gpus, lambda gpu: f"{used:.0f} MB" if (used := number(gpu, "mem_usage", "used_vram") or 0) > limit else ""
    )
    if held:
        advice = "amd-smi process finds who holds it; wait for the job, or end it if it is nobody's"
        return warned(held, f"at most {limit} MB in use", basis, advice)
    return passed(f"{len(known)} GPUs with {max(known):.0f} MB", "alike, and free")


def static_of(view: HostView) -> tuple[Gpu, ...]:
    """What does not change: product, bus, limits, partitions."""
    return parse_amd_smi(view.said("amd_smi_static"))


def metric_of(view: HostView) -> tuple[Gpu, ...]:
    """What is measured: errors, temperatures, links, memory in use."""
    return parse_amd_smi(view.said("amd_smi_metric")) or parse_rocm_smi(view.said("rocm_smi"))


def _gpus(view: HostView) -> tuple[Gpu, ...]:
    """What metric and static say of each GPU, together."""
    metric, static = metric_of(view), static_of(view)
    more = {str(gpu.get("gpu")): gpu for gpu in static}
    return tuple({**more.get(str(gpu.get("gpu")), {}), **gpu} for gpu in metric) or static


def _judged(
    view: HostView,
    faults: Callable[[Gpu, HostView], Iterator[tuple[bool, str]]],
    expected: str,
    basis: str,
    advice: str,
) -> Judgement:
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    gpus = _gpus(view)
    if not gpus:
        if {view.status("amd_smi_metric"), view.status("rocm_smi")} <= {"missing"}:
            return skipped("neither amd-smi nor rocm-smi is installed")
        return unknown("amd-smi says nothing of its GPUs", "amd-driver says why")
    found = [(bad, f"GPU {gpu.get('gpu', i)}: {text}") for i, gpu in enumerate(gpus) for bad, text in faults(gpu, view)]
    if not found:
        return passed(f"nothing on {len(gpus)} GPUs", expected, basis)
    seen = "; ".join(text for _, text in sorted(found, key=lambda one: not one[0])[:8])
    return (failed if any(bad for bad, _ in found) else warned)(seen, expected, basis, advice)


def of_each(gpus: Sequence[Gpu], text: Callable[[Gpu], str]) -> str:
    """What is said of each GPU, with its number; empty where nothing is."""
    return "; ".join(f"GPU {gpu.get('gpu', index)}: {said}" for index, gpu in enumerate(gpus) if (said := text(gpu)))
