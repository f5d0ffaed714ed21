"""What a healthy system of a shape reaches: bus bandwidth per collective and size, with the reason for the figure.

``t = a + S' / B + 2 sqrt(p S' / B)`` with ``S' = S f``, the bytes a rank must send (f: the busbw factor). a is the time
without data, B the bus bandwidth of very large messages, p the latency of a pipeline stage: cutting a message into m
chunks costs ``(stages + m)(p' + S'/(m B))``, which the best m makes ``a + S'/B + c sqrt(S')``. B is a share of what the
slowest link on the way could carry (`regimes.py`); the share, a and p are those of published healthy systems of the
same regime (``expected.csv``, made by ``python -m tests.measurements.expected_bandwidths --write``; docs/methods.md).

What no published system resembles has no expectation: the answer is the reason.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Literal

from raybench.expectations.regimes import NoExpectation, Regime, System, kinds_of, regime_of
from raybench.hardware.tables import number, read_table
from raybench.performance_model.layout import wire_factor
from raybench.units import format_bytes

LARGE_BYTES, LARGE_BYTES_PER_RANK, LARGE_SENT_BYTES = 2**30, 32 * 2**20, 64 * 2**20
# Below this a rank, AWS's tuner takes NVLSTree on P5, which is slower: 280 of 357 GB/s on four nodes (the regions of
# all_reduce in aws/aws-ofi-nccl@2daf7d30 src/tuner/nccl_ofi_regions.cpp: 8,053,063,680 bytes of 160 ranks; less on P5en
# and P6). Gathers rise up to there, too.
LARGE_P5_BYTES_PER_RANK, _HOPPER_NVLINK = 48 * 2**20, 4
SMALL_BYTES, SMALL = 32 * 2**20, ":small"  # below, other algorithms and protocols: a and p of their own
# Below this share of the expectation a large message is slow, by the number of independent systems that it rests on:
# one system alone may be far from typical. From the leave-one-out errors of the corpus (docs/methods.md).
_LIMITS = {0: 0.0, 1: 0.82, 2: 0.89, 3: 0.91}
_MANY_SYSTEMS_LIMIT = 0.94
# Of four NICs or fewer, one is a quarter or more: a limit that finds an eighth would only call healthy spread slow (two
# of them stood at 0.91 of the expectation). Halfway to what is left, geometrically, and never below this.
_FEW_NICS_LIMIT = 0.85
WITHIN_THEIR_SPREAD = "one lost NIC of eight can be within their spread: compare with an own run (run --baseline)"
_OF_EIGHT = 7 / 8
FULL_RATE = (0.95, 0.985)  # of the line rate: what ib_write_bw reaches on healthy NICs, less a little for a ring


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """What published healthy systems of a regime reach: the median, least and greatest share of the link."""

    share: float
    systems: int
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds without data, and of a pipeline stage."""

    start_seconds: float
    stage_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Shares by regime and times by class; what is missing falls back on what it is a kind of (`kinds_of`)."""

    shares: Mapping[str, Healthy]
    timings: Mapping[str, Timing]

    def share(self, key: str) -> Healthy | None:
        """Of a regime, or of what it is a kind of; never of a place as a whole, whose regimes have other links."""
        return next((self.shares[kind] for kind in kinds_of(key)[:-1] if kind in self.shares), None)

    def timing(self, key: str, *, small: bool = False) -> Timing | None:
        """Of a class, or of what it is a kind of; for small messages or for large ones."""
        names = (f"{kind}{SMALL if small else ''}" for kind in kinds_of(key))
        return next((self.timings[name] for name in names if name in self.timings), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Bus bandwidth of a healthy system, GB/s. ``limit``: share of it below which a large message is slow."""

    bus_gb_per_s: float
    limit: float
    basis: str


def expect(
    operation: str, message_bytes: int, system: System, coefficients: Coefficients | None = None
) -> Expectation | NoExpectation:
    """Bus bandwidth that a healthy system of this shape reaches with a message of S bytes (S as nccl-tests counts)."""
    known = coefficients or shipped_coefficients()
    regime = regime_of(operation, system)
    if isinstance(regime, NoExpectation):
        return regime
    healthy = known.share(regime.key)
    timing = known.timing(regime.timing, small=message_bytes < SMALL_BYTES)
    if healthy is None or timing is None:
        return NoExpectation(reason=f"no published healthy system of the kind '{regime.key}'")
    sent = message_bytes * wire_factor(operation, system.ranks)
    ceiling = min(healthy.share * regime.link_gb_per_s, regime.most_gb_per_s)
    seconds = predicted_seconds(sent, ceiling * 1e9, timing)
    count = f"{healthy.systems} published healthy system{'' if healthy.systems == 1 else 's'}"
    reach = f"{regime.text}: {ceiling / regime.link_gb_per_s:.0%} for large messages, as {count} of this kind reach"
    limit = limit_of(regime, healthy)
    is_wide = regime.cap < 1 and regime.left * healthy.most > limit * healthy.share
    may_hide = limit <= regime.left or is_wide
    hides = f"; {WITHIN_THEIR_SPREAD}" if regime.by_nics and may_hide else ""
    return Expectation(bus_gb_per_s=sent / seconds / 1e9, limit=limit, basis=reach + hides)


def predicted_seconds(sent_bytes: float, bytes_per_second: float, timing: Timing) -> float:
    """``a + S'/B + 2 sqrt(p S'/B)``."""
    transfer = sent_bytes / bytes_per_second
    return timing.start_seconds + transfer + 2 * math.sqrt(timing.stage_seconds * transfer)


def deciding(sizes: Sequence[int], operation: str, system: System) -> tuple[int, ...]:
    """The messages that decide: large, and within a factor 4 of the largest, since these depend least on latency."""
    least = least_deciding(operation, system)
    large = [size for size in sizes if size >= least]
    return tuple(size for size in large if 4 * size >= max(large))


def least_deciding(operation: str, system: System) -> int:
    """Bytes from which a message is large: 1 GiB, and 32 MiB a rank (48 on P5) where it is cut into one part a rank.

    What one GPU sends to the next is not cut. Over NICs it has its rate from 64 MiB on (43.1 of 43.4 GB/s, 49.4 of 50).
    """
    if operation == "send_recv":
        return LARGE_BYTES if system.domains == 1 else LARGE_SENT_BYTES
    per_rank = LARGE_P5_BYTES_PER_RANK if is_tuned_p5(operation, system) else LARGE_BYTES_PER_RANK
    return max(LARGE_BYTES, per_rank * system.ranks)


def is_tuned_p5(operation: str, system: System) -> bool:
    """Whether AWS's tuner chooses the algorithm of nodes of H100 or H200 over EFA by bytes a rank."""
    over_efa = system.family == "efa" and system.domains > 1
    return over_efa and system.gpu.nvlink_generation == _HOPPER_NVLINK and operation not in ("all_to_all", "send_recv")


def limit_of(regime: Regime, healthy: Healthy) -> float:
    """Share of the expectation below which a large message is slow.

    Where NICs limit, the best healthy system less a NIC is a bound for whatever lost one. If healthy systems, of
    which there are two at least, all lie above it, the limit is halfway between (geometrically).
    """
    limit = min(regime.cap, _LIMITS.get(healthy.systems, _MANY_SYSTEMS_LIMIT))
    if regime.by_nics and regime.left < _OF_EIGHT:
        limit = min(limit, max(_FEW_NICS_LIMIT, math.sqrt(regime.left)))
    faulty = regime.left * healthy.most
    if regime.by_nics and regime.cap == 1 and healthy.systems > 1 and faulty < healthy.least:
        return max(limit, math.sqrt(faulty * healthy.least) / healthy.share)
    return limit


Verdict = Literal["as expected", "slow", "inconclusive", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A sweep against its expectation: the median ratio of its large messages."""

    verdict: Verdict
    ratio: float | None
    limit: float | None
    basis: str


def judge(
    operation: str,
    measured: Sequence[tuple[int, float]],
    system: System,
    coefficients: Coefficients | None = None,
) -> Judgement:
    """Whether a sweep of (message bytes, busbw GB/s) is what a healthy system of this shape reaches.

    Only the largest messages decide (`least_deciding`). Smaller ones depend on tuning and versions far
    more than on health, so a sweep without large messages is inconclusive.
    """
    sizes = deciding([size for size, _ in measured], operation, system)
    ratios: list[float] = []
    limit, basis = None, ""
    for message_bytes, bus_gb_per_s in measured:
        expected = expect(operation, message_bytes, system, coefficients)
        if isinstance(expected, NoExpectation):
            return Judgement(verdict="unknown", ratio=None, limit=None, basis=expected.reason)
        limit, basis = expected.limit, expected.basis
        if message_bytes in sizes:
            ratios.append(bus_gb_per_s / expected.bus_gb_per_s)
    if not ratios or limit is None:
        least = format_bytes(least_deciding(operation, system))
        return Judgement(
            verdict="inconclusive", ratio=None, limit=limit, basis=f"{basis}; no message of {least} or more"
        )
    ratio = median(ratios)
    if ratio >= limit:
        return Judgement(verdict="as expected", ratio=ratio, limit=limit, basis=basis)
    plateau = median(busbw for message_bytes, busbw in measured if message_bytes in sizes)
    at_the_nics = _at_the_rate_of_the_nics(operation, plateau, system)
    if at_the_nics:
        return Judgement(verdict="as expected", ratio=ratio, limit=limit, basis=f"{at_the_nics} ({basis})")
    return Judgement(verdict="slow", ratio=ratio, limit=limit, basis=basis)


def _at_the_rate_of_the_nics(operation: str, bus_gb_per_s: float, system: System) -> str:
    """Why two nodes that NVLS should limit are healthy all the same: a ring over them at their NICs' full rate.

    NCCL before 2.18, or told so by NCCL_ALGO, reduces over nodes without NVLS. A ring that lost a NIC cannot pass 7/8.
    """
    regime, fabric = regime_of(operation, system), system.fabric_gb_per_s or 0.0
    if isinstance(regime, NoExpectation) or regime.by_nics or system.domains != 2:
        return ""
    full = FULL_RATE[0] * fabric <= bus_gb_per_s <= FULL_RATE[1] * fabric
    return "no NVLS between the nodes, whose NICs carry a ring at their full rate: all of them work" if full else ""


@cache
def shipped_coefficients() -> Coefficients:
    """Those of expected.csv: fitted to the whole corpus."""
    rows = read_table("raybench.expectations", "expected.csv")
    shares = {
        row["key"]: Healthy(
            share=float(row["share"]), systems=int(row["systems"]), least=float(row["least"]), most=float(row["most"])
        )
        for row in rows
        if row["share"]
    }
    timings = {
        row["key"]: Timing(start_seconds=start * 1e-6, stage_seconds=float(row["stage_us"]) * 1e-6)
        for row in rows
        if (start := number(row["start_us"])) is not None
    }
    return Coefficients(shares=shares, timings=timings)
