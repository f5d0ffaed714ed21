"""What an interval says of a figure, whether it is a regression, and the verdict over all figures. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from raybench.comparison.interval import RatioInterval
from raybench.comparison.trend import LEAST_CHANGE
from raybench.documents.comparison.comparison import ComparedFigure, Difference
from raybench.units import format_share
from raybench.verdicts import SEVERITY, Conclusion

LEAST_TOLD = 0.05  # a slowdown that matters: "no difference" is said only where the interval leaves it out
_MORE = "measure more: --repeats 5, or several runs"
_TIMES, _RATES = ("s", "us"), ("GB/s", "Gb/s")
_SPEEDS = (*_TIMES, *_RATES)
_BAD = ("warn", "error", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Checks that both sides made: how many, those that are worse, and those that now are not known.

    Losses of the same training count too: those that differ as worse, those that part late as not known.
    """

    checks: int = 0
    worse: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def changed_checks(outcomes: Sequence[Mapping[str, str]]) -> Changed:
    """From the outcomes of all sides, the reference first: only words of checks are judged, and what has vanished."""
    worse, unknown, checks = [], [], 0
    for name, before in outcomes[0].items():
        for after in (side.get(name, "unknown") for side in outcomes[1:]) if before in SEVERITY else ():
            checks += 1
            text = f"{name}: {before} before, {after} now"
            if after in _BAD and SEVERITY.index(after) > SEVERITY.index(before):
                worse.append(text)
            elif after == "unknown" and before != "unknown":
                unknown.append(text)
    return Changed(checks=checks, worse=tuple(worse), open=tuple(unknown))


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
    """The verdict: with a gate by that, else by what is worse. What cannot be compared is never a pass of a gate."""
    if changed.worse:
        more = f" (and {len(changed.worse) - 1} more)" if len(changed.worse) > 1 else ""
        return Conclusion(verdict="warning" if gate is None else "critical", reason=changed.worse[0] + more)
    compared = [one for one in figures if one.difference != "not compared" and one.is_better]
    lost = [one for one in figures if one.difference == "not compared" and one.values[0] is not None]
    if changed.open and gate is not None:
        return Conclusion(verdict="unknown", reason=changed.open[0])
    if not compared and not lost and changed.checks:
        return Conclusion(verdict="ok", reason=f"none of {changed.checks} checks is worse")
    if not compared:
        why = f": {lost[0].label}: {lost[0].reason}" if lost else ""
        return Conclusion(verdict="unknown", reason=f"nothing can be compared: no figure in common{why}")
    if gate is not None:
        return _by_gate(compared, lost, gate, sides)
    conclusion = _by_difference(compared, sides)
    missing = f"; {_count(lost)} not compared: {lost[0].label}: {lost[0].reason}" if lost else ""
    return Conclusion(verdict=conclusion.verdict, reason=conclusion.reason + missing)


def _by_gate(
    compared: Sequence[ComparedFigure], lost: Sequence[ComparedFigure], gate: float, sides: Sequence[str]
) -> Conclusion:
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
    if lost:
        return Conclusion(verdict="unknown", reason=f"{lost[0].label} was not compared: {lost[0].reason}{_more(lost)}")
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
