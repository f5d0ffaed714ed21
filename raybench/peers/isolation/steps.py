"""Which group of nodes to measure next for a suspect, and when nothing more is to be measured. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.peers.isolation.judgement import LEAST_PARTNERS, Answer, answer_of
from raybench.peers.isolation.reading import Reading
from raybench.peers.isolation.suspect import Suspect

MOST_PARTNERS = 4
MOST_MEASUREMENTS = 3  # with the suspect: what varies too much for three of them stays open


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes to measure together. ``instead``: who is there in the suspect's place, where it is not among them."""

    nodes: tuple[str, ...]
    with_suspect: bool
    instead: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partners:
    """Healthy nodes to measure a suspect with, and one to put in its place; None where no more are healthy."""

    nodes: tuple[str, ...]
    instead: str | None


def partners_of(suspect: Suspect, nodes: Sequence[str], suspects: Sequence[Suspect]) -> Partners:
    """Of the nodes of the run in their order: its neighbours first, which share most with it, then from all over.

    Nobody who is accused is a partner, and nobody who only stands out while enough others are left: one of these is at
    fault, which measuring shows. The far end of a path is one.
    """
    accused = {name for one in suspects for name in one.nodes}
    if len(nodes) - len(accused) < LEAST_PARTNERS:
        accused = {name for one in suspects if one == suspect or not one.is_open for name in one.nodes}
    place = nodes.index(suspect.node)
    healthy = sorted((one for one in nodes if one not in accused), key=lambda one: abs(nodes.index(one) - place))
    if suspect.other is not None:
        return Partners(nodes=(suspect.other, *_spread(healthy, MOST_PARTNERS - 1)), instead=None)
    instead = healthy[0] if len(healthy) > LEAST_PARTNERS else None
    left = [one for one in healthy if one != instead]
    return Partners(nodes=_spread(left, MOST_PARTNERS), instead=instead)


def _spread(nodes: Sequence[str], count: int) -> tuple[str, ...]:
    """So many, from the first to the last at equal distances."""
    if len(nodes) <= count:
        return tuple(nodes)
    return tuple(nodes[round(index * (len(nodes) - 1) / (count - 1))] for index in range(count))


def too_few(suspect: Suspect, partners: Partners) -> str | None:
    """Why nothing can be told of a suspect, whatever is measured; None where something can."""
    healthy = len(partners.nodes) - (suspect.other is not None)
    if healthy >= LEAST_PARTNERS:
        return None
    return (
        f"{healthy} other node{'' if healthy == 1 else 's'} of the run {'is' if healthy == 1 else 'are'} not accused: "
        f"{LEAST_PARTNERS} healthy ones are needed to tell which side of a pair is slow"
    )


def next_group(
    suspect: Suspect, partners: Partners, beside: Sequence[Reading], without: Reading | None, first: Reading
) -> tuple[Group | None, Answer]:
    """What to measure next, and the answer by now. None where that is clear, or more of the same would not help."""
    few = too_few(suspect, partners)
    if few is not None:
        return None, Answer(outcome="unknown", reason=few)
    answer = answer_of(suspect, beside, without, first)
    if beside and without is None and _only_open_without(suspect, beside, first, partners):
        nodes = ((partners.instead,) if partners.instead else ()) + partners.nodes
        return Group(nodes=nodes, with_suspect=False, instead=partners.instead), answer
    if beside and (not answer.more or len(beside) >= MOST_MEASUREMENTS):
        return None, answer
    return Group(nodes=(suspect.node, *partners.nodes), with_suspect=True), answer


def _only_open_without(suspect: Suspect, beside: Sequence[Reading], first: Reading, partners: Partners) -> bool:
    """Whether all that is missing is the measurement without the suspect: it would be confirmed if that is well."""
    well = beside[-1]
    pairs = {pair: blocks for pair, blocks in well.pairs.items() if suspect.node not in pair}
    speeds = {node: blocks for node, blocks in well.speeds.items() if node != suspect.node}
    imagined = Reading(nodes=partners.nodes, pairs=pairs, speeds=speeds)
    return answer_of(suspect, beside, imagined, first).outcome == "confirmed"
