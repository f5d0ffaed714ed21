"""Health of GPUs: memory errors, clocks, temperature."""

from collections.abc import Callable, Iterator

from raybench.preflight.checks.gpu import gpus_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.nvidia_smi import Gpu, Section
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned


def each(gpus: tuple[Gpu, ...], text: Callable[[Gpu], str]) -> str:
    """What is said of each GPU, with its index and address; empty where nothing is."""
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
    lost = each(gpus, lambda gpu: _uncorrected(_volatile(gpu)))
    if lost:
        advice = "the last job's results are suspect; reset the GPU, and replace it if they return"
        return failed(lost, "no uncorrected error", "AzureHPC: uncorrected > 0 since the driver was loaded", advice)
    worn = each(gpus, lambda gpu: "SRAM threshold exceeded" if _worn(gpu) else "")
    if worn:
        advice = "drain the host, replace the GPU"
        return failed(worn, "not exceeded", "nvidia-smi -q: NVIDIA's own criterion", advice).for_node(action="rma")
    unread = each(gpus, lambda gpu: "" if _counted(_volatile(gpu)) else "no counter")
    if unread:
        return unknown(
            f"{unread} in nvidia-smi -q", "nvidia-smi -q -d ECC on the host; in a virtual GPU the host knows"
        )
    limit = view.expected.gpu_limit
    kinds = ("corrected_sram_max", "corrected_dram_max")
    many = each(gpus, lambda gpu: _corrected(_volatile(gpu), *(limit(gpu.name, kind) for kind in kinds)))
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
    broken = each(gpus, lambda gpu: "failed" if gpu.get("Remapped Rows", "Remapping Failure Occurred") == "Yes" else "")
    if broken:
        advice = "drain the host and replace the GPU"
        return failed(f"remapping {broken}", "no failure", basis, advice).for_node(action="rma")
    limit = view.expected.gpu_limit
    many = each(gpus, lambda gpu: _rows(gpu, limit(gpu.name, "remapped_rows_max")))
    if many:
        expected = f"fewer than {limit(gpus[0].name, 'remapped_rows_max'):.0f} rows"
        return failed(many, expected, basis, "drain the host and replace the GPU").for_node(action="rma")
    pending = each(gpus, lambda gpu: "pending" if gpu.get("Remapped Rows", "Pending") == "Yes" else "")
    if pending:
        return failed(
            pending, "nothing pending", basis, "reset the GPU (nvidia-smi --gpu-reset) or reboot, then check again"
        )
    spent = each(gpus, _spent_banks)
    if spent:
        advice = (
            "plan its replacement: the next bad row in such a bank cannot be remapped; dcgmi diag -r 3 tests the memory"
        )
        return warned(spent, "spare rows in every bank", basis, advice)
    return passed(f"nothing pending on {len(gpus)} GPUs", "nothing pending, no failure")


def _spent_banks(gpu: Gpu) -> str:
    """Banks that have no spare row left, or few: ``Low : 1 bank(s)``."""
    histogram = ("Remapped Rows", "Bank Remap Availability Histogram")
    counts = {name: gpu.number(*histogram, name) or 0 for name in ("None", "Low")}
    words = {"None": "without a spare row", "Low": "with few spare rows"}
    return ", ".join(f"{count:.0f} banks {words[name]}" for name, count in counts.items() if count)


def _rows(gpu: Gpu, limit: float) -> str:
    count = _total(gpu.section("Remapped Rows"), "Error")
    return f"{count} rows remapped" if count >= limit else ""


def _retired_pages(gpus: tuple[Gpu, ...]) -> Judgement:
    names = ("Pending Page Blacklist", "Pending")
    pending = each(gpus, lambda gpu: "pending" if "Yes" in {gpu.get("Retired Pages", n) for n in names} else "")
    if pending:
        return failed(
            f"retired pages {pending}", "nothing pending", "page retirement, before A100", "reset the GPU or reboot"
        )
    many = each(gpus, lambda gpu: _many_pages(_retired(gpu)))
    if many:
        advice = "drain the host and have the GPU replaced"
        return failed(many, f"fewer than {_RETIRED_MAX} pages", "NVIDIA's criterion for a replacement", advice)
    if any(gpu.section("Retired Pages") for gpu in gpus):
        return passed("no retired page pending", "nothing pending")
    return skipped("these GPUs neither remap rows nor retire pages")


_RETIRED_MAX = 60


def _retired(gpu: Gpu) -> int:
    """Pages retired, in the form of drivers before 400 (a number) and after (a section with a count)."""
    total = 0.0
    for name in ("Single Bit ECC", "Double Bit ECC"):
        count = gpu.number("Retired Pages", name)
        total += count if count is not None else gpu.number("Retired Pages", name, "Page Count") or 0
    return int(total)


def _many_pages(count: int) -> str:
    return f"{count} pages retired" if count >= _RETIRED_MAX else ""


def clocks(view: HostView) -> Judgement:
    """Reasons for which the hardware holds clocks down now. Idling and power capping under load are not faults."""
    gpus = gpus_of(view)
    if not gpus:
        return skipped("no GPU here")
    reasons = [gpu.section("Clocks Event Reasons", "Clocks Throttle Reasons") for gpu in gpus]
    if not any(reasons):
        return unknown("nvidia-smi gives no reasons for clocks")
    hard = each(gpus, lambda gpu: _active(gpu, ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown")))
    if hard:
        advice = "check airflow, fans and the power supplies' brake signal; nvidia-smi -q -d PERFORMANCE"
        return failed(hard, "not active", "gpud: hardware slowdown", advice)
    soft = each(gpus, lambda gpu: _active(gpu, ("SW Thermal Slowdown",)))
    if soft:
        return warned(soft, "not active", "the driver slows the GPU to cool it", "check airflow and inlet temperature")
    before = each(gpus, _slowed_before)
    if before:
        advice = "it slowed down under load: check airflow, fans and power supplies, and watch it in a run of minutes"
        return warned(before, f"less than {_SLOWED_SECONDS:g} s", "nvidia-smi -q, since the driver was loaded", advice)
    return passed(f"no slowdown on {len(gpus)} GPUs", "not active")


_SLOWED_SECONDS = 1.0
_SLOWED = ("HW Thermal Slowdown", "HW Power Braking", "HW Power Brake Slowdown")


def _slowed_before(gpu: Gpu) -> str:
    """Time for which the hardware held clocks down: ``HW Thermal Slowdown : 61234567 us``."""
    section = "Clocks Event Reasons Counters"
    seconds = {name: (gpu.number(section, name) or 0) / 1e6 for name in _SLOWED}
    return ", ".join(f"{name} for {value:.0f} s" for name, value in seconds.items() if value > _SLOWED_SECONDS)


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
    hot = each(gpus, lambda gpu: ", ".join(_hot(gpu, limit)))
    if hot:
        basis = "GPUs slow down some degrees above; T.Limit is how far it is to there, by the GPU itself"
        expected = f"at most {limit:g} C, a margin of more than {_MARGIN_C:g} C"
        return warned(hot, expected, basis, "check airflow and inlet temperature")
    return passed(f"at most {max(value for value in degrees if value is not None):.0f} C", f"at most {limit:g} C")


_MARGIN_C = 5.0


def _hot(gpu: Gpu, limit: float) -> Iterator[str]:
    value, margin = gpu.number("Temperature", "GPU Current Temp"), gpu.number("Temperature", "GPU T.Limit Temp")
    if value is not None and value > limit:
        yield f"{value:.0f} C"
    if margin is not None and margin <= _MARGIN_C:
        yield f"{margin:.0f} C to its limit"
    memory, most = (gpu.number("Temperature", f"Memory {name} Temp") for name in ("Current", "Max Operating"))
    if memory is not None and memory >= (most or _MEMORY_MAX_C):
        yield f"memory {memory:.0f} C of {most or _MEMORY_MAX_C:.0f} C"


_MEMORY_MAX_C = 95.0  # of HBM, where nvidia-smi gives a margin in place of the limit (A100: 95 C)
