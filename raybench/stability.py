"""Why a measured point is not stable, each with its numbers and a next step. Pure.

pyperf's tests, carried over to network operations. pyperf judges values that each average many loops; a sample here is
one operation, and of a hundred of those nearly always one is 50 % off. A warning on each point teaches people to skip
warnings, so the level is judged on the medians of blocks and single slow operations only where they are frequent
enough, or slow enough, to cost time:

=============  ================================================================================================
few-samples    fewer than 5 blocks or 20 samples: no interval of the median can be trusted; of a pair, under 5 samples
warming-up     the first block of each launch >= 10 % slower than the rest, which agree: warm-up was too short
unsteady       block medians over their launch's median deviate by >= 10 %, or one is >= 50 % away (pyperf's limits)
wide-interval  95 % interval of the median wider than +-5 %; +-10 % where an operation takes under 100 us; not of pairs
launches       launch medians differ by more than 5 % and by more than the block medians of any one launch
heavy-tail     p99 and two samples > 3 x median, or mean > 1.5 x median: a training step waits for more than the median
=============  ================================================================================================

A matrix asks which of many pairs stands out, so each pair has few samples and no interval of its own.

One slow sample in a hundred moves neither a block's median nor p99 (interpolated, the second largest), and the mean
only when it is 50 times the median: a stall that is worth a line, such as a TCP retransmission timeout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from raybench.documents.run.machine_use import MachineUse
from raybench.documents.run.point import Point
from raybench.documents.run.verdict import Check
from raybench.stats import deviation, median
from raybench.units import format_bytes, format_seconds

MIN_BLOCKS = 5
MIN_SAMPLES = 20
MIN_PAIR_SAMPLES = 5
MAX_BLOCK_DEVIATION = 0.10
MAX_BLOCK_EXTREME = 0.50
MAX_WARM_UP = 0.10
MAX_INTERVAL = 0.05
MAX_SHORT_INTERVAL = 0.10
SHORT_SECONDS = 100e-6
MAX_LAUNCH_SPREAD = 0.05
MAX_TAIL_RATIO = 3.0
MAX_MEAN_RATIO = 1.5
MAX_STOLEN = 0.025  # of what its processors were wanted for: half of the 5 % that figures are compared by


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityWarning:
    """One warning about one point. ``size`` orders warnings of one kind, larger is worse; ``text`` has the numbers."""

    kind: str
    size: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityRule:
    """One check of a point: size and text of a StabilityWarning, or None. ``about`` and ``advice`` frame its text."""

    kind: str
    about: str
    advice: str
    check: Callable[[Point], tuple[float, str] | None]


def warnings_of(point: Point) -> tuple[StabilityWarning, ...]:
    """Every stability warning of one point, in the order of the table above; none for a point without samples."""
    if not point.samples_seconds:
        return ()
    results = ((rule.kind, rule.check(point)) for rule in RULES)
    return tuple(
        StabilityWarning(kind=kind, size=result[0], text=result[1]) for kind, result in results if result is not None
    )


def stability_warnings(point: Point) -> tuple[str, ...]:
    """One sentence per stability warning of the point, with its numbers and a next step."""
    return tuple(f"{warning.text}: {_rule(warning.kind).advice}" for warning in warnings_of(point))


def stability_check(points: Sequence[Point]) -> Check | None:
    """What a verdict adds where more than half of the measured points are unstable: such figures judge nothing well."""
    measured = [point for point in points if point.samples_seconds]
    unstable = sum(bool(warnings_of(point)) for point in measured)
    if 2 * unstable <= len(measured):
        return None
    return Check(name="stability", outcome="not judged", text=f"{unstable} of {len(measured)} points unstable")


def benchmark_warnings(points: Sequence[Point]) -> tuple[str, ...]:
    """One line a kind of problem, however many points have it: the points, the worst one's numbers, a next step."""
    found = [(point, warning) for point in points for warning in warnings_of(point)]
    by_rule = ((rule, [(point, warning) for point, warning in found if warning.kind == rule.kind]) for rule in RULES)
    return tuple(_line(rule, affected, points) for rule, affected in by_rule if affected)


def stolen_warnings(uses: Sequence[MachineUse]) -> tuple[str, ...]:
    """That a hypervisor gave a part of the processors to other virtual machines: the node and launch that lost most."""
    found = [(share, one) for one in uses if (share := one.stolen_share) is not None and share >= MAX_STOLEN]
    if not found:
        return ()
    share, worst = max(found, key=lambda pair: pair[0])
    lost = f"the machine of rank {worst.rank} lost {share:.1%} of its processors to other virtual machines"
    return (f"{lost} in launch {worst.launch + 1}; measure again when its host is quieter, or on a host of its own",)


def _line(rule: StabilityRule, affected: Sequence[tuple[Point, StabilityWarning]], points: Sequence[Point]) -> str:
    worst_point, worst = max(affected, key=lambda pair: pair[1].size)
    where = _where([point for point, _ in affected], points)
    if len(affected) == 1:
        return f"{rule.about} at {where}: {worst.text}; {rule.advice}"
    return f"{rule.about} at {where}; worst at {point_label(worst_point)}: {worst.text}; {rule.advice}"


def point_label(point: Point) -> str:
    """What tells a point from its neighbours: ``64K``, or of a pair ``rank 3 -> 5, 64K``."""
    size = format_bytes(point.message_bytes)
    if point.source_rank is None:
        return size
    return f"rank {point.source_rank} -> {point.destination_rank}, {size}"


def _where(affected: Sequence[Point], points: Sequence[Point]) -> str:
    """``64K``, ``all 25 sizes``, ``8-1K, 64M (9 of 25 sizes)`` or ``12 of 56 pairs``."""
    pairs = any(point.source_rank is not None for point in points)
    noun = "pairs" if pairs else "sizes"
    if len(affected) == 1:
        return point_label(affected[0])
    if len(affected) == len(points):
        return f"all {len(points)} {noun}"
    count = f"{len(affected)} of {len(points)} {noun}"
    return count if pairs else f"{size_runs(affected, points)} ({count})"


def size_runs(affected: Sequence[Point], points: Sequence[Point]) -> str:
    """Sizes of the affected points, neighbours in the sweep joined: ``8-1K, 64M``."""
    chosen = {point.message_bytes for point in affected}
    runs: list[list[int]] = [[]]
    for size in sorted({point.message_bytes for point in points}):
        if size in chosen:
            runs[-1].append(size)
        elif runs[-1]:
            runs.append([])
    spans = (
        f"{format_bytes(run[0])}-{format_bytes(run[-1])}" if len(run) > 1 else format_bytes(run[0])
        for run in runs
        if run
    )
    return ", ".join(spans)


def _rule(kind: str) -> StabilityRule:
    return next(rule for rule in RULES if rule.kind == kind)


def _block_medians(point: Point) -> list[list[float]]:
    """Medians of the blocks of each launch, seconds; empty blocks and launches left out."""
    medians = ([median(block) for block in launch if block] for launch in point.launches)
    return [launch for launch in medians if launch]


def _few_samples(point: Point) -> tuple[float, str] | None:
    samples = len(point.samples_seconds)
    if point.source_rank is not None:
        return (1 / samples, f"{samples} samples (at least {MIN_PAIR_SAMPLES})") if samples < MIN_PAIR_SAMPLES else None
    blocks = sum(bool(block) for launch in point.launches for block in launch)
    if blocks >= MIN_BLOCKS and samples >= MIN_SAMPLES:
        return None
    return 1 / samples, f"{samples} samples in {blocks} blocks (at least {MIN_SAMPLES} in {MIN_BLOCKS} are needed)"


def _warming_up(point: Point) -> tuple[float, str] | None:
    excess = _warm_up_excess(point)
    if excess < MAX_WARM_UP:
        return None
    return excess, f"the first block is {excess:.0%} slower than the others"


def _warm_up_excess(point: Point) -> float:
    """How much slower the first block of every launch is than the slowest other one; 0.0 where any is not."""
    if max(map(len, point.launches)) < 3:
        return 0.0
    launches = [launch for launch in _block_medians(point) if len(launch) >= 3]
    if not launches or any(_relative_deviation(launch[1:]) >= MAX_BLOCK_DEVIATION / 2 for launch in launches):
        return 0.0
    return max(0.0, min(launch[0] / median(launch[1:]) - 1 for launch in launches))


def _relative_deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return deviation(values, mean) / mean if mean > 0 else 0.0


def _unsteady(point: Point) -> tuple[float, str] | None:
    settled = slice(1, None) if _warm_up_excess(point) >= MAX_WARM_UP else slice(None)
    launches = [launch[settled] for launch in _block_medians(point)]
    ratios = [value / median(launch) for launch in launches if launch and median(launch) > 0 for value in launch]
    if len(ratios) < 2:
        return None
    spread = _relative_deviation(ratios)
    extreme = max(ratios, key=lambda ratio: abs(ratio - 1))
    if spread >= MAX_BLOCK_DEVIATION:
        return spread, f"medians of blocks deviate by {spread:.0%} from each other"
    if abs(extreme - 1) >= MAX_BLOCK_EXTREME:
        return abs(extreme - 1), f"the median of one block is {extreme - 1:+.0%} off the others"
    return None


def interval_half_width(point: Point) -> float | None:
    """Half the 95 % interval of the median over the median, a fraction; None where there is no interval."""
    interval = point.interval_seconds
    middle = point.seconds.median
    return (interval[1] - interval[0]) / 2 / middle if interval and middle > 0 else None


def _wide_interval(point: Point) -> tuple[float, str] | None:
    if point.source_rank is not None:
        return None
    half_width = interval_half_width(point)
    limit = MAX_SHORT_INTERVAL if point.seconds.median < SHORT_SECONDS else MAX_INTERVAL
    if half_width is None or half_width <= limit:
        return None
    return half_width, f"95 % CI half-width of the median {half_width:.0%} (limit {limit:.0%})"


def _launches(point: Point) -> tuple[float, str] | None:
    medians = point.launch_medians_seconds if len(point.launches) > 1 else ()
    if len(medians) < 2 or median(medians) <= 0:
        return None
    spread = (max(medians) - min(medians)) / median(medians)
    within = max((max(launch) - min(launch)) / median(launch) for launch in _block_medians(point))
    if spread <= MAX_LAUNCH_SPREAD or spread <= within:
        return None
    return (
        spread,
        f"medians of {len(medians)} launches differ by {spread:.0%}, blocks of one launch by {within:.0%} at most",
    )


def _heavy_tail(point: Point) -> tuple[float, str] | None:
    seconds = point.seconds
    if seconds.median <= 0:
        return None
    slow = sum(sample > MAX_TAIL_RATIO * seconds.median for sample in point.samples_seconds)
    if slow >= 2 and seconds.p99 > MAX_TAIL_RATIO * seconds.median:
        ratio = seconds.p99 / seconds.median
        return ratio, f"p99 {format_seconds(seconds.p99)} is {ratio:.1f} x the median {format_seconds(seconds.median)}"
    if seconds.mean > MAX_MEAN_RATIO * seconds.median:
        ratio, worst = seconds.max / seconds.median, format_seconds(seconds.max)
        return ratio, f"single operations stall, up to {worst} against a median of {format_seconds(seconds.median)}"
    return None


RULES = (
    StabilityRule(
        kind="few-samples",
        about="too few samples",
        advice="raise --iters",
        check=_few_samples,
    ),
    StabilityRule(
        kind="warming-up",
        about="still warming up",
        advice="raise --warmup",
        check=_warming_up,
    ),
    StabilityRule(
        kind="unsteady",
        about="unsteady",
        advice="look for other jobs on the nodes or the network, then measure again with more --iters",
        check=_unsteady,
    ),
    StabilityRule(
        kind="wide-interval",
        about="imprecise",
        advice="raise --iters, or compare only larger differences",
        check=_wide_interval,
    ),
    StabilityRule(
        kind="launches",
        about="launches differ",
        advice="one launch does not speak for the cluster; compare means over --repeats 5 or more",
        check=_launches,
    ),
    StabilityRule(
        kind="heavy-tail",
        about="slow outliers",
        advice="training waits for the slowest operation; look for retransmissions, busy CPUs and throttling",
        check=_heavy_tail,
    ),
)
