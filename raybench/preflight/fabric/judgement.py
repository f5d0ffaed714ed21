"""From figures to outcomes: what is slow, by what is expected and by what others reach. Pure.

Typical is the median, over hosts, of each host's own median pair (the upper one of an even number): a slow host spoils
every pair it is in, which for four hosts are half of all, but only one pair of each other host. The best pairs would
say what is possible, not what is typical: on a noisy machine nearly everything is below them. The spread is the median
absolute deviation, scaled by 1.4826 to a normal distribution's standard deviation (Hampel 1974), of pairs that reach at
least half of what is typical. Figures are compared as shares of what is expected where that is known for all, so that
links of different rates mix.

Where most of a rail is below what its links carry, that is one fault of the whole rail, or a wrong expectation; its
hosts are then compared with each other only.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

from raybench.preflight.fabric.evidence import Evidence, PairVerdict
from raybench.preflight.fabric.expected import Expected, expected_bandwidth, judged_by_expected
from raybench.preflight.fabric.measurements import Measurement
from raybench.preflight.fabric.rails import Rail
from raybench.preflight.fabric.rounds import Pair
from raybench.preflight.fabric.schedule import Fabric
from raybench.preflight.fabric.settings import FabricSettings
from raybench.stats import MAD_TO_DEVIATION, median

_REPEATS_OF_SOFTWARE = 2  # how often a pair of software devices must be bad before it counts against its hosts
_LEAST_FOR_TYPICAL = 3  # hosts with a figure: of two, neither is typical
_WHOLE_RAIL = 0.75  # of its tests below what the links carry: that is no fault of single hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """What pairs of one kind reach. ``speed`` and ``spread`` are shares of the expected where ``relative``.

    The speed of a latency is its inverse, so that more is always better.
    """

    speed: float
    spread: float
    relative: bool
    hosts: int

    def least(self, settings: FabricSettings, *, emulated: bool) -> float:
        """The least speed that is no outlier: so many deviations below typical, and never closer than a ratio."""
        ratio = settings.outlier_ratio
        if emulated:
            ratio = settings.emulated_ratio
        elif settings.is_latency:
            ratio = settings.latency_ratio
        margin = max(settings.outlier_mads * self.spread, (1 - ratio) * self.speed)
        return max(self.speed - margin, min(ratio, settings.emulated_ratio) * self.speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A measurement with its outcome. ``limit`` is in the measurement's unit; ``reason`` says by what it is slow."""

    measurement: Measurement
    outcome: PairVerdict
    expected: Expected
    limit: float | None
    typical: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RailJudgement:
    """All of one rail: its measurements, and the evidence to find the cause with.

    ``below``: the tests that are below what the links carry where that is most of the rail; ``judged`` and the evidence
    then compare its hosts with each other.
    """

    rail: Rail
    judged: tuple[Judged, ...]
    evidence: Evidence
    emulated: bool
    below: tuple[Judged, ...] = ()


def judge(
    fabric: Fabric,
    settings: FabricSettings,
    found: Sequence[Measurement],
    scan_rounds: int,
    lost: Collection[str] = (),
) -> tuple[RailJudgement, ...]:
    """Judge every rail. Rounds below ``scan_rounds`` are the scan, which says what is typical; later ones confirm.

    A failed test with a ``lost`` host is no evidence against anybody.
    """
    by_rail: dict[str, list[Measurement]] = {}
    for one in found:
        by_rail.setdefault(one.rail, []).append(one)
    return tuple(
        _judge_rail(fabric, settings, rail, by_rail.get(rail.name, []), scan_rounds, lost) for rail in fabric.rails
    )


def _judge_rail(
    fabric: Fabric,
    settings: FabricSettings,
    rail: Rail,
    found: Sequence[Measurement],
    scan_rounds: int,
    lost: Collection[str],
) -> RailJudgement:
    index = {name: number for number, name in enumerate(fabric.names)}
    expected = {(one.source, one.destination): _expected(rail, one, settings) for one in found}
    leaf = {name: fabric.leaf_of[number] for name, number in index.items()} if fabric.leaf_of else {}
    scan = [one for one in found if one.round < scan_rounds]
    typical = {kind: _typical(members, expected, settings) for kind, members in _by_kind(scan, leaf).items()}
    everything = _typical(scan, expected, settings)
    emulated = all(port.emulated for port in rail.ports.values())

    def judged_all(*, by_expected: bool) -> tuple[Judged, ...]:
        return tuple(
            _judged(
                one,
                expected[one.source, one.destination],
                typical.get(_kind(one, leaf)) or everything,
                settings,
                by_expected and judged_by_expected([rail.ports[one.source], rail.ports[one.destination]]),
                emulated,
            )
            for one in found
            if one.source in index and one.destination in index
        )

    judged = judged_all(by_expected=True)
    below = _below(judged, settings) if everything is not None else ()
    if below:
        judged = judged_all(by_expected=False)
    telling = [
        one
        for one in judged
        if one.outcome is not PairVerdict.FAILED
        or not {one.measurement.source, one.measurement.destination} & set(lost)
    ]
    evidence = Evidence(host_count=len(index), repeats=_REPEATS_OF_SOFTWARE if emulated else 1)
    _collect(evidence, telling, index, scan_rounds)
    return RailJudgement(rail=rail, judged=judged, evidence=evidence, emulated=emulated, below=below)


def _below(judged: Sequence[Judged], settings: FabricSettings) -> tuple[Judged, ...]:
    """The tests below what the links carry, where they are most of those with a figure; else none."""
    known = [one for one in judged if one.measurement.value is not None and one.expected.gbit_per_s]
    slow = [one for one in known if one.outcome is PairVerdict.SLOW and _share(one) < settings.slow_ratio]
    return tuple(slow) if slow and len(slow) >= _WHOLE_RAIL * len(known) else ()


def _share(one: Judged) -> float:
    """Of what the links carry."""
    return (one.measurement.value or 0.0) / (one.expected.gbit_per_s or 1.0)


def _expected(rail: Rail, one: Measurement, settings: FabricSettings) -> Expected:
    if settings.is_latency:
        if settings.max_latency_us > 0:
            return Expected(gbit_per_s=None, basis=f"the most that was allowed is {settings.max_latency_us:g} us")
        return Expected(gbit_per_s=None, basis="latency is compared with other pairs only")
    return expected_bandwidth(rail.ports[one.source], rail.ports[one.destination])


def _kind(one: Measurement, leaf: Mapping[str, int]) -> bool:
    """Whether a pair stays within a leaf."""
    return bool(leaf) and leaf[one.source] == leaf[one.destination]


def _by_kind(found: Iterable[Measurement], leaf: Mapping[str, int]) -> dict[bool, list[Measurement]]:
    kinds: dict[bool, list[Measurement]] = {}
    for one in found:
        kinds.setdefault(_kind(one, leaf), []).append(one)
    return kinds


def _typical(
    found: Sequence[Measurement], expected: Mapping[tuple[str, str], Expected], settings: FabricSettings
) -> Typical | None:
    bases = [expected[one.source, one.destination].gbit_per_s for one in found if one.value]
    relative = bool(bases) and all(bases)
    of_host: dict[str, list[float]] = {}
    speeds = []
    for one in found:
        if one.value:
            speed = _speed(one, expected[one.source, one.destination], settings, relative=relative)
            speeds.append(speed)
            for host in (one.source, one.destination):
                of_host.setdefault(host, []).append(speed)
    if len(of_host) < _LEAST_FOR_TYPICAL:
        return None
    middle = median([median_high(own) for own in of_host.values()])
    near = [speed for speed in speeds if speed >= middle / 2]
    around = median(near)
    spread = MAD_TO_DEVIATION * median([abs(speed - around) for speed in near])
    return Typical(speed=middle, spread=spread, relative=relative, hosts=len(of_host))


def _speed(one: Measurement, expected: Expected, settings: FabricSettings, *, relative: bool) -> float:
    value = one.value or 0.0
    if settings.is_latency:
        return 1 / value
    return value / expected.gbit_per_s if relative and expected.gbit_per_s else value


def _judged(
    one: Measurement,
    expected: Expected,
    typical: Typical | None,
    settings: FabricSettings,
    by_expected: bool,
    emulated: bool,
) -> Judged:
    if one.value is None:
        return Judged(
            measurement=one,
            outcome=PairVerdict.FAILED,
            expected=expected,
            limit=None,
            typical=None,
            reason=one.problem or "",
        )
    limits = list(_limits(expected, typical, settings, by_expected=by_expected, emulated=emulated))
    exceeded = [reason for limit, reason in limits if (one.value > limit if settings.is_latency else one.value < limit)]
    strictest = [limit for limit, _ in limits]
    return Judged(
        measurement=one,
        outcome=PairVerdict.SLOW if exceeded else PairVerdict.GOOD,
        expected=expected,
        limit=(min(strictest) if settings.is_latency else max(strictest)) if strictest else None,
        typical=_in_unit(typical, expected, settings, typical.speed) if typical else None,
        reason="; ".join(exceeded),
    )


def _limits(
    expected: Expected,
    typical: Typical | None,
    settings: FabricSettings,
    *,
    by_expected: bool,
    emulated: bool,
) -> Iterable[tuple[float, str]]:
    """(limit, why it is one) in the measurement's unit."""
    unit = "us" if settings.is_latency else "Gb/s"
    if expected.gbit_per_s and by_expected and not settings.is_latency:
        limit = settings.slow_ratio * expected.gbit_per_s
        yield limit, f"below {limit:.4g} Gb/s, {settings.slow_ratio:.0%} of what the links carry"
    if settings.is_latency and settings.max_latency_us > 0:
        yield settings.max_latency_us, f"over the {settings.max_latency_us:g} us allowed"
    if typical is not None:
        limit = _in_unit(typical, expected, settings, typical.least(settings, emulated=emulated))
        middle = _in_unit(typical, expected, settings, typical.speed)
        side = "over" if settings.is_latency else "below"
        yield limit, f"{side} {limit:.4g} {unit}, where {middle:.4g} {unit} is typical of {typical.hosts} hosts"


def _in_unit(typical: Typical, expected: Expected, settings: FabricSettings, speed: float) -> float:
    if settings.is_latency:
        return 1 / speed if speed > 0 else float("inf")
    return speed * (expected.gbit_per_s or 1.0) if typical.relative else speed


def _collect(evidence: Evidence, judged: Sequence[Judged], index: Mapping[str, int], scan_rounds: int) -> None:
    """Both directions of a pair together: slow where one is, failed where one failed and none is slow."""
    worst: dict[tuple[int, Pair], PairVerdict] = {}
    for one in judged:
        ends = sorted((index[one.measurement.source], index[one.measurement.destination]))
        key = (one.measurement.round, (ends[0], ends[1]))
        worst[key] = _worse(worst.get(key, PairVerdict.GOOD), one.outcome)
    measured: dict[int, set[Pair]] = {}
    bad: dict[Pair, PairVerdict] = {}
    for (number, pair), outcome in worst.items():
        if number < scan_rounds:
            for host in pair:
                measured.setdefault(host, set()).add(pair)
            if outcome is not PairVerdict.GOOD:
                bad[pair] = _worse(bad.get(pair, PairVerdict.GOOD), outcome)
    evidence.add_scan({host: len(pairs) for host, pairs in measured.items()}, bad)
    for number in sorted({number for number, _ in worst if number >= scan_rounds}):
        evidence.add_tests((pair, outcome) for (when, pair), outcome in worst.items() if when == number)


def _worse(one: PairVerdict, other: PairVerdict) -> PairVerdict:
    order = (PairVerdict.GOOD, PairVerdict.FAILED, PairVerdict.SLOW)
    return max(one, other, key=order.index)
