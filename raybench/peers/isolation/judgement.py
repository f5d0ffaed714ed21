"""Whether measurements with healthy partners prove an accusation, withdraw it, or leave it open. Pure.

A node is at fault where it is slow with each of its partners, two at least, while these are well among themselves, and
well again once another node is in its place. It is not where it has a pair that is well with each of them. Where only
some of its pairs are slow, and both ends of these have others that are well, it is the path between them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from raybench.peers.isolation.reading import NodePair, Reading, pooled
from raybench.peers.isolation.states import Figure, figures_of
from raybench.peers.isolation.suspect import Aspect, Suspect
from raybench.peers.judgement import LARGE
from raybench.stats import median

Outcome = Literal["confirmed", "not confirmed", "path", "unknown"]
LEAST_PARTNERS = 2
_GRAVE = 0.5  # of what the others reach: half as fast, or slower
_MINORITY = 1 / 3  # of the partners' own pairs may be slow, or there is nothing to compare with


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What measurements say of a suspect.

    ``share``: the suspect's figure over that of its partners among themselves; ``figure`` and ``partners_figure`` in
    GB/s, or pieces of work a second. ``slow_with``: those it is slow with. ``more``: whether measuring again may help.
    """

    outcome: Outcome
    reason: str
    aspect: Aspect | None = None
    share: float | None = None
    figure: float | None = None
    partners_figure: float | None = None
    slow_with: tuple[str, ...] = ()
    more: bool = False


def answer_of(
    suspect: Suspect, beside: Sequence[Reading], without: Reading | None = None, first: Reading | None = None
) -> Answer:
    """The answer by measurements with the suspect (``beside``), and with another node in its place (``without``).

    ``first``: that of the run which accuses it. ``more`` is set where one more measurement could decide.
    """
    whole = [one for one in beside if not one.broke]
    fails = [one for one in beside if one.broke and set(one.blamed) & set(suspect.nodes)]
    if fails and not whole:
        return _failing(suspect, fails[0], without)
    if not whole:
        why = beside[0].broke if beside else "nothing was measured"
        return Answer(outcome="unknown", reason=f"the measurement with it broke: {why}", more=len(beside) < 2)
    reading = pooled(whole)
    if suspect.other is not None:
        return _path_answer(suspect, reading, first)
    return _gravest([_aspect_answer(suspect, aspect, reading, without, first) for aspect in suspect.aspects])


def _failing(suspect: Suspect, reading: Reading, without: Reading | None) -> Answer:
    """A measurement with the suspect broke, and it was to blame for that."""
    again = f"it broke the measurement with {_names(set(reading.nodes) - set(suspect.nodes))} again: {reading.broke}"
    if suspect.other is not None:
        return Answer(outcome="unknown", reason=again)
    if without is None:
        return Answer(outcome="unknown", reason=f"{again}; nobody else was measured with these partners", more=True)
    if without.broke:
        return Answer(outcome="unknown", reason=f"{again}; without it the measurement broke as well: {without.broke}")
    return Answer(outcome="confirmed", reason=f"{again}; without it the same partners measured to the end")


def _gravest(answers: Sequence[Answer]) -> Answer:
    """One aspect that is proven is enough; nothing is withdrawn while another is open."""
    order: tuple[Outcome, ...] = ("confirmed", "path", "unknown", "not confirmed")
    return min(answers, key=lambda one: order.index(one.outcome))


def _aspect_answer(
    suspect: Suspect, aspect: Aspect, reading: Reading, without: Reading | None, first: Reading | None
) -> Answer:
    answer = (_by_pairs if aspect == "bandwidth" else _by_speed)(suspect, reading)
    if answer.outcome == "confirmed":
        answer = _controlled(suspect, answer, aspect, reading, without)
    if answer.outcome == "not confirmed":
        answer = _beside_first(suspect, answer, first, aspect)
    if answer.outcome == "unknown" and first is not None and _has_recovered(suspect, aspect, reading, first):
        answer = replace(answer, outcome="not confirmed", reason="far from as slow as in the run", more=False)
    return replace(answer, aspect=aspect)


def _has_recovered(suspect: Suspect, aspect: Aspect, reading: Reading, first: Reading) -> bool:
    """Whether a grave fault is gone, where figures vary too much to say more.

    All of its figures are, with their whole interval, nearer to what the others reached in the run than to what it did
    itself (the geometric mean is between), and it is as fast as its partners by the limit.
    """
    before, others = own_figure(suspect, first, aspect), others_figure(suspect, first, aspect)
    now, beside = own_figure(suspect, reading, aspect), others_figure(suspect, reading, aspect)
    if before is None or others is None or now is None or beside is None or before > _GRAVE * others:
        return False
    if aspect == "speed":
        own = [one for node, one in figures_of(reading.speeds, suspect.limit).items() if node == suspect.node]
    else:
        pairs = figures_of(reading.pairs, suspect.limit)
        own = [one for pair, one in pairs.items() if set(suspect.nodes) <= set(pair)]
    middle = math.sqrt(before * others)
    return now >= suspect.limit * beside and bool(own) and all(one.low > middle for one in own)


def _by_pairs(suspect: Suspect, reading: Reading) -> Answer:
    figures = figures_of(reading.pairs, suspect.limit)
    own = {other: one for pair, one in figures.items() if (other := _other_end(pair, suspect.node)) is not None}
    among = {pair: one for pair, one in figures.items() if suspect.node not in pair}
    apart = _apart(own, among, suspect.limit)
    if len(apart) >= LEAST_PARTNERS:
        answer = _compared(own.values(), [one for pair, one in among.items() if apart.issuperset(pair)], apart)
        return replace(answer, outcome="confirmed", reason=f"slow with each of {_names(apart)}")
    proven = _proven(figures)
    partners = [node for node in own if node in proven]
    peers = [one for pair, one in among.items() if proven.issuperset(pair)]
    slow = frozenset(node for node in partners if own[node].state == "slow")
    answer = _compared(own.values(), peers or list(figures.values()), slow)
    if _differ(peers):
        return replace(answer, reason="its partners differ among themselves, so nothing can be compared with them")
    if suspect.node not in proven:
        return replace(answer, reason=_undecided(own, partners), more=True)
    return _of_a_healthy_end(answer, own, partners)


def _apart(own: Mapping[str, Figure], among: Mapping[NodePair, Figure], limit: float) -> frozenset[str]:
    """The partners whose pairs among themselves prove that the suspect alone is slow; none where they do not.

    With its whole interval such a pair is above all of the suspect's, by the limit, and all but a few of the pairs of
    these partners are. A single lucky pair proves nothing: the suspect is below what each of them typically reaches.
    """
    if not own or any(one.state != "slow" for one in own.values()):
        return frozenset()
    partners = _above(among, max(one.high for one in own.values()), limit)
    typical = {node: [one.value for pair, one in among.items() if node in pair] for node in partners}
    below = all(node in own and own[node].value < limit * median(typical[node]) for node in partners)
    return partners if below else frozenset()


def _above(pairs: Mapping[NodePair, Figure], level: float, limit: float) -> frozenset[str]:
    """The nodes of pairs that are above a level, by the limit; none where more than a few between them are not."""
    good = [pair for pair, one in pairs.items() if one.low * limit > level]
    nodes = frozenset(node for pair in good for node in pair)
    between = sum(nodes.issuperset(pair) for pair in pairs)
    return nodes if between - len(good) <= _MINORITY * between else frozenset()


def _of_a_healthy_end(answer: Answer, own: Mapping[str, Figure], partners: Sequence[str]) -> Answer:
    """Of a node that has a pair which is well."""
    if answer.slow_with:
        names = _names(answer.slow_with)
        return replace(answer, outcome="path", reason=f"slow with {names} only, and well with others")
    if len(partners) < LEAST_PARTNERS or any(own[node].state == "open" for node in partners):
        return replace(answer, reason=_undecided(own, partners), more=True)
    return replace(answer, outcome="not confirmed", reason=f"as fast with {_names(partners)} as they are")


def _by_speed(suspect: Suspect, reading: Reading) -> Answer:
    figures = figures_of(reading.speeds, suspect.limit)
    own = figures.get(suspect.node)
    if own is None:
        return Answer(outcome="unknown", reason="its own speed was not measured", more=True)
    others = {node: one for node, one in figures.items() if node != suspect.node}
    faster = frozenset(node for node, one in others.items() if one.low * suspect.limit > own.high)
    answer = _compared([own], [others[node] for node in faster] or list(figures.values()), faster)
    if own.state == "well":
        return replace(answer, outcome="not confirmed", reason=f"works as fast as {_names(others)}", slow_with=())
    if own.state == "slow" and len(faster) >= LEAST_PARTNERS and 2 * len(faster) > len(others):
        return replace(answer, outcome="confirmed", reason=f"slower by itself than each of {_names(faster)}")
    return replace(answer, reason="the nodes' own speeds vary too much to tell", more=True)


def _path_answer(suspect: Suspect, reading: Reading, first: Reading | None) -> Answer:
    """Of the path between two nodes: slow, while both ends are well with others."""
    figures = figures_of(reading.pairs, suspect.limit)
    pair = _in_order(suspect.nodes[0], suspect.nodes[1])
    own = figures.get(pair)
    if own is None:
        return Answer(outcome="unknown", reason="the path was not measured", aspect="bandwidth", more=True)
    others = {ends: one for ends, one in figures.items() if ends != pair}
    answer = replace(_compared([own], list(others.values()), ()), aspect="bandwidth")
    if own.state == "well":
        found = replace(answer, outcome="not confirmed", reason="it is as fast as the paths to other nodes")
        return _beside_first(suspect, found, first, "bandwidth")
    if first is not None and _has_recovered(suspect, "bandwidth", reading, first):
        return replace(answer, outcome="not confirmed", reason="far from as slow as in the run")
    proven = _above(others, own.high, suspect.limit)
    if own.state == "slow" and proven.issuperset(pair):
        reason = "slow again, while both ends are well with others"
        return replace(answer, outcome="path", reason=reason, slow_with=pair)
    unproven = [node for node in pair if node not in proven]
    if own.state == "slow" and unproven:
        reason = f"{_names(unproven)} is slow with other nodes as well: it is more than this path"
        return replace(answer, reason=reason, more=True)
    return replace(answer, reason="its figures vary too much to tell", more=True)


def _controlled(suspect: Suspect, answer: Answer, aspect: Aspect, reading: Reading, without: Reading | None) -> Answer:
    """Whether the same partners are well with another node in the suspect's place."""
    if without is None:
        return replace(answer, outcome="unknown", reason=f"{answer.reason}; not measured without it yet", more=True)
    if without.broke:
        why = f"the measurement without it broke: {without.broke}"
        return replace(answer, outcome="unknown", reason=f"{answer.reason}, but {why}")
    extra = [node for node in without.nodes if node not in reading.nodes]
    nodes = frozenset((*answer.slow_with, *extra))
    if not nodes <= _well_without(suspect, aspect, reading, without):
        return replace(answer, outcome="unknown", reason=f"{answer.reason}, but so are these without it")
    place = f"with {extra[0]} in its place" if extra else "without it"
    return replace(answer, reason=f"{answer.reason}; these are well among themselves, and {place}")


def _well_without(suspect: Suspect, aspect: Aspect, reading: Reading, without: Reading) -> frozenset[str]:
    """The nodes that are clearly faster without the suspect than it is with them."""
    if aspect == "speed":
        own = figures_of(reading.speeds, suspect.limit)[suspect.node].high
        alone = figures_of(without.speeds, suspect.limit)
        return frozenset(node for node, one in alone.items() if one.low * suspect.limit > own)
    pairs = figures_of(reading.pairs, suspect.limit)
    level = max(one.high for pair, one in pairs.items() if suspect.node in pair)
    return _above(figures_of(without.pairs, suspect.limit), level, suspect.limit)


def _beside_first(suspect: Suspect, answer: Answer, first: Reading | None, aspect: Aspect) -> Answer:
    """Nothing is withdrawn by partners that are far below what the others reached in the run: all may be slow now."""
    before = None if first is None else others_figure(suspect, first, aspect)
    if before is None or answer.partners_figure is None or answer.partners_figure >= LARGE * before:
        return answer
    share = answer.partners_figure / before
    reason = f"its partners reach {share:.2f} of what the others reached in the run: all are slow now"
    return replace(answer, outcome="unknown", reason=reason, more=True)


def own_figure(suspect: Suspect, reading: Reading, aspect: Aspect) -> float | None:
    """The suspect's figure in a reading: the median over its pairs, or its own speed; None where there is none."""
    if aspect == "speed":
        blocks = [reading.speeds.get(suspect.node, ())]
    else:
        blocks = [one for pair, one in reading.pairs.items() if set(suspect.nodes) <= set(pair)]
    return median(known) if (known := [median(one) for one in blocks if one]) else None


def others_figure(suspect: Suspect, reading: Reading, aspect: Aspect) -> float | None:
    """The same of those that the suspect has no part in."""
    if aspect == "speed":
        blocks = [one for node, one in reading.speeds.items() if node != suspect.node]
    elif suspect.other is not None:
        blocks = [one for pair, one in reading.pairs.items() if set(pair) != set(suspect.nodes)]
    else:
        blocks = [one for pair, one in reading.pairs.items() if suspect.node not in pair]
    return median(known) if (known := [median(one) for one in blocks if one]) else None


def _compared(own: Iterable[Figure], peers: Sequence[Figure], slow: Iterable[str]) -> Answer:
    """The figures of both, undecided yet."""
    mine = [one.value for one in own]
    if not mine or not peers:
        return Answer(outcome="unknown", reason="it was not measured with its partners", more=True)
    figure, beside = median(mine), median([one.value for one in peers])
    return Answer(
        outcome="unknown",
        reason="",
        share=figure / beside,
        figure=figure,
        partners_figure=beside,
        slow_with=tuple(sorted(slow)),
    )


def _undecided(own: Mapping[str, Figure], partners: Sequence[str]) -> str:
    if len(partners) < LEAST_PARTNERS:
        return f"{len(partners)} of its {len(own)} partners proved to be healthy: too few to tell"
    return "its figures vary too much to tell"


def _proven(figures: Mapping[NodePair, Figure]) -> set[str]:
    return {node for pair, one in figures.items() if one.state == "well" for node in pair}


def _differ(peers: Sequence[Figure]) -> bool:
    return sum(one.state == "slow" for one in peers) > _MINORITY * len(peers)


def _other_end(pair: NodePair, node: str) -> str | None:
    if node not in pair:
        return None
    return pair[1] if pair[0] == node else pair[0]


def _in_order(one: str, other: str) -> NodePair:
    return (one, other) if one < other else (other, one)


def _names(nodes: Iterable[str]) -> str:
    """``node1``, ``node1, node2 and node4``."""
    names = sorted(nodes)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nobody"
