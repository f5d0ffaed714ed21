"""Health of GPUs: memory errors, clocks, temperature."""

from collections.abc import Callable

from raybench.preflight.checks.gpu import gpus_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.nvidia_smi import Gpu, Section
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned


def _each(gpus: tuple[Gpu, ...], text: Callable[[Gpu], str]) -> str:
    found = [(index, said) for index, gpu in enumerate(gpus) if (said := text(gpu))]
    return "; ".join(f"GPU {index} ({gpus[index].pci_address}): {said}" for index, said in found)


def _total(section: Section, *words: str) -> int:
    """The sum of a section's counters whose names hold all words, such as SRAM and Uncorrectable."""
    return sum(
        int(value)
        for name, value in section.items()
        if isinstance(value, str) and value.isdecimal() and all(word in name for word in words)
    )


def ecc(view: HostView) -> Judgement:
    """Errors since the driver was loaded: uncorrected ones cost data, many corrected ones announce them."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    modes = [gpu.get("ECC Mode", "Current") for gpu in gpus]
    if all(mode is None for mode in modes):
        return skipped("these GPUs have no ECC")
    off = sum(mode == "Disabled" for mode in modes)
    if off:
        return warned(
            f"off on {off} of {len(gpus)} GPUs", "on", "wrong results stay unseen", "nvidia-smi -e 1, then reboot"
        )
    lost = _each(gpus, lambda gpu: _uncorrected(_volatile(gpu)))
    if lost:
        advice = "the last job's results are suspect; reset the GPU, and replace it if they return"
        return failed(lost, "no uncorrected error", "AzureHPC: uncorrected > 0 since the driver was loaded", advice)
    worn = _each(gpus, lambda gpu: "SRAM threshold exceeded" if _worn(gpu) else "")
    if worn:
        return failed(worn, "not exceeded", "nvidia-smi -q: NVIDIA's own criterion", "drain the host, replace the GPU")
    unread = _each(gpus, lambda gpu: "" if _counted(_volatile(gpu)) else "no counter")
    if unread:
        return unknown(
            f"{unread} in nvidia-smi -q", "nvidia-smi -q -d ECC on the host; in a virtual GPU the host knows"
        )
    limit = view.expected.gpu_limit
    kinds = ("corrected_sram_max", "corrected_dram_max")
    many = _each(gpus, lambda gpu: _corrected(_volatile(gpu), *(limit(gpu.name, kind) for kind in kinds)))
    if many:
        sram, dram = (limit(gpus[0].name, kind) for kind in kinds)
        expected = f"at most {sram:.0f} (SRAM), {dram:.0f} (DRAM)"
        return warned(many, expected, "AzureHPC", "run dcgmi diag -r 3; replace it if it fails")
    return passed(f"none uncorrected on {len(gpus)} GPUs", "no uncorrected error")


def _volatile(gpu: Gpu) -> Section:
    found = gpu.section("ECC Errors").get("Volatile", {})
    return found if isinstance(found, dict) else {}


def _worn(gpu: Gpu) -> bool:
    aggregate = gpu.section("ECC Errors").get("Aggregate", {})
    return isinstance(aggregate, dict) and aggregate.get("SRAM Threshold Exceeded") == "Yes"


def _counted(section: Section) -> bool:
    """Whether there is any counter, in today's form or in that of V100 and before: single and double bit errors."""
    return any(
        _counted(value) if isinstance(value, dict) else isinstance(value, str) and value.isdecimal()
        for value in section.values()
    )


def _uncorrected(section: Section) -> str:
    double = section.get("Double Bit", {})
    count = _total(section, "Uncorrectable") + (_total(double, "Total") if isinstance(double, dict) else 0)
    return f"{count} uncorrected" if count else ""


def _corrected(section: Section, sram: float, dram: float) -> str:
    counts = {"SRAM": _total(section, "SRAM", "Correctable"), "DRAM": _total(section, "DRAM", "Correctable")}
    return ", ".join(
        f"{count} corrected in {kind}" for kind, count in counts.items() if count > (sram, dram)[kind == "DRAM"]
    )


def row_remapping(view: HostView) -> Judgement:
    """Since A100, bad rows of memory are replaced by spare ones at the next reset, until there are none left."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    rows = [gpu.section("Remapped Rows") for gpu in gpus]
    if not any(rows):
        return _retired_pages(gpus)
    basis = "NVIDIA's memory error management: pending needs a reset, a failure an RMA; 512 rows is dead (AzureHPC)"
    broken = _each(
        gpus, lambda gpu: "failed" if gpu.get("Remapped Rows", "Remapping Failure Occurred") == "Yes" else ""
    )
    if broken:
        return failed(f"remapping {broken}", "no failure", basis, "drain the host and replace the GPU")
    limit = view.expected.gpu_limit
    many = _each(gpus, lambda gpu: _rows(gpu, limit(gpu.name, "remapped_rows_max")))
    if many:
        expected = f"fewer than {limit(gpus[0].name, 'remapped_rows_max'):.0f} rows"
        return failed(many, expected, basis, "drain the host and replace the GPU")
    pending = _each(gpus, lambda gpu: "pending" if gpu.get("Remapped Rows", "Pending") == "Yes" else "")
    if pending:
        return failed(
            pending, "nothing pending", basis, "reset the GPU (nvidia-smi --gpu-reset) or reboot, then check again"
        )
    return passed(f"nothing pending on {len(gpus)} GPUs", "nothing pending, no failure")


def _rows(gpu: Gpu, limit: float) -> str:
    count = _total(gpu.section("Remapped Rows"), "Error")
    return f"{count} rows remapped" if count >= limit else ""


def _retired_pages(gpus: tuple[Gpu, ...]) -> Judgement:
    names = ("Pending Page Blacklist", "Pending")
    pending = _each(gpus, lambda gpu: "pending" if "Yes" in {gpu.get("Retired Pages", n) for n in names} else "")
    if pending:
        return failed(
            f"retired pages {pending}", "nothing pending", "page retirement, before A100", "reset the GPU or reboot"
        )
    if any(gpu.section("Retired Pages") for gpu in gpus):
        return passed("no retired page pending", "nothing pending")
    return skipped("these GPUs neither remap rows nor retire pages")


def clocks(view: HostView) -> Judgement:
    """Reasons for which the hardware holds clocks down now. Idling and power capping under load are not faults."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    reasons = [gpu.section("Clocks Event Reasons", "Clocks Throttle Reasons") for gpu in gpus]
    if not any(reasons):
        return unknown("nvidia-smi gives no reasons for clocks")
    hard = _each(gpus, lambda gpu: _active(gpu, ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown")))
    if hard:
        advice = "check airflow, fans and the power supplies' brake signal; nvidia-smi -q -d PERFORMANCE"
        return failed(hard, "not active", "gpud: hardware slowdown", advice)
    soft = _each(gpus, lambda gpu: _active(gpu, ("SW Thermal Slowdown",)))
    if soft:
        return warned(soft, "not active", "the driver slows the GPU to cool it", "check airflow and inlet temperature")
    return passed(f"no slowdown on {len(gpus)} GPUs", "not active")


def _active(gpu: Gpu, names: tuple[str, ...]) -> str:
    section = gpu.section("Clocks Event Reasons", "Clocks Throttle Reasons")
    flat = dict(section)
    for value in section.values():
        if isinstance(value, dict):
            flat |= value
    # "HW Slowdown" is a heading with a value, below which stand its kinds
    return ", ".join(name for name in names if flat.get(name) == "Active")


def temperature(view: HostView) -> Judgement:
    """Temperature now, against the inventory's limit and the GPU's own slow-down point."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    limit = min(view.expected.gpu_limit(gpu.name, "temperature_max_c") for gpu in gpus)
    degrees = [gpu.number("Temperature", "GPU Current Temp") for gpu in gpus]
    if all(value is None for value in degrees):
        return unknown("nvidia-smi gives no temperature")
    hot = _each(gpus, lambda gpu: _hot(gpu, limit))
    if hot:
        return warned(
            hot, f"at most {limit:g} C", "GPUs slow down some degrees above", "check airflow and inlet temperature"
        )
    return passed(f"at most {max(value for value in degrees if value is not None):.0f} C", f"at most {limit:g} C")


def _hot(gpu: Gpu, limit: float) -> str:
    value = gpu.number("Temperature", "GPU Current Temp")
    return f"{value:.0f} C" if value is not None and value > limit else ""
