"""What a history comes to: the newest runs' own state, then each figure by its levels, then what is missing. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from raybench.comparison.judging import direction_of
from raybench.comparison.over_time.answers import Answers, is_newly_unknown, newly_unverified
from raybench.comparison.side import Side, label_of
from raybench.comparison.trend import LEAST_RUNS
from raybench.comparison.words import FAILED
from raybench.documents.comparison.history import ChangePoint, HistoryRun, HistorySeries, OmittedRun
from raybench.verdicts import Conclusion, Verdict

Table = Mapping[str, str]
_WHOLE = ("ok", "warning", "unknown", "pass", "warn", "complete")  # all that was asked for was measured
_ORDER: tuple[Verdict, ...] = ("ok", "warning", "unknown", "incomplete", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run: its place among the runs of its folder, and its tables. ``sort``: its kind, and what it was to measure.

    ``began``: seconds since 1970.
    """

    run: HistoryRun
    began: float
    machine: Table
    configuration: Table
    environment: Table
    sort: tuple[str, str]
    answers: Answers

    @property
    def state(self) -> str:
        """The worse of its verdict and its status."""
        return self.answers.state

    def as_side(self) -> Side:
        """Its tables alone."""
        return Side(
            name=self.run.path,
            kind="run",
            machine=self.machine,
            configuration=self.configuration,
            environment=self.environment,
        )


def judged_history(
    series: Sequence[HistorySeries], runs: Sequence[PastRun], omitted: Sequence[OmittedRun], copies: int = 0
) -> Conclusion:
    """The worst of what is told: how the newest runs ended, levels, figures that ended, runs that cannot be read.

    ``copies``: how many runs are others once more.
    """
    told = [
        *_states(runs),
        *_no_longer_known(runs),
        *_no_longer_verified(runs),
        *_worse(series, runs),
        *_too_few(series, runs),
        *_ended(series, runs),
        *_unread(omitted),
    ]
    told += [*_level(series, runs, is_worse=any(one.verdict == "warning" for one in told)), *_began(series, runs)]
    verdict = max((one.verdict for one in told), key=_ORDER.index)
    twice = [f"{copies} run{'s are copies' if copies > 1 else ' is a copy'} of others, each of which counts once"]
    return Conclusion(verdict=verdict, reason="; ".join([*(one.reason for one in told), *(twice if copies else [])]))


def missing_since(places: Sequence[int], runs: Sequence[PastRun]) -> int | None:
    """The first of the newest runs, all of which lack a figure that runs of their sort had. None where it goes on.

    ``places`` of the runs that have it: it is missed after as many runs as ever were between two of them.
    """
    sorts = {runs[place].sort for place in places}
    same = [number for number, one in enumerate(runs) if one.sort in sorts]
    had = [same.index(place) for place in places]
    if len(had) < LEAST_RUNS or len(same) - 1 - had[-1] < max(after - before for before, after in pairwise(had)):
        return None
    return same[had[-1] + 1]


def _states(runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """How the newest runs of each sort ended: too few to be a level of their own, one of them counts."""
    sorts = _by_sort(runs)
    for sort, some in sorts.items():
        bad = [one for one in some if one.state not in _WHOLE]
        in_a_row = len([*takewhile(lambda one: one.state not in _WHOLE, reversed(some))])
        near = [one for one in some[-max(LEAST_RUNS, in_a_row) :] if one.state not in _WHOLE]
        whose = f" of {sort[1] or sort[0]}" if len(sorts) > 1 else ""
        if not near or not (len(some) >= LEAST_RUNS or any(one is some[-1] for one in runs[-LEAST_RUNS:])):
            if bad:
                yield Conclusion(
                    verdict="ok",
                    reason=f"{len(bad)} of {len(some)} runs{whose} ended as {_words(bad)}, none of the newest",
                )
            continue
        which = f"the newest {in_a_row}" if in_a_row == len(near) else f"{len(near)} of the newest {LEAST_RUNS}"
        more = f" (and {len(bad) - len(near)} before)" if len(bad) > len(near) else ""
        is_failed = any(one.state in FAILED for one in near)
        yield Conclusion(
            verdict="critical" if is_failed else "incomplete",
            reason=f"{which} of {len(some)} runs{whose} ended as {_words(near)}, since {_named(near[0])}{more}",
        )


def _by_sort(runs: Sequence[PastRun]) -> Mapping[tuple[str, str], Sequence[PastRun]]:
    sorts: dict[tuple[str, str], list[PastRun]] = {}
    for one in runs:
        sorts.setdefault(one.sort, []).append(one)
    return sorts


def _no_longer_known(runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """Newest runs whose verdict is unknown, where one before was judged, or was unknown for another cause.

    Where all runs ever were unknown for the same cause, as of one machine, the newest say no less than they did.
    """
    for some in _by_sort(runs).values():
        if new := [one for one, before in _newest(some) if is_newly_unknown(one.answers, before)]:
            why = ", ".join(dict.fromkeys(word for one in new for word in one.answers.words))
            yield Conclusion(
                verdict="unknown",
                reason=f"{len(new)} of the newest {min(LEAST_RUNS, len(some))} of {len(some)} runs ended as unknown, "
                f"since {_named(new[0])}, as runs before did not{f': {why}' if why else ''}",
            )


def _no_longer_verified(runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """Figures of the newest runs whose data was not checked, where that of a run before was."""
    for some in _by_sort(runs).values():
        found = [(key, one) for one, before in _newest(some) for key in newly_unverified(one.answers, before)]
        if found:
            (key, one), more = found[0], _more(len({key for key, _ in found}))
            reason = (
                f"whether the data of {label_of(key)} is right was not checked since {_named(one)}, as it was before"
            )
            yield Conclusion(verdict="unknown", reason=reason + more)


def _newest(some: Sequence[PastRun]) -> Iterator[tuple[PastRun, Sequence[Answers]]]:
    """The newest runs of a sort, which are too few for a level, each with the answers of all before it."""
    for number in range(max(len(some) - LEAST_RUNS, 0), len(some)):
        yield some[number], [one.answers for one in some[:number]]


def _words(some: Sequence[PastRun]) -> str:
    return " or ".join(dict.fromkeys(one.state for one in some))


def _worse(series: Sequence[HistorySeries], runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """Figures whose newest level is worse than the best before it, or than the one before it."""
    found = []
    for one in series:
        if one.since_best:
            found.append((one, one.since_best))
        elif one.changes and one.changes[-1].is_worse:
            found.append((one, one.changes[-1]))
    if found:
        one, change = max(found, key=lambda pair: (pair[1].run, abs(math.log(pair[1].ratio))))
        better = one.changes[-1]
        after = (
            f", though {changed_text(better)} than just before since {_named(runs[better.run])}"
            if not better.is_worse
            else ""
        )
        reason = f"{one.label} {changed_text(change)} since {_named(runs[change.run])}{after}{_more(len(found))}"
        yield Conclusion(verdict="warning", reason=reason)


def _too_few(series: Sequence[HistorySeries], runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """Figures whose last run or two look worse, which may be those runs by themselves."""
    found = [(one, one.newest) for one in series if one.newest]
    if found:
        one, change = max(found, key=lambda pair: abs(math.log(pair[1].ratio)))
        count = len([run for run in one.runs if run >= change.run])
        which = f"the last {count} runs look" if count > 1 else "the last run looks"
        reason = (
            f"{one.label}: {which} {changed_text(change)} since {_named(runs[change.run])}{_more(len(found))}, "
            f"too few to judge: a level takes {LEAST_RUNS}"
        )
        yield Conclusion(verdict="unknown", reason=reason)


def _ended(series: Sequence[HistorySeries], runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """Figures that the newest runs lack, and with what they go on, if they do."""
    found = [(one, one.missing_since) for one in series if one.missing_since is not None]
    if found:
        one, since = max(found, key=lambda pair: (_successor(pair[0], series) is not None, len(pair[0].values)))
        after = _successor(one, series)
        goes_on = f": it goes on {_otherwise(one, after)}, which is not compared" if after else ""
        text = f"{one.label} ends before {_named(runs[since])}{goes_on}{_more(len(found))}"
        yield Conclusion(verdict="unknown", reason=text)


def _successor(ended: HistorySeries, series: Sequence[HistorySeries]) -> HistorySeries | None:
    """The same point of the same benchmark in newer runs, on another machine or with other parameters."""
    name = (ended.benchmark, ended.point, ended.quantity)
    later = [
        one for one in series if (one.benchmark, one.point, one.quantity) == name and one.runs[-1] > ended.runs[-1]
    ]
    return max(later, key=lambda one: one.runs[-1], default=None)


def _otherwise(before: HistorySeries, after: HistorySeries) -> str:
    """``with nodes 1 for nodes 2, 1.98x slower in its newest runs``."""
    own = [part for part in after.machine.split(", ") if part not in before.machine.split(", ")]
    lost = [part for part in before.machine.split(", ") if part not in after.machine.split(", ")]
    where = (
        f"with {', '.join(own) or 'less'} for {', '.join(lost) or 'nothing'}"
        if own or lost
        else "with other parameters"
    )
    levels = [
        math.exp(math.fsum(map(math.log, one.values[-LEAST_RUNS:])) / len(one.values[-LEAST_RUNS:]))
        for one in (before, after)
    ]
    ratio = levels[1] / levels[0]
    factor = max(ratio, 1 / ratio)
    return f"{where}, there {factor:.2f}x {direction_of(after.unit, is_more=ratio > 1)}"


def _unread(omitted: Sequence[OmittedRun]) -> Iterator[Conclusion]:
    if omitted:
        plural = "s" * (len(omitted) > 1)
        last = omitted[-1]
        reason = f"{len(omitted)} run{plural} left out: {last.path}: {last.reason}" + (
            " (the last by name)" if plural else ""
        )
        yield Conclusion(verdict="incomplete", reason=reason)


def _level(series: Sequence[HistorySeries], runs: Sequence[PastRun], *, is_worse: bool) -> Iterator[Conclusion]:
    """What is left to say: that figures are better than before, or have not changed; or that there are too few runs."""
    judged = [one for one in series if one.is_judged]
    if not judged:
        most = max((len(one.values) for one in series), default=0)
        reason = f"{most} runs of one figure at most: a change shows from {2 * LEAST_RUNS} on"
        yield Conclusion(verdict="unknown", reason=reason)
        return
    better = [
        (one, one.changes[-1]) for one in judged if one.changes and not one.since_best and not one.changes[-1].is_worse
    ]
    if is_worse:
        return
    if better:
        one, change = max(better, key=lambda pair: (pair[1].run, abs(math.log(pair[1].ratio))))
        reason = f"{one.label} {changed_text(change)} since {_named(runs[change.run])}{_more(len(better))}"
        yield Conclusion(verdict="ok", reason=reason)
        return
    same = [one for one in judged if not one.newest]
    if same:
        most, plural = max(len(one.values) for one in same), "s" * (len(same) != 1)
        yield Conclusion(verdict="ok", reason=f"no change in {len(same)} figure{plural} over {most} runs")


def _began(series: Sequence[HistorySeries], runs: Sequence[PastRun]) -> Iterator[Conclusion]:
    """Figures of too few runs, beside others that have enough."""
    few = [one for one in series if one.is_better and not one.is_judged and one.missing_since is None]
    if few and any(one.is_judged for one in series):
        one = max(few, key=lambda one: one.runs[-1])
        count = f"{len(one.values)} of {2 * LEAST_RUNS} runs that a change takes"
        reason = f"{one.label} began with {_named(runs[one.runs[0]])}: {count}{_more(len(few))}"
        yield Conclusion(verdict="ok", reason=reason)


def _named(one: PastRun) -> str:
    return f"{one.run.started_at}, run {one.run.run_id}"


def _more(count: int) -> str:
    return f" (and {count - 1} more figure{'s' * (count > 2)})" if count > 1 else ""


def changed_text(change: ChangePoint) -> str:
    """``1.08x slower``, turned so that the factor is above 1."""
    factor = max(change.ratio, 1 / change.ratio)
    return f"{factor:.3f}x {change.direction}" if factor < 1.1 else f"{factor:.2f}x {change.direction}"
