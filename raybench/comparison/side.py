"""What is compared, whatever document it comes from: the machine, the configuration, the environment, and figures."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from raybench.documents.run.same_loss import Curve
from raybench.weighing import Repeats, combined, level_of, repeats_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What the node lost that lost most: ``stolen`` of its processors; ``waiting`` of the time. None is unknown."""

    stolen: float | None = None
    stolen_where: str = ""
    waiting: float | None = None
    waiting_where: str = ""


Better = Literal["lower", "higher", ""]
Launch = tuple[tuple[float, ...], ...]  # blocks of samples
# Neighbouring samples are alike, so those without blocks of their own are cut into as many as a result has by default.
BLOCKS = 5
OF_THE_WHOLE = ("verdict", "status")  # ranks under torchrun have a status alone
WRONG_DATA, TWICE = "wrong data", "it is there twice"  # problems of a figure
SAME_LIMIT = 1.02  # what is free of a device's memory differs by some hundred MB from run to run
# How far a check was answered: OPEN leaves the verdict open, and SUSPECT whether a node is at fault.
JUDGED, NOT_JUDGED, OPEN, SUSPECT = "judged", "not judged", "open", "suspect"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FigureKey:
    """What makes two figures the same: ``benchmark`` with its parameters, the point, and what of it was measured."""

    benchmark: str
    parameters: str = ""
    point: str
    quantity: str = "time"


@dataclass(frozen=True, kw_only=True)
class SideFigure:
    """One figure of one side. ``runs[run][launch][block]`` are its samples, in ``unit``, all above 0.

    ``is_better``: "lower" or "higher"; "" where more is neither good nor bad. ``is_mean``: its level is the mean of the
    samples, as of a training step whose stalls count, and not their median. ``allowed``: by which share two launches of
    the same thing may differ, where that cannot be seen in the samples, which is so with one launch on either side.
    ``stolen``: of each run the share of its processors that other virtual machines had meanwhile, None where unknown;
    ``lost[run][launch][node]``: of which nodes, in the order of their ranks; a run of which that is not known has none.
    ``problem``: why it cannot be compared.
    """

    unit: str
    runs: tuple[tuple[Launch, ...], ...]
    is_better: Better = "lower"
    is_mean: bool = False
    allowed: float = 0.0
    stolen: tuple[float | None, ...] = ()
    lost: tuple[tuple[tuple[float, ...], ...], ...] = ()
    verified: bool | None = None  # that its data is right; None where it was not checked
    limits: tuple[int, ...] = ()  # bytes of memory that each of its runs had to fill
    is_capped: bool = False  # it ended where it was told to in all of them, with memory left
    results: int = 1  # of how many results it is
    again: bool = False  # launched again since its launches lay apart, until they lay together
    order: float = 0.0  # of the point within its benchmark
    problem: str = ""

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Of all runs."""
        return tuple(launch for run in self.runs for launch in run)

    @cached_property
    def by_launch(self) -> Repeats:
        """Every launch."""
        return self.repeats_of(self.launches)

    @cached_property
    def by_run(self) -> Repeats:
        """Every run, by its launches: one that was held up counts for less."""
        found = [combined(self.repeats_of(run)) for run in self.runs if run]
        return Repeats(levels=tuple(level for level, _ in found), errors=tuple(error for _, error in found))

    @cached_property
    def run_levels(self) -> tuple[float, ...]:
        """The logarithm of each run's level."""
        return self.by_run.levels

    @cached_property
    def block_levels(self) -> tuple[float, ...]:
        """Of each block of the only launch."""
        return tuple(level_of(block, is_mean=self.is_mean) for block in self.launches[0] if block)

    def unlike(self, other: "SideFigure") -> str:
        """Why the levels of two figures of one key cannot be held against each other, or taken together."""
        if self.unit != other.unit:
            return f"in {self.unit} and in {other.unit}"
        if self.is_mean != other.is_mean:
            return "means of samples, and medians"
        ways = [one.is_better or "neither" for one in (self, other)]
        return "" if ways[0] == ways[1] else f"{ways[0]} is better in one result, {ways[1]} in another"

    def is_within_other_limits(self, other: "SideFigure") -> bool:
        """Whether their runs had more or less memory to fill than each other, by more than what comes and goes."""
        limits = (*self.limits, *other.limits)
        return not (self.is_capped and other.is_capped) and bool(limits) and max(limits) > SAME_LIMIT * min(limits)

    @property
    def stolen_share(self) -> float | None:
        """The mean over its runs; None where it is not known of all."""
        known = [one for one in self.stolen if one is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(self.runs) else None

    @property
    def value(self) -> float:
        """Its level: the geometric mean over its runs."""
        return math.exp(math.fsum(self.run_levels) / len(self.run_levels))

    def repeats_of(self, launches: Sequence[Launch]) -> Repeats:
        """The level and the error of each of some launches."""
        return repeats_of(launches, is_mean=self.is_mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the results: one document, or several of the same, which are its runs.

    ``kind`` is what they are (``run``, ``study``). ``machine``: what has to be alike; ``names``: what the nodes are
    called, which need not. ``outcomes``: verdicts and checks by what they are of, a word each; ``troubles``: what is
    named only where it went wrong, as findings are. ``losses``: by the label of a training, those of the steps of its
    first run, none of a study, which keeps their ends; ``curves``: of every run, the ends of those that can be held
    against others'. ``gaps``: figures that some of its runs lack. ``checks``: of runs, by name, how far they were
    answered. ``disturbance``: what else had its processors.
    """

    name: str
    kind: str
    run_ids: tuple[str, ...] = ()
    started_at: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, str] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[FigureKey, SideFigure] = field(default_factory=dict)
    losses: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    curves: Mapping[str, tuple[Curve, ...]] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    disturbance: Disturbance = Disturbance()
    remarks: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """What the result says of itself, in the word of its kind; "unknown" of one that says nothing."""
        return next((word for name, word in self.outcomes.items() if name in OF_THE_WHOLE), "unknown")


def each_once(found: Iterable[tuple[FigureKey, SideFigure]]) -> dict[FigureKey, SideFigure]:
    """Figures by their keys. One that is there twice is none: nobody knows which of them it is."""
    figures: dict[FigureKey, SideFigure] = {}
    for key, figure in found:
        figures[key] = replace(figures[key], problem=TWICE) if key in figures else figure
    return figures


def label_of(key: FigureKey) -> str:
    """``all_reduce float32 sum, 16M``, and what of it was measured where that is not its time."""
    return f"{key.benchmark}, {key.point}" + ("" if key.quantity == "time" else f", {key.quantity}")


def blocks_of(samples: "tuple[float, ...] | list[float]") -> Launch:
    """Samples in the order of measuring as blocks of neighbours, of which there are five where there are so many."""
    length = max(len(samples) // BLOCKS, 1)
    starts = range(0, len(samples), length)
    return tuple(tuple(samples[start : start + length]) for start in starts)
