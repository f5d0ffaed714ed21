"""A figure beside those of its peers: the same case on the same model with the same software, on any host. Pure.

What counts are good samples: what lasts for a moment spoils some of them, and what is wrong with a node all. A device
is slower than its peers where even the upper quartile is below the bound. Where only its median is, that is too noisy
to tell, and so it is where the peers themselves are too far apart, or where something outside the node took its
processors. The bound is the median of the peers' medians, less the larger of a share and ``_DEVIATIONS`` robust
standard deviations of the peers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raybench.documents.preflight import NodeFigure
from raybench.peers.judgement import LARGE, MODERATE, NOT_JUDGED
from raybench.stats import MAD_TO_DEVIATION, median, quantile
from raybench.verdicts import CheckVerdict

_DEVIATIONS = 4.0
_LEAST_PEERS = 2  # of one alone it cannot be told which of the two is the odd one, only that they differ
_LEAST_SAMPLES = 3
_GOOD = 0.75

Place = tuple[str, NodeFigure]  # a host and a figure of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What the comparison of one figure came to."""

    verdict: CheckVerdict
    seen: str
    expected: str = ""
    basis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reference:
    """The peers' figures: their median, and their robust standard deviation as a share of it."""

    value: float
    deviation: float
    count: int

    def bound(self, share: float) -> float:
        """Below which share of the reference something is slower, where the peers are as far apart as they are."""
        return min(share, 1 - _DEVIATIONS * self.deviation)


def compared(figure: NodeFigure, peers: Sequence[NodeFigure], *, emulated: bool, not_its_own: str = "") -> Compared:
    """A figure beside its peers'.

    ``emulated``: its node shares its processors with other nodes of the test, so only what is large counts.
    ``not_its_own`` says why slowness would not be the node's own.
    """
    reference = _reference(peers)
    own = f"{figure.name}: {median(figure.samples):.3g} {figure.unit}" if figure.samples else figure.name
    if len(figure.samples) < _LEAST_SAMPLES:
        return Compared(verdict="unknown", seen=f"{own}: too few samples to tell")
    if reference is None:
        return Compared(verdict="unknown", seen=f"{own}, and no other device of its kind to compare with")
    low = reference.bound(LARGE if emulated else MODERATE)
    verdict, why = _verdict(figure.samples, reference, low, not_its_own)
    share, good = (quantile(sorted(figure.samples), part) / reference.value for part in (0.5, _GOOD))
    return Compared(
        verdict=verdict,
        seen=f"{own}, {share:.0%} of its peers' (upper quartile {good:.0%}){why}",
        expected=f"at least {low:.0%} of {reference.value:.3g} {figure.unit}",
        basis=f"median of {reference.count} other {'device' if reference.count == 1 else 'devices'} "
        f"({figure.model}; {figure.setting}), whose robust deviation is {reference.deviation:.1%}",
    )


def _verdict(samples: Sequence[float], reference: _Reference, low: float, not_its_own: str) -> tuple[CheckVerdict, str]:
    """The verdict, and what is to be said of it beside the figures."""
    share, good = (quantile(sorted(samples), part) / reference.value for part in (0.5, _GOOD))
    if low < NOT_JUDGED:
        return "unknown", "; its peers are too far apart to tell"
    if share >= low:
        return "pass", ""
    if good >= low:
        return "unknown", ": too noisy to tell"
    if not_its_own:
        return "unknown", f", which cannot be told to be its own: {not_its_own}"
    certain = good < reference.bound(LARGE) and reference.count >= _LEAST_PEERS
    return ("fail" if certain else "warn"), ""


def _reference(peers: Sequence[NodeFigure]) -> _Reference | None:
    medians = [median(peer.samples) for peer in peers if len(peer.samples) >= _LEAST_SAMPLES]
    value = median(medians) if medians else 0.0
    if value <= 0:
        return None
    spread = median([abs(one - value) for one in medians])
    return _Reference(value=value, deviation=MAD_TO_DEVIATION * spread / value, count=len(medians))


def peers_of(places: Sequence[Place], groups: Mapping[str, str]) -> Mapping[int, Sequence[NodeFigure]]:
    """The peers of each figure by its place in ``places``: the same group, case, model, setting and unit."""
    kinds: dict[tuple[str, ...], list[int]] = {}
    for index, (host, one) in enumerate(places):
        key = (groups.get(host, ""), one.test, one.case, one.model, one.setting, one.unit)
        kinds.setdefault(key, []).append(index)
    return {index: [places[other][1] for other in same if other != index] for same in kinds.values() for index in same}
