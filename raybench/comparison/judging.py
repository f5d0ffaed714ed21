"""What an interval says of a figure, whether it is a regression, and the verdict over all figures. Pure."""

from collections.abc import Sequence
from typing import Literal

from raybench.comparison.changed import Changed
from raybench.comparison.interval import RatioInterval
from raybench.comparison.trend import LEAST_CHANGE
from raybench.documents.comparison.comparison import ComparedFigure, Difference
from raybench.units import format_share
from raybench.verdicts import Conclusion

LEAST_TOLD = 0.05  # a slowdown that matters: "no difference" is said only where the interval leaves it out
_MORE = "measure more: --repeats 5, or several runs"
_TIMES, _RATES = ("s", "us"), ("GB/s", "Gb/s")
_SPEEDS = (*_TIMES, *_RATES)


def difference_of(figure: ComparedFigure, found: RatioInterval) -> Difference:
    """By the whole interval. One that holds 1 is no evidence that nothing differs: it must leave out LEAST_TOLD too.

    One that lies within LEAST_CHANGE of 1 is no difference even where it leaves out 1: launches of one run share its
    seconds, so that two runs of the same thing differ by a little more than their launches do (methods, "Comparisons").
    """
    if not found.is_clear or found.is_within(LEAST_CHANGE):
        return "no difference" if found.is_within(LEAST_TOLD) else "cannot tell"
    return direction_of(figure.unit, is_more=found.ratio > 1)


def direction_of(unit: str, *, is_more: bool) -> Literal["slower", "faster", "more", "less"]:
    """What more, or less, of a figure in a unit is called."""
    if unit in _TIMES:
        return "slower" if is_more else "faster"
    if unit in _RATES:
        return "faster" if is_more else "slower"
    return "more" if is_more else "less"


def regression_of(figure: ComparedFigure, gate: float | None) -> bool | None:
    """Whether the figure is worse by the gate or more; None where the interval leaves that open.

    It is where it is clear that it is worse, and by the gate at least; it is none where that lies beyond the interval.
    """
    worse = figure.times_worse
    if gate is None or worse is None:
        return None
    ratio, low, high = worse
    if low > 1 and ratio >= 1 + gate:
        return True
    return False if high < 1 + gate else None


def judged(
    figures: Sequence[ComparedFigure], changed: Changed, *, gate: float | None, sides: Sequence[str]
) -> Conclusion:
    """The verdict: by what failed, then by what is worse; "ok" only where all that one side has was compared."""
    if changed.failed:
        return Conclusion(verdict="critical", reason=and_more(changed.failed))
    if changed.worse and gate is not None:
        return Conclusion(verdict="critical", reason=and_more(changed.worse))
    compared = [one for one in figures if one.difference != "not compared" and one.is_better]
    lost = [one for one in figures if one.difference == "not compared" and one.values[0] is not None]
    found = _by_figures(compared, changed, lost=lost, gate=gate, sides=sides)
    if found is None or found.verdict == "critical":
        return found or _nothing_compared(lost, changed)
    if changed.worse:
        found = Conclusion(verdict="warning", reason=and_more(changed.worse))
    found = _settled(found, lost, changed, gate)
    new = [one for one in figures if one.difference == "not compared" and one.values[0] is None]
    added = f"; not judged, since {sides[0]} has none: {new[0].label}{_more(new)}" if new else ""
    return Conclusion(verdict=found.verdict, reason=found.reason + added)


def _by_figures(
    compared: Sequence[ComparedFigure],
    changed: Changed,
    *,
    lost: Sequence[ComparedFigure],
    gate: float | None,
    sides: Sequence[str],
) -> Conclusion | None:
    """By the figures that both sides have, or by the checks of what has none; None where there is neither."""
    if compared:
        found = _by_difference(compared, sides) if gate is None else _by_gate(compared, gate, sides)
        return Conclusion(verdict=found.verdict, reason=found.reason + _silent(changed))
    if lost or not changed.checks:
        return None
    if not changed.known:
        return Conclusion(verdict="unknown", reason=f"none of {changed.checks} checks is known on both sides")
    return Conclusion(verdict="ok", reason=f"none of {changed.known} checks is worse{_silent(changed)}")


def _silent(changed: Changed) -> str:
    """Checks that are worth nothing here, and no less than before: a preflight too ends with 0 for them."""
    silent = changed.checks - changed.known
    return f"; {silent} are not known on both sides" if silent else ""


def _nothing_compared(lost: Sequence[ComparedFigure], changed: Changed) -> Conclusion:
    why = f": {lost[0].label}: {lost[0].reason}" if lost else ""
    rest = "".join(f"; {text}" for text in (*changed.worse, *changed.open)[:1])
    return Conclusion(verdict="unknown", reason=f"nothing can be compared: no figure in common{why}{rest}")


def _settled(found: Conclusion, lost: Sequence[ComparedFigure], changed: Changed, gate: float | None) -> Conclusion:
    """What is missing, unknown or not a good reference makes a verdict unknown; what is as bad as it was is said."""
    unsettled = [and_more(some) for some in (changed.open, changed.unsettled) if some]
    if lost:
        one = lost[0]
        few = f"{one.label} was not compared: {one.reason}{_more(lost)}"
        unsettled.append(few if gate is not None else f"{_count(lost)} not compared: {one.label}: {one.reason}")
    still = [f"as bad as before: {and_more(changed.still)}"] if changed.still else []
    if not unsettled:
        verdict = "warning" if still and found.verdict == "ok" else found.verdict
        return Conclusion(verdict=verdict, reason="; ".join([found.reason, *still]))
    told = [] if gate is not None and found.verdict == "ok" else [found.reason]  # a gate is not passed, in no figure
    ordered = [*told, *unsettled] if gate is None and found.verdict != "ok" else [*unsettled, *told]
    return Conclusion(verdict="unknown", reason="; ".join([*ordered, *still]))


def and_more(texts: Sequence[str]) -> str:
    """The first of some, and how many more there are."""
    return texts[0] + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else "")


def _by_gate(compared: Sequence[ComparedFigure], gate: float, sides: Sequence[str]) -> Conclusion:
    failed = [one for one in compared if one.regression]
    if failed:
        return Conclusion(
            verdict="critical", reason=f"regression of {format_share(gate)} or more: {_first(failed, sides)}"
        )
    unclear = [one for one in compared if one.regression is None]
    if unclear:
        worst = max(unclear, key=lambda one: (one.times_worse or (0.0, 0.0, 0.0))[2])
        text = f"whether {said(worst, sides)} is a regression of {format_share(gate)} cannot be told"
        return Conclusion(verdict="unknown", reason=f"{text}{_more(unclear)}; {_MORE}")
    return Conclusion(verdict="ok", reason=f"no regression of {format_share(gate)} in {_count(compared)}")


def _by_difference(compared: Sequence[ComparedFigure], sides: Sequence[str]) -> Conclusion:
    worse = [one for one in compared if one.is_worse]
    unclear = [one for one in compared if one.difference == "cannot tell"]
    left = f"; cannot tell in {_count(unclear)} ({_unseen(unclear)})" if unclear else ""
    if worse:
        return Conclusion(verdict="warning", reason=_first(worse, sides) + left)
    better = [one for one in compared if one.is_improved]
    if better:
        return Conclusion(verdict="ok", reason=_first(better, sides) + left)
    timed = [one for one in compared if one.unit in _SPEEDS] or compared
    if all(one.difference == "cannot tell" for one in timed):  # that memory is the same says nothing of speed
        text = f"cannot tell in {_count(unclear)}: {_unseen(unclear)}"
        return Conclusion(verdict="unknown", reason=f"{text}; {_MORE}")
    same = [one for one in compared if one.difference == "no difference"]
    return Conclusion(verdict="ok", reason=f"no difference in {_count(same)}: {_unseen(same)}{left}")


def _unseen(figures: Sequence[ComparedFigure]) -> str:
    """From which difference on the runs could show one, of the figure that is known best to that known least."""
    shares = sorted(one.least_shown or 0.0 for one in figures)
    least, most = (f"{share:.1%}" if share < 1 else f"{1 + share:.1f}x" for share in (shares[0], shares[-1]))
    return f"less than {least if least == most else f'{least} to {most}'} would not be seen"


def _first(figures: Sequence[ComparedFigure], sides: Sequence[str]) -> str:
    return said(figures[0], sides) + _more(figures)


def _more(figures: Sequence[ComparedFigure]) -> str:
    more = len(figures) - 1
    return f" (and {more} more figure{'s' * (more > 1)})" if more else ""


def _count(figures: Sequence[ComparedFigure]) -> str:
    return f"{len(figures)} figure{'s' * (len(figures) != 1)}"


def said(figure: ComparedFigure, sides: Sequence[str]) -> str:
    """``all_reduce float32 sum 16M 1.08x slower [1.05, 1.11]``, with the side's name where there are several."""
    whose = f"{sides[figure.side]}: " if len(sides) > 2 else ""
    return f"{whose}{figure.label} {figure.difference_text}"
