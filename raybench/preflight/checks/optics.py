"""Links and their cables and modules: why a link is down, bit errors, temperature and light, by mlxlink and ethtool."""

import re
import statistics
from collections.abc import Iterator, Mapping

from raybench.preflight.host_view import HostView
from raybench.preflight.link_limits import BIT_ERROR_LIMITS, INFINIBAND_SPEEDS
from raybench.preflight.parsers.optics import (
    NO_LIGHT_DBM,
    LinkReport,
    Measured,
    parse_ethtool_statistics,
    parse_mlxlink,
    parse_module,
)
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_SHORT_MINUTES = 2.0  # since the counters were cleared: too short for a rate
_CLOSED = frozenset(
    {1, 1024, 1033, 1034}
)  # somebody closed the port, or nothing is plugged in: rdma-port says what it should be
_NEAR_LIMIT_C = 5.0
_BELOW_LANES_DB = 3.0  # a lane with half the light of the others
_BASIS = "mlxlink -m -c, ethtool -m"
_ADVICE = (
    "clean and reseat cable and module at both ends, then swap it with one that is right: the fault moves with the "
    "cable, or stays with the port"
)
Found = list[tuple[bool, str]]  # whether it is a fault rather than a warning, and what


def link(view: HostView) -> Judgement:
    """What the NIC's firmware says of its link: why it is down, bits that go wrong, a rate below the cable's."""
    reports = _reports(view)
    if not reports:
        return _nothing(view, "mlxlink")
    found: Found = []
    for device, report in reports.items():
        found += [(bad, f"{device}: {text}") for bad, text in _link_faults(view, report)]
    effective, raw = BIT_ERROR_LIMITS["effective"][0], BIT_ERROR_LIMITS["raw"][0]
    expected = f"no issue, effective BER below {effective:g}, raw BER below {raw:g}"
    return _told(found, f"no issue on {len(reports)} ports", expected)


def optics(view: HostView) -> Judgement:
    """Modules that are hot, get or give too little light, or say of themselves that they fail."""
    reports, modules = _reports(view), _modules(view)
    if not reports and not modules:
        return _nothing(view, "mlxlink or ethtool -m")
    found: Found = []
    for device, report in reports.items():
        found += [(bad, f"{device}: {text}") for bad, text in _module_by_mlxlink(report)]
    for interface, text in modules.items():
        found += [(bad, f"{interface}: {said}") for bad, said in _module_by_ethtool(text)]
    expected = "within the module's own limits, no alarm"
    return _told(found, f"{len(reports) or len(modules)} modules within their limits", expected)


def counters(view: HostView) -> Judgement:
    """What Ethernet ports counted since boot: bit errors, packets dropped for want of room, links that went down."""
    names = _asked(view, "ethtool_statistics")
    counted = {name: parse_ethtool_statistics(view.said(f"ethtool_statistics:{name}")) for name in names}
    counted = {name: values for name, values in counted.items() if values}
    if not counted:
        return skipped("ethtool -S gives no counters here")
    found: Found = []
    for name, values in counted.items():
        for counter, (least, bad) in _COUNTERS.items():
            if values.get(counter, 0) > least:
                found.append((bad, f"{name}: {counter} {values[counter]}"))
    return _told(
        found, f"no errors on {len(counted)} interfaces", "no errors, few packets dropped", "ethtool -S, since boot"
    )


# Counters of ethtool -S with the total that is still none to speak of, and whether more is a fault.
_COUNTERS: Mapping[str, tuple[int, bool]] = {
    "rx_crc_errors_phy": (100, False),
    "rx_symbol_err_phy": (100, False),
    "rx_pcs_symbol_err_phy": (100, False),
    "rx_discards_phy": (10_000, False),
    "tx_discards_phy": (10_000, False),
    "tx_errors_phy": (0, False),
    "link_down_events_phy": (20, False),
    "module_bad_shorted": (0, True),
    "module_bus_stuck": (0, True),
    "module_high_temp": (0, True),
    "module_unplug": (20, False),
    "outbound_pci_stalled_wr_events": (1_000_000, False),
    "rx_fcs_errors": (100, False),  # bnxt_en
    "rx_crc_errors": (100, False),
}


def verbs(view: HostView) -> Judgement:
    """Programs see the RDMA devices that the kernel has: without the library's part for them there is no RDMA."""
    devices = set(view.readings.get("rdma_devices", {}).get("value") or []) - view.software_devices
    if not devices:
        return skipped("no RDMA device here")
    if view.status("ibv_devinfo") == "missing":
        return skipped("ibv_devinfo is not installed")
    said = view.said("ibv_devinfo")
    listed = set(re.findall(r"^hca_id:\s*(\S+)", said, re.MULTILINE))
    unseen = sorted(devices - listed)
    if view.status("ibv_devinfo") == "timeout":
        return unknown("ibv_devinfo did not end", "find out why it hangs; host-probe names it")
    if not unseen:
        return passed(f"{len(devices)} of {len(devices)} devices", "libibverbs sees every device")
    lines = [line.strip() for line in said.splitlines() if re.search(r"[Ww]arning|[Ff]ailed", line)]
    advice = (
        "install rdma-core (ibverbs-providers, libmlx5) of the version of the driver, on the host and in containers"
    )
    seen = f"not seen: {', '.join(unseen)}{f' ({lines[0][:160]})' if lines else ''}"
    return failed(seen, "libibverbs sees every device", "ibv_devinfo against the kernel's list", advice)


def _nothing(view: HostView, tool: str) -> Judgement:
    """Skipped where there is no such NIC or no such program; unknown where it could not look."""
    tried = [name for name in view.readings if name.startswith(("mlxlink:", "ethtool_module:"))]
    states = {view.status(name) for name in tried}
    if states & {"denied", "timeout"}:
        return unknown(f"{tool} could not look", "run preflight as root (become: true)")
    if not tried:
        return skipped("no NIC here that such a tool knows")
    return skipped(f"{tool} is not installed, or knows nothing of these ports")


def _told(found: Found, fine: str, expected: str, basis: str = _BASIS) -> Judgement:
    if not found:
        return passed(fine, expected)
    ordered = [text for _, text in sorted(found, key=lambda one: not one[0])]
    more = f" and {len(ordered) - 8} more" if len(ordered) > 8 else ""
    judged = failed if any(bad for bad, _ in found) else warned
    return judged("; ".join(ordered[:8]) + more, expected, basis, _ADVICE)


def _asked(view: HostView, tool: str) -> list[str]:
    """Devices or interfaces of which a tool was asked, without those that the inventory says are not used."""
    names = [name.partition(":")[2] for name in view.readings if name.startswith(f"{tool}:")]
    used = view.rdma_interfaces
    return [name for name in names if not view.is_ignored_port(used.get(name, name), 1)]


def _reports(view: HostView) -> dict[str, LinkReport]:
    reports = {name: parse_mlxlink(view.said(f"mlxlink:{name}")) for name in _asked(view, "mlxlink")}
    return {name: report for name, report in reports.items() if {"State", "Recommendation"} & set(report.rows)}


def _modules(view: HostView) -> dict[str, str]:
    names = [name for name in _asked(view, "ethtool_module") if view.status(f"ethtool_module:{name}") == "ok"]
    return {name: view.text(f"ethtool_module:{name}") for name in names}


def _link_faults(view: HostView, report: LinkReport) -> Iterator[tuple[bool, str]]:
    active = report.rows.get("State", "Active") == "Active"
    opcode = int(report.number("Status Opcode") or 0)
    said = report.rows.get("Recommendation", "")
    if opcode or (said and "No issue" not in said):
        yield not active and opcode not in _CLOSED, f"{said or 'no reason given'} (opcode {opcode})"
    yield from _bit_errors(report)
    downs, recoveries = report.number("Link Down Counter"), report.number("Link Error Recovery Counter")
    if downs and downs > view.expected.link_flaps_max:
        yield False, f"down {downs:.0f} times"
    if recoveries:
        yield False, f"recovered from errors {recoveries:.0f} times"
    rate, best = _rates(report)
    if active and rate and best and INFINIBAND_SPEEDS.index(rate) < INFINIBAND_SPEEDS.index(best):
        yield False, f"{rate}, where port and cable can {best}"


def _bit_errors(report: LinkReport) -> Iterator[tuple[bool, str]]:
    minutes = report.number("Time Since Last Clear [Min]")
    if minutes is not None and minutes < _SHORT_MINUTES:
        return
    names = {"Effective Physical BER": "effective", "Symbol BER": "symbol", "Raw Physical BER": "raw"}
    for name, (worth, bad) in ((name, BIT_ERROR_LIMITS[kind]) for name, kind in names.items()):
        rate = report.number(name)
        if rate is not None and rate >= worth:
            yield rate >= bad, f"{name} {rate:.0e}"


def _rates(report: LinkReport) -> tuple[str, str]:
    """The InfiniBand rate of the link, and the best that port and cable have in common; empty where not told."""
    now = report.rows.get("Speed", "").rpartition("-")[2]
    listed = [report.rows.get(f"{name} Speed", "") for name in ("Enabled Link", "Supported Cable")]
    sets = [set(re.findall(r"\b(?:[A-Z]DR|FDR10)\b", text)) for text in listed if "(" in text]
    both = set.intersection(*sets) & set(INFINIBAND_SPEEDS) if len(sets) == len(listed) else set()
    return now if now in INFINIBAND_SPEEDS else "", max(both, key=INFINIBAND_SPEEDS.index) if both else ""


def _module_by_mlxlink(report: LinkReport) -> Iterator[tuple[bool, str]]:
    heat = report.measured("Temperature [C]")
    if heat is not None:
        yield from _heat(heat)
    for name in ("Rx", "Tx"):
        light = report.measured(f"{name} Power Current [dBm]")
        if light is not None and report.rows.get("State", "Active") == "Active":
            yield from _light(name, light)


def _heat(heat: Measured) -> Iterator[tuple[bool, str]]:
    degrees, limit = max(heat.values), heat.high
    if limit and degrees > limit:
        yield True, f"module at {degrees:g} C, its limit {limit:g} C"
    elif limit and degrees > limit - _NEAR_LIMIT_C:
        yield False, f"module at {degrees:g} C of {limit:g} C"


def _light(name: str, light: Measured) -> Iterator[tuple[bool, str]]:
    lowest, usual = min(light.values), statistics.median(light.values)
    if lowest <= NO_LIGHT_DBM:
        yield True, f"{name} light is missing on lane {light.values.index(lowest) + 1}"
    elif light.low is not None and lowest < light.low:
        yield True, f"{name} power {lowest:g} dBm, its limit {light.low:g} dBm"
    elif light.high is not None and max(light.values) > light.high:
        yield False, f"{name} power {max(light.values):g} dBm above {light.high:g} dBm"
    elif lowest < usual - _BELOW_LANES_DB:
        yield (
            False,
            f"{name} power {lowest:g} dBm on lane {light.values.index(lowest) + 1}, {usual:g} dBm on the others",
        )


def _module_by_ethtool(text: str) -> Iterator[tuple[bool, str]]:
    module = parse_module(text)
    yield from ((True, name) for name in (*module.alarms, *module.faults))
    yield from ((False, name) for name in module.warnings)
    if module.temperature is not None and not any("temperature" in name for name in module.alarms):
        yield from _heat(module.temperature)
    lit = module.receive_dbm
    if lit and max(lit) > NO_LIGHT_DBM and not module.alarms:
        yield from _light("Rx", Measured(values=lit))
