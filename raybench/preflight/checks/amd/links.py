"""XGMI links between AMD's GPUs: down, in error, slower than their neighbours, or replaced by PCIe."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from raybench.preflight.checks.amd.health import NO_AMD_GPU, Gpu, metric_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.amd_smi import at, number, parse_amd_smi
from raybench.preflight.parsers.amd_xgmi import parse_link_rates, parse_link_states
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

_ADVICE = "drain the host and reboot it, which trains the links again; then the GPU, its seat or the board is at fault"


def xgmi(view: HostView) -> Judgement:
    """Links between GPUs: down, in error, or replaced by the way through the CPUs."""
    gpus = metric_of(view)
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    basis, expected = "amd-smi xgmi, topology and metric", "every link up, XGMI between all GPUs of the board"
    down = [
        f"{gpu}: {n} of {len(states)} links down" for gpu, states in _states(view).items() if (n := states.count("D"))
    ]
    faults = down + [f"GPU {i}: {said}" for i, gpu in enumerate(gpus) if (said := _xgmi_error(at(gpu, "xgmi_err")))]
    faults += [f"GPU {gpu.get('gpu', i)}: {said}" for i, gpu in enumerate(gpus) if (said := _wafl(gpu))]
    faults += _by_the_cpu(view)
    if faults:
        return failed("; ".join(faults[:8]), expected, basis, _ADVICE)
    known = sum(len(states) - states.count("X") for states in _states(view).values())
    if not known and view.status("amd_smi_topology") != "ok":
        return skipped("amd-smi tells nothing of XGMI links here")
    return passed(f"{known} links up" if known else "XGMI between all GPUs", expected)


def _states(view: HostView) -> dict[str, list[str]]:
    return parse_link_states(view.said("amd_smi_xgmi"))


def _wafl(gpu: Gpu) -> str:
    """Errors that the RAS block of the links counted; corrected ones alone are none to speak of."""
    counts = at(gpu, "ecc_blocks", "xgmi_wafl")
    lost = number(counts, "uncorrectable_count") if isinstance(counts, Mapping) else None
    return f"{lost:.0f} uncorrectable errors of XGMI_WAFL" if lost else ""


def _xgmi_error(said: object) -> str:
    if isinstance(said, Mapping):
        counted = {name: value for name in said if "error" in name and (value := number(said, name))}
        return ", ".join(f"{name} {value:.0f}" for name, value in counted.items())
    text = str(said or "")
    return (
        ""
        if re.match(r"(?:No errors?|NO_ERRORS|AMDSMI_XGMI_STATUS_NO_ERRORS|0\b|$)", text, re.IGNORECASE)
        else f"XGMI {text}"
    )


def _by_the_cpu(view: HostView) -> list[str]:
    """Pairs of GPUs that have PCIe between them where others of the host have XGMI."""
    pairs = []
    for gpu in parse_amd_smi(view.said("amd_smi_topology")):
        for link in at(gpu, "links") or ():
            kind, other = at(link, "link_type"), at(link, "gpu")
            if kind in {"XGMI", "PCIE"} and str(other) != str(gpu.get("gpu")):
                pairs.append((f"GPU {gpu.get('gpu')} and {other}", kind, at(link, "link_status")))
    kinds = {kind for _, kind, _ in pairs}
    off = [
        f"{name}: link {state.lower()}"
        for name, _, state in pairs
        if isinstance(state, str) and state.upper() == "DISABLED"
    ]
    return off + ([f"{name}: PCIe" for name, kind, _ in pairs if kind == "PCIE"] if "XGMI" in kinds else [])


def rates(view: HostView) -> Judgement:
    """Links that run slower than those of the neighbours: they come up with fewer lanes, or at a lower rate."""
    if not view.has_amd_gpus:
        return skipped(NO_AMD_GPU)
    found = {
        name: f"{rate.bit_rate:g} Gb/s a lane, {rate.bandwidth:g} Gb/s a link"
        for name, rate in parse_link_rates(view.said("amd_smi_xgmi_metric")).items()
    }
    pairs = dict(_pair_bandwidths(view))
    if len(found) < 2 and len(pairs) < 2:
        return skipped("amd-smi tells no rates of XGMI links here")
    odd = [*_odd(found), *_odd(pairs)]
    expected, basis = "alike between all GPUs", "amd-smi xgmi --metric and topology"
    if odd:
        return warned("; ".join(odd[:8]), expected, basis, _ADVICE)
    return passed(", ".join(sorted(set(found.values()) or set(pairs.values()))[:2]), expected, basis)


def _odd(values: Mapping[str, str]) -> list[str]:
    """What most do not have; nothing where there is no most."""
    counts = Counter(values.values()).most_common(1)
    if not counts or counts[0][1] * 2 <= len(values):
        return []
    usual = counts[0][0]
    return [f"{name}: {value}, the others {usual}" for name, value in values.items() if value != usual]


def _pair_bandwidths(view: HostView) -> Iterator[tuple[str, str]]:
    """Least and most MB/s between two GPUs over XGMI in one hop, as ``amd-smi topology`` has them: 50000-50000."""
    for gpu in parse_amd_smi(view.said("amd_smi_topology")):
        for link in at(gpu, "links") or ():
            told = str(at(link, "bandwidth") or "")
            is_direct = at(link, "link_type") == "XGMI" and str(at(link, "num_hops") or 1) == "1"
            if is_direct and re.fullmatch(r"\d{1,9}-\d{1,9}", told) and told != "0-0":
                yield f"GPU {gpu.get('gpu')} to {at(link, 'gpu')}", f"{told} MB/s"
