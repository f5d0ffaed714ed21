"""What sides say of themselves beside each other: verdicts, checks, findings, losses and what is missing. Pure.

Every word has a rank; what is on one side only, or not known, is never taken for good.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from raybench.comparison.parameters import other_parameters, renamed_keys
from raybench.comparison.same_losses import changed_losses, differs, missing_losses
from raybench.comparison.side import (
    JUDGED,
    OF_THE_WHOLE,
    OPEN,
    SUSPECT,
    WRONG_DATA,
    FigureKey,
    Side,
    SideFigure,
    label_of,
)
from raybench.comparison.words import FAILED, INCOMPLETE, WORSE, is_known, rank_of
from raybench.documents.run.verdict import BASELINE
from raybench.verdicts import SEVERITY

_BETWEEN_RANKS = ("pairs", "ranks")
_EACH_BY_ITSELF = ("preflight", "fabric test")  # their checks are judged one by one, so a bad one spoils no other


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What both sides say of themselves: how many ``checks`` there are, and how many of them both know.

    ``failed``: what failed on a side and not on the reference; ``worse``: what is worse; ``open``: what is not known,
    or missing. ``still``: what is as bad as it was. ``unsettled``: why an "ok" could not be trusted.
    """

    checks: int = 0
    known: int = 0
    failed: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()


def changed_between(sides: Sequence[Side], *, gated: bool) -> Changed:
    """From all sides, the reference first. ``gated``: other parameters leave the verdict open."""
    found = changed_checks(sides)
    apart, late = changed_losses(sides, "different"), changed_losses(sides, "unknown")
    gaps = tuple(f"{side.name}: {gap}" for side in sides for gap in side.gaps)
    others = [
        f"{text} (--unlike compares them all the same)"
        for side in sides[1:]
        for text in (other_parameters(sides[0], side) if gated else ())
    ]
    return replace(
        found,
        failed=(*found.failed, *_wrong_data(sides)),
        worse=(*found.worse, *apart),
        open=(
            *found.open,
            *_unverified(sides),
            *late,
            *missing_losses(sides),
            *gaps,
            *_no_longer_judged(sides),
            *others,
        ),
        unsettled=tuple(_no_reference(sides[0])),
    )


def changed_checks(sides: Sequence[Side]) -> Changed:
    """Verdicts, checks and troubles of all sides but the first beside those of the first."""
    found: dict[str, list[str]] = {"failed": [], "worse": [], "open": [], "still": []}
    checks = known = 0
    for side in sides[1:]:
        names = dict.fromkeys([*sides[0].outcomes, *side.outcomes])
        is_first = side.kind not in _EACH_BY_ITSELF
        for name in sorted(names, key=lambda one: (one in OF_THE_WHOLE) != is_first):
            before, after = sides[0].outcomes.get(name), side.outcomes.get(name)
            if name not in OF_THE_WHOLE and before in SEVERITY:
                checks += 1
                known += is_known(before) and is_known(after)
            if not (name in OF_THE_WHOLE and after == "unknown" and _is_as_open(sides[0], side)):
                _sort(found, _change(before, after), _said(name, before, after, side))
        for name, word in side.troubles.items():
            text = f"{name}: {word} in {side.name}, {sides[0].troubles.get(name, 'not')} in {sides[0].name}"
            _sort(found, _trouble(sides[0].troubles.get(name), word), text)
    return Changed(checks=checks, known=known, **{name: tuple(texts) for name, texts in found.items()})


def _is_as_open(reference: Side, side: Side) -> bool:
    """Whether what leaves its verdict open accuses no node, and was asked of the reference and not answered either.

    What is not told of the reference at all may have been fine there.
    """
    found = {name: words for name, words in side.checks.items() if words & {OPEN, SUSPECT}}
    unknown = {name for name, words in reference.checks.items() if JUDGED not in words}
    return bool(found) and all(SUSPECT not in words and name in unknown for name, words in found.items())


def _no_longer_judged(sides: Sequence[Side]) -> Iterator[str]:
    """Checks of which less is known than on the reference: judged there, passed or failed, or open here alone.

    What the verdict tells, unknown since then, is not told twice. On nodes that share one machine the scheduler alone
    can make ranks differ too much to be compared, another version may have no such check, and a run that was held
    against no baseline measured the same.
    """
    for side in sides[1:]:
        may_lack = differs(sides[0], side, "raybench")
        is_told = _change(sides[0].verdict, side.verdict) == "open"
        for name in dict.fromkeys([*sides[0].checks, *side.checks]):
            before, after = (one.checks.get(name, frozenset()) for one in (sides[0], side))
            if is_told and after & {OPEN, SUSPECT}:
                continue
            excused = name == BASELINE or (may_lack and not after) or (name in _BETWEEN_RANKS and _is_emulated(side))
            if _is_newly_open(before, after) or (not excused and _is_judged_less(before, after)):
                yield f"check {name} is {_how(after)} in {side.name}, and was {_how_before(before)} in {sides[0].name}"


def _is_newly_open(before: frozenset[str], after: frozenset[str]) -> bool:
    """Whether it leaves open what it did not before. What was asked of the reference and not answered is not new."""
    new = (after - before) & {OPEN, SUSPECT}
    return SUSPECT in new or (bool(new) and (JUDGED in before or not before))


def _is_judged_less(before: frozenset[str], after: frozenset[str]) -> bool:
    return (before == {JUDGED} and after != {JUDGED}) or (JUDGED in before and JUDGED not in after)


def _how(words: frozenset[str]) -> str:
    if SUSPECT in words:
        return "undecided, with a suspect,"
    if OPEN in words:
        return "undecided"
    return "judged in part" if JUDGED in words else "not judged" if words else "not there"


def _how_before(words: frozenset[str]) -> str:
    return JUDGED if JUDGED in words else _how(words)


def _is_emulated(side: Side) -> bool:
    return ("emulated", "True") in side.machine.items()


def _sort(found: Mapping[str, list[str]], kind: str, text: str) -> None:
    if kind:
        found[kind].append(text)


def _said(name: str, before: str | None, after: str | None, side: Side) -> str:
    if name in OF_THE_WHOLE:
        how = "failed" if after in FAILED else f"is {after or 'unknown'}"
        return f"{side.name} {how}: its {name} is {after or 'unknown'}, that of the reference {before or 'not known'}"
    return f"{name}: {before or 'not there'} before, {after or 'unknown'} now"


def _change(before: str | None, after: str | None) -> str:
    """What has become of a verdict or a check: failed, worse, open, still, or nothing. None: a side has none."""
    if after is None:
        return "open" if is_known(before) else ""
    if rank_of(after) >= rank_of("error") and before is not None and rank_of(before) >= rank_of(after):
        return "still"
    if after in FAILED:
        return "failed"
    if after in WORSE:
        return "worse" if before is None or rank_of(before) < rank_of(after) else ""
    if after in INCOMPLETE:
        return "open"
    return "open" if not is_known(after) and before is not None and _is_lost(before, after) else ""


def _is_lost(before: str, after: str) -> bool:
    """Whether a word that says nothing stands where another did."""
    return before != after and (is_known(before) or after != "skipped")


def _trouble(before: str | None, after: str) -> str:
    """Of what is only named where it went wrong. A warning is said among what differs."""
    if after in FAILED:
        return "still" if before in FAILED else "failed"
    return "open" if after in INCOMPLETE and (before is None or rank_of(before) < rank_of(after)) else ""


def _beside(reference: Side, side: Side) -> Iterator[tuple[FigureKey, SideFigure | None, SideFigure]]:
    """Each figure of a side with the reference's, also where parameters alone differ, as those of how often."""
    renamed = renamed_keys(reference.figures, side.figures)
    for key, figure in side.figures.items():
        yield key, reference.figures.get(renamed.get(key, key)), figure


def _wrong_data(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides[1:]:
        for key, before, figure in _beside(sides[0], side):
            if figure.problem == WRONG_DATA and (before is None or before.problem != WRONG_DATA):
                yield f"{side.name} failed: wrong data in {label_of(key)}"


def _unverified(sides: Sequence[Side]) -> Iterator[str]:
    """Figures whose data was right on the reference, and of which that is not known on another side."""
    for side in sides[1:]:
        for key, before, figure in _beside(sides[0], side):
            if before is not None and before.verified and figure.verified is None:
                yield f"{side.name}: whether the data of {label_of(key)} is right was not checked"


def _no_reference(side: Side) -> Iterator[str]:
    """Why a result is not a good reference."""
    bad = [name for name in OF_THE_WHOLE if side.outcomes.get(name) in (*FAILED, *INCOMPLETE)]
    if bad and side.kind not in _EACH_BY_ITSELF:
        yield f"{side.name} is not a good reference: its {bad[0]} is {side.outcomes[bad[0]]}"
