"""What a run of a history answered, and what of it is open that was not so in the runs before. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.comparison.side import JUDGED, NOT_JUDGED, OPEN, SUSPECT, FigureKey, Side
from raybench.comparison.words import is_known

_NOTHING = ("", NOT_JUDGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """``state``: the worse of a run's verdict and its status. ``open``: its checks that leave its verdict so.

    ``verified``: of its figures whether anyone looked if their data is right.
    """

    state: str
    open: frozenset[tuple[str, str]] = frozenset()
    verified: frozenset[tuple[FigureKey, bool]] = frozenset()

    @property
    def cause(self) -> frozenset[tuple[str, str]]:
        """Why its verdict is unknown: the checks that leave it open, or else that nothing was judged."""
        return self.open or frozenset([_NOTHING])

    @property
    def words(self) -> Sequence[str]:
        """The checks that leave its verdict open, in words."""
        return [
            f"check {name} names a suspect" if how == SUSPECT else f"check {name} is open"
            for name, how in sorted(self.open)
        ]


def answers_of(side: Side, state: str) -> Answers:
    """From the side of one run."""
    return Answers(
        state=state,
        open=frozenset(
            (name, SUSPECT if SUSPECT in words else OPEN)
            for name, words in side.checks.items()
            if words - {JUDGED, NOT_JUDGED}
        ),
        verified=frozenset((key, figure.verified is not None) for key, figure in side.figures.items()),
    )


def is_newly_unknown(one: Answers, before: Sequence[Answers]) -> bool:
    """Whether a verdict is unknown where one before was known, or where all were unknown for other causes."""
    if one.state != "unknown" or not before:
        return False
    different = set(before)
    causes = {cause for other in different if other.state == "unknown" for cause in other.cause}
    return any(is_known(other.state) and other.state != "incomplete" for other in different) or (
        bool(causes) and not one.cause <= causes
    )


def newly_unverified(one: Answers, before: Sequence[Answers]) -> Sequence[FigureKey]:
    """Figures whose data nobody checked, and did before; one of other parameters than any before is like another."""
    unverified = sorted(key for key, is_verified in one.verified if not is_verified)
    if not unverified:
        return ()
    known = {each for other in set(before) for each in other.verified}
    seen, verified = {key for key, _ in known}, {key for key, is_verified in known if is_verified}
    alike = {_without_parameters(key) for key in verified}
    return [key for key in unverified if key in verified or (key not in seen and _without_parameters(key) in alike)]


def _without_parameters(key: FigureKey) -> tuple[str, str, str]:
    return (key.benchmark, key.point, key.quantity)
