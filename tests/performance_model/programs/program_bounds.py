"""How many published step times are inside the bounds where the program is named, of sources that had no part in them.

    python -m tests.performance_model.programs.program_bounds [--halves]

Rows whose program is known are estimated twice as ``by_program`` asks them: with nothing said, and with ``--program``.
Bounds are those that a user is told, which hold for all that is open. Constants are fitted to all other families
(``leave_one_out``), and the factors of classes and of programs that have their own (``PROGRAMS_TIMED``) are calibrated
on all other sources; so that ``program`` beside ``as a class`` says what these are worth. With ``--halves`` the factors
are calibrated on half of the sources, drawn at random ten times, and those of the other half judged. Each source
counted once. A minute.
"""

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from raybench.performance_model.step.efficiency import Calibration
from raybench.performance_model.step.spreads import PROGRAMS_TIMED, SPREADS, Spread
from tests.performance_model.leave_one_out import families, fits_without, needs_of, told_bounds
from tests.performance_model.programs.by_program import programs, ways_of
from tests.performance_model.published_run import PublishedRun
from tests.performance_model.published_runs import all_runs
from tests.performance_model.spread_fit import Need, calibrated, calibrated_programs, need

KINDS = ("nothing said", "as a class", "program")
_SPLITS, _SEED = 10, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One row, with nothing said and with its program named; what the latter needs to be inside."""

    source: str
    timing: str
    bare: PublishedRun
    named: PublishedRun
    need: Need | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Whether one step time is inside, and how wide the bounds are."""

    source: str
    timing: str
    kind: str
    inside: bool
    width: float


def named_rows(runs: Iterable[PublishedRun], fits: Mapping[str, Calibration]) -> list[Named]:
    """The rows with a step time whose program is known and has such a training."""
    of, found = programs(), []
    for run in runs:
        program = of.get(run.source)
        ways = ways_of(run, program) if program and run.tokens_per_second else None
        if ways is None:
            continue
        bare, named = (replace(run, request=ways[way]) for way in ("nothing said", "program"))
        asked = ways["program"].program
        timing = asked.timing if asked is not None else ""
        needed = need(named, fits[run.source])
        found.append(Named(source=run.source, timing=timing or str(program), bare=bare, named=named, need=needed))
    return found


def spreads_of(needs: Sequence[Need], rows: Iterable[Named]) -> dict[str, Spread]:
    """The factors of all classes and programs, of those rows alone."""
    own = [row.need for row in rows if row.need is not None]
    return calibrated(needs) | calibrated_programs(own, needs)


def judged(row: Named, fit: Calibration, spreads: Mapping[str, Spread]) -> list[Judged]:
    """In each kind; ``as a class``: as if its program had no factors of its own."""
    request = row.named.request
    no_timing = None if request.program is None else replace(request.program, timing="")
    asked = {
        "nothing said": row.bare,
        "as a class": replace(row.named, request=replace(request, program=no_timing)),
        "program": row.named,
    }
    found = []
    for kind, run in asked.items():
        told, seconds = told_bounds(run.request, fit, spreads), run.step_seconds
        if told is not None and seconds is not None:
            inside, width = told[0] <= seconds <= told[1], told[1] / told[0]
            found.append(Judged(source=row.source, timing=row.timing, kind=kind, inside=inside, width=width))
    return found


def by_sources(rows: Sequence[Named], needs: Sequence[Need], fits: Mapping[str, Calibration]) -> list[Judged]:
    """Each source judged by factors of all the others."""
    found = []
    for source in sorted({row.source for row in rows}):
        spreads = spreads_of([one for one in needs if one.source != source], (r for r in rows if r.source != source))
        found += [one for row in rows if row.source == source for one in judged(row, fits[source], spreads)]
    return found


def by_halves(rows: Sequence[Named], needs: Sequence[Need], fits: Mapping[str, Calibration]) -> list[Judged]:
    """Each source judged by factors of random halves that it is not in."""
    sources, draw, found = sorted({one.source for one in needs}), random.Random(_SEED), []
    for _ in range(_SPLITS):
        half = set(draw.sample(sources, len(sources) // 2))
        for chosen in (half, set(sources) - half):
            spreads = spreads_of(
                [one for one in needs if one.source in chosen], (r for r in rows if r.source in chosen)
            )
            found += [one for row in rows if row.source not in chosen for one in judged(row, fits[row.source], spreads)]
    return found


def table(found: Sequence[Judged]) -> str:
    """A line for each program with sources enough and each kind, and for all."""
    groups: dict[str, Callable[[Judged], bool]] = {"all": lambda _: True}
    for name in sorted({one.timing for one in found}):
        if len({one.source for one in found if one.timing == name}) > 2:
            groups[name] = lambda one, name=name: one.timing == name
    lines = [f"{'program':20}{'said':14}{'sources':>8}{'inside':>8}{'width':>7}{'mean':>7}"]
    for group, is_of in groups.items():
        for kind in KINDS:
            own: dict[str, list[Judged]] = defaultdict(list)
            for one in found:
                if is_of(one) and one.kind == kind:
                    own[one.source].append(one)
            widths = [median(one.width for one in rows) for rows in own.values()]
            inside = fmean(fmean(one.inside for one in rows) for rows in own.values())
            line = f"{group:20}{kind:14}{len(own):8}{inside:8.1%}{median(widths):7.2f}{fmean(widths):7.2f}"
            lines.append(line)
    return "\n".join(lines)


def rows_and_needs() -> tuple[list[Named], list[Need], dict[str, Calibration]]:
    """All of a run: rows whose program is known, what all others need, the constants of each source."""
    runs = [run for run in all_runs() if run.tokens_per_second]
    fits = fits_without(runs, families())
    return named_rows(runs, fits), needs_of(runs, fits), fits


def main() -> None:
    """Print the table, and the factors that all sources give."""
    rows, needs, fits = rows_and_needs()
    found = by_halves(rows, needs, fits) if "--halves" in sys.argv[1:] else by_sources(rows, needs, fits)
    spreads = spreads_of(needs, rows)
    told = ", ".join(f"{name} {spreads[name]} (now {SPREADS[name]})" for name in PROGRAMS_TIMED)
    sys.stdout.write(f"{table(found)}\n{told}\n")


if __name__ == "__main__":
    main()
