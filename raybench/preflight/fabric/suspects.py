"""What is at fault, in words and in order: hosts, devices, paths between hosts or leaves. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from raybench.finding_rules.fabric import suspect_rule
from raybench.preflight.fabric.evidence import PairVerdict, standing
from raybench.preflight.fabric.judgement import Judged, RailJudgement
from raybench.preflight.fabric.localise import Fault, Location, leaf_faults, locate
from raybench.preflight.fabric.measurements import advice_for
from raybench.preflight.fabric.rounds import Pair
from raybench.preflight.fabric.schedule import Fabric
from raybench.preflight.fabric.settings import FabricSettings
from raybench.stats import median

Kind = Literal["host", "device", "link", "leaf-link", "common", "fabric", "open", "passed"]
_ORDER: tuple[Kind, ...] = ("fabric", "host", "device", "leaf-link", "common", "link", "open", "passed")
_SHOWN_PARTNERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Something that is at fault, or may be. ``severity`` is the share of what should be reached: less is worse."""

    kind: Kind
    hosts: tuple[str, ...]
    rails: tuple[str, ...]
    outcome: PairVerdict
    confirmed: bool
    severity: float
    summary: str
    seen: str
    expected: str
    basis: str
    advice: str
    doubtful: bool = False  # bad, and not often enough to count for devices that are software


def suspects(fabric: Fabric, settings: FabricSettings, rails: Sequence[RailJudgement]) -> tuple[Suspect, ...]:
    """Everything that stands out, what is certain and worst first."""
    found: list[Suspect] = []
    hosts: dict[int, list[tuple[RailJudgement, Fault]]] = {}
    for rail in rails:
        whole = _whole_fabric(rail, settings)
        if whole is not None:
            found.append(whole)
            if not rail.below:
                continue
        location = locate(rail.evidence)
        for fault in location.hosts:
            hosts.setdefault(fault.hosts[0], []).append((rail, fault))
        found += _ways(fabric, settings, rail, location)
    for host, faults in hosts.items():
        found += _hosts(fabric, settings, host, faults)
    return tuple(sorted(found, key=lambda one: (not one.confirmed, _ORDER.index(one.kind), one.severity, one.hosts)))


def _advice(kind: Kind) -> str:
    return suspect_rule(kind).advice[0].text


def _hosts(
    fabric: Fabric, settings: FabricSettings, host: int, faults: Sequence[tuple[RailJudgement, Fault]]
) -> Iterator[Suspect]:
    """One suspect for a host that is bad on more than half of its rails, else one a device."""
    name = fabric.names[host]
    own_rails = [rail for rail in fabric.rails if name in rail.ports]
    if 2 * len(faults) > len(own_rails):
        yield _host_suspect(fabric, settings, name, faults, whole=True)
        return
    for one in faults:
        yield _host_suspect(fabric, settings, name, [one], whole=False)


def _host_suspect(
    fabric: Fabric,
    settings: FabricSettings,
    name: str,
    faults: Sequence[tuple[RailJudgement, Fault]],
    *,
    whole: bool,
) -> Suspect:
    partners = [fabric.names[other] for _, fault in faults for other in fault.partners]
    tests = [
        one
        for rail, _ in faults
        for one in rail.judged
        if name in {one.measurement.source, one.measurement.destination} and _other(one, name) in partners
    ]
    outcome = PairVerdict.SLOW if any(fault.outcome is PairVerdict.SLOW for _, fault in faults) else PairVerdict.FAILED
    devices = ", ".join(rail.rail.ports[name].name for rail, _ in faults)
    what = f"host {name}" if whole else f"{devices} of host {name}"
    against = f"with {len(set(partners))} hosts that are good with others ({_listed(partners)})"
    summary = f"{what} is slow{_one_way(tests, name)}" if outcome is PairVerdict.SLOW else f"{what} cannot be tested"
    advice = _advice("host" if whole else "device")
    if outcome is PairVerdict.FAILED:
        advice = advice_for(_first_problem(tests))
    return Suspect(
        kind="host" if whole else "device",
        hosts=(name,),
        rails=tuple(rail.rail.name for rail, _ in faults),
        outcome=outcome,
        confirmed=True,
        severity=_severity(tests, settings),
        summary=f"{summary} {against}",
        seen=_figures(tests, settings),
        expected=_expectation(tests),
        basis=_basis(tests),
        advice=advice,
    )


def _one_way(tests: Sequence[Judged], name: str) -> str:
    """Where a host is slow in one direction only, in which: that tells inbound from outbound paths."""
    slow = {
        receiving: [
            one.outcome is PairVerdict.SLOW
            for one in tests
            if one.measurement.value is not None and (one.measurement.destination == name) is receiving
        ]
        for receiving in (True, False)
    }
    if all(slow[True]) and slow[True] and slow[False] and 2 * sum(slow[False]) < len(slow[False]):
        return ", in what it is sent only,"
    if all(slow[False]) and slow[False] and slow[True] and 2 * sum(slow[True]) < len(slow[True]):
        return ", in what it sends only,"
    return ""


def _ways(fabric: Fabric, settings: FabricSettings, rail: RailJudgement, location: Location) -> Iterator[Suspect]:
    between = _between_leaves(fabric, rail, [fault.hosts for fault in location.links] + list(location.open_pairs))
    for fault in location.common:
        yield _common(fabric, settings, rail, fault)
    covered: set[Pair] = set()
    for leaves in between:
        pairs = [
            pair
            for pair in (*[fault.hosts for fault in location.links], *location.open_pairs)
            if _leaf_pair(fabric, pair) == leaves
        ]
        covered |= {(pair[0], pair[1]) for pair in pairs}
        yield _leaf_link(fabric, settings, rail, leaves, pairs)
    for fault in location.links:
        if fault.hosts not in covered:
            yield _way(fabric, settings, rail, fault.hosts, "link")
    for pair in location.open_pairs:
        if pair not in covered:
            yield _way(fabric, settings, rail, pair, "open")
    for pair in location.passed:
        yield _way(fabric, settings, rail, pair, "passed")


def _way(
    fabric: Fabric,
    settings: FabricSettings,
    rail: RailJudgement,
    pair: Sequence[int],
    kind: Literal["link", "open", "passed"],
) -> Suspect:
    one, other = (fabric.names[host] for host in pair)
    tests = _tests_of(rail, {one, other})
    bad = [test for test in tests if test.outcome is not PairVerdict.GOOD]
    outcome = PairVerdict.SLOW if any(test.outcome is PairVerdict.SLOW for test in bad) else PairVerdict.FAILED
    verb = "is slow" if outcome is PairVerdict.SLOW else "cannot be tested"
    summary = {
        "link": f"the path between {one} and {other} {verb}; both are good with others",
        "open": f"the pair {one} and {other} {verb}; whether one of the hosts or the path is at fault is unknown",
        "passed": f"the pair {one} and {other} was not good once and good when it was repeated",
    }[kind]
    advice = _advice(kind)
    if outcome is PairVerdict.FAILED and kind != "passed":
        advice = advice_for(_first_problem(bad))
    return Suspect(
        kind=kind,
        hosts=(one, other),
        rails=(rail.rail.name,),
        outcome=PairVerdict.SLOW if kind == "passed" else outcome,
        confirmed=kind == "link",
        severity=_severity(bad, settings),
        summary=summary,
        seen=_figures(tests, settings),
        expected=_expectation(bad),
        basis=_basis(tests),
        advice=advice,
        doubtful=(pair[0], pair[1]) in standing(rail.evidence).doubtful,
    )


def _common(fabric: Fabric, settings: FabricSettings, rail: RailJudgement, fault: Fault) -> Suspect:
    name = fabric.names[fault.hosts[0]]
    partners = [fabric.names[other] for other in fault.partners]
    tests = [one for other in partners for one in _tests_of(rail, {name, other})]
    return Suspect(
        kind="common",
        hosts=(name,),
        rails=(rail.rail.name,),
        outcome=PairVerdict.SLOW,
        confirmed=False,
        severity=_severity(tests, settings),
        summary=f"{name} is good with some, but {len(partners)} slow paths have it in common ({_listed(partners)})",
        seen=_figures(tests, settings),
        expected=_expectation(tests),
        basis=_basis(tests),
        advice=_advice("common"),
    )


def _leaf_link(
    fabric: Fabric, settings: FabricSettings, rail: RailJudgement, leaves: Pair, pairs: Sequence[Sequence[int]]
) -> Suspect:
    one, other = (fabric.leaf_names[leaf] for leaf in leaves)
    tests = [test for pair in pairs for test in _tests_of(rail, {fabric.names[host] for host in pair})]
    return Suspect(
        kind="leaf-link",
        hosts=tuple(sorted({fabric.names[host] for pair in pairs for host in pair})),
        rails=(rail.rail.name,),
        outcome=PairVerdict.SLOW,
        confirmed=True,
        severity=_severity(tests, settings),
        summary=f"all {len(pairs)} measured pairs between {one} and {other} are slow; their hosts are good with others",
        seen=_figures(tests, settings),
        expected=_expectation(tests),
        basis=_basis(tests),
        advice=_advice("leaf-link"),
    )


def _whole_fabric(rail: RailJudgement, settings: FabricSettings) -> Suspect | None:
    """One suspect for a rail most of which is below its links' rate, or without any good host to compare with."""
    slow = rail.below or [one for one in rail.judged if one.outcome is PairVerdict.SLOW]
    if not slow or (not rail.below and any(one.outcome is PairVerdict.GOOD for one in rail.judged)):
        return None
    measured = sum(one.measurement.value is not None for one in rail.judged)
    reach = median([(one.measurement.value or 0.0) / (one.expected.gbit_per_s or 1.0) for one in slow])
    below = f"are below what its links carry; the median of these is {reach:.0%} of it" if rail.below else "are slow"
    return Suspect(
        kind="fabric",
        hosts=(),
        rails=(rail.rail.name,),
        outcome=PairVerdict.SLOW,
        confirmed=len(rail.rail.ports) > 2,
        severity=_severity(slow, settings),
        summary=f"the whole fabric: {len(slow)} of {measured} tests on rail {rail.rail.name} {below}",
        seen=_figures(slow, settings),
        expected=_expectation(slow),
        basis=_basis(slow),
        advice=_advice("fabric"),
    )


def _between_leaves(fabric: Fabric, rail: RailJudgement, pairs: Sequence[Sequence[int]]) -> tuple[Pair, ...]:
    if not fabric.leaf_of:
        return ()
    index = {name: number for number, name in enumerate(fabric.names)}
    measured: dict[Pair, set[Pair]] = {}
    for one in rail.judged:
        first, second = sorted((index[one.measurement.source], index[one.measurement.destination]))
        measured.setdefault(_leaf_pair(fabric, (first, second)), set()).add((first, second))
    counts = {leaves: len(found) for leaves, found in measured.items()}
    return leaf_faults([(pair[0], pair[1]) for pair in pairs], counts, fabric.leaf_of)


def _leaf_pair(fabric: Fabric, pair: Sequence[int]) -> Pair:
    first, second = sorted(fabric.leaf_of[host] for host in pair)
    return first, second


def _tests_of(rail: RailJudgement, ends: set[str]) -> list[Judged]:
    return [one for one in rail.judged if {one.measurement.source, one.measurement.destination} == ends]


def _other(one: Judged, name: str) -> str:
    return one.measurement.destination if one.measurement.source == name else one.measurement.source


def _listed(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _SHOWN_PARTNERS} more" if len(distinct) > _SHOWN_PARTNERS else ""
    return ", ".join(distinct[:_SHOWN_PARTNERS]) + more


def _figures(tests: Sequence[Judged], settings: FabricSettings) -> str:
    """Measured figures, with their directions where there are few; what failed tests said otherwise."""
    unit = "us" if settings.is_latency else "Gb/s"
    values = [(one.measurement, one.measurement.value) for one in tests if one.measurement.value is not None]
    if not values:
        return _first_problem(tests) or "no figure"
    if len(values) <= _SHOWN_PARTNERS:
        return ", ".join(f"{found.source} to {found.destination} {value:.4g} {unit}" for found, value in values)
    figures = [value for _, value in values]
    return f"{len(figures)} tests: {min(figures):.4g} to {max(figures):.4g}, median {median(figures):.4g} {unit}"


def _expectation(tests: Sequence[Judged]) -> str:
    reasons = [one.reason for one in tests if one.outcome is PairVerdict.SLOW and one.reason]
    return f"not {reasons[0]}" if reasons else "a figure from every test"


def _basis(tests: Sequence[Judged]) -> str:
    measured = (one.expected.basis for one in tests if one.measurement.value is not None)
    return next(measured, "a test that ends with a figure")


def _first_problem(tests: Sequence[Judged]) -> str:
    return next((one.measurement.problem for one in tests if one.measurement.problem), "")


def _severity(tests: Sequence[Judged], settings: FabricSettings) -> float:
    """The median share of the limit that was reached; 0 where there is no figure."""
    shares = [
        (one.limit / one.measurement.value if settings.is_latency else one.measurement.value / one.limit)
        for one in tests
        if one.limit and one.measurement.value
    ]
    return median(shares) if shares else 0.0
