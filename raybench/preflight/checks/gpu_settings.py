"""What somebody set on a GPU that makes it slower than the same GPU elsewhere, or keeps programs off it."""

from collections.abc import Iterator

from raybench.preflight.checks.gpu import gpus_of
from raybench.preflight.checks.gpu_health import each
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.nvidia_smi import Gpu
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_ROUNDING = 0.99  # of a limit; drivers print 699.99 W for 700 W
_POWER = ("GPU Power Readings", "Power Readings", "Module Power Readings")


def power_limit(view: HostView) -> Judgement:
    """A GPU that may draw less than its product does clocks lower under load, and holds up all ranks."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no NVIDIA GPU here")
    low = each(gpus, lambda gpu: ", ".join(_low_power(gpu)))
    basis = "nvidia-smi -q: limit in force against the default and the requested one"
    if low:
        advice = (
            "nvidia-smi -pl WATTS, as the product's default; where it is enforced lower than requested, look for a "
            "power cap in the BMC and at the power supplies; if it is meant so, leave the check out with --skip"
        )
        return warned(low, "the default of the product", basis, advice)
    limits = sorted({limit for gpu in gpus for name in _POWER if (limit := _limit(gpu, name)) is not None})
    if not limits:
        return unknown("nvidia-smi gives no power limit", "in a virtual machine the host knows")
    return passed(", ".join(f"{limit:g} W" for limit in limits), "the default of the product")


def _limit(gpu: Gpu, section: str) -> float | None:
    return gpu.number(section, "Current Power Limit") or gpu.number(section, "Power Limit")


def _low_power(gpu: Gpu) -> Iterator[str]:
    for section in _POWER:
        now, usual = _limit(gpu, section), gpu.number(section, "Default Power Limit")
        wanted = gpu.number(section, "Requested Power Limit")
        if now and usual and now < usual * _ROUNDING:
            yield f"{now:g} W of {usual:g} W"
        elif now and wanted and now < wanted * _ROUNDING:
            yield f"{now:g} W in force, {wanted:g} W requested"


def clock_limits(view: HostView) -> Judgement:
    """Clocks that were set below the product's default, or a GPU whose highest clock is lower than its neighbours'."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no NVIDIA GPU here")
    most: dict[str, float] = {}
    for gpu in gpus:
        most[gpu.name] = max(most.get(gpu.name, 0.0), gpu.number("Max Clocks", "SM") or 0.0)
    low = each(gpus, lambda gpu: ", ".join(_low_clocks(gpu, most[gpu.name])))
    if low:
        advice = "nvidia-smi -rac and nvidia-smi -rgc give the default clocks back; then look at who sets them at boot"
        basis = "nvidia-smi -q: clocks set against the defaults, highest clocks of the GPUs of one host"
        return warned(low, "the product's default clocks", basis, advice)
    if not any(most.values()):
        return unknown("nvidia-smi gives no highest clock", "in a virtual machine the host knows")
    return passed(", ".join(f"{name} {clock:.0f} MHz" for name, clock in most.items()), "the product's default clocks")


def _low_clocks(gpu: Gpu, most: float) -> Iterator[str]:
    for kind in ("Graphics", "Memory"):
        now, usual = gpu.number("Applications Clocks", kind), gpu.number("Default Applications Clocks", kind)
        if now and usual and now < usual:
            yield f"{kind.lower()} {now:.0f} MHz of {usual:.0f} MHz"
    highest = gpu.number("Max Clocks", "SM")
    if highest and highest < most:
        yield f"highest SM clock {highest:.0f} MHz, its neighbours' {most:.0f} MHz"


def mode(view: HostView) -> Judgement:
    """Compute modes that refuse programs, and settings that were changed and wait for a reset."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no NVIDIA GPU here")
    basis = "nvidia-smi -q"
    closed = each(gpus, lambda gpu: "prohibited" if gpu.get("Compute Mode") == "Prohibited" else "")
    if closed:
        return failed(f"compute mode {closed}", "Default", basis, "nvidia-smi -c DEFAULT: no CUDA program starts now")
    other = each(gpus, lambda gpu: ", ".join(_modes(gpu)))
    if other:
        advice = (
            "nvidia-smi -c DEFAULT lets several processes use a GPU; a mode that is pending takes effect once the GPU "
            "is reset or the host rebooted"
        )
        return warned(other, "Default, nothing pending", basis, advice)
    return passed(gpus[0].get("Compute Mode") or "as it was built", "Default, nothing pending")


def _modes(gpu: Gpu) -> Iterator[str]:
    compute = gpu.get("Compute Mode")
    if compute and compute != "Default":
        yield f"compute mode {compute}"
    for name in ("MIG Mode", "ECC Mode", "Ecc Mode"):
        now, pending = gpu.get(name, "Current"), gpu.get(name, "Pending")
        if now and pending and now != pending:
            yield f"{name.split()[0].upper()} {now.lower()} now, {pending.lower()} pending"
    if (gpu.number("Conf Compute Protected Memory Usage", "Total") or 0) > 0:
        yield "confidential computing is on: no GPUDirect RDMA, and copies are encrypted"
