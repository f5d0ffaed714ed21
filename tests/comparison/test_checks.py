"""How far checks were answered, of one run or of several, beside the runs themselves and beside a baseline of them."""

import json
from dataclasses import replace

import pytest

from raybench.comparison.baseline_side import baseline_of_runs, baseline_side
from raybench.comparison.comparing import compare
from raybench.comparison.joined import joined_side
from raybench.comparison.side import Side
from raybench.documents.comparison.baseline import RunsBaseline
from tests.comparison.recorded import FULL, side
from tests.comparison.test_changed import OK, Words, said


@pytest.mark.parametrize(
    ("before", "after", "said_of_it"),
    [
        (
            {"pairs": "open", "ranks": "judged"},
            {"pairs": "open", "ranks": "suspect"},
            "with a suspect, in B, and was judg",
        ),
        ({"ranks": "open"}, {"ranks": "suspect"}, "ranks is undecided, with a suspect, in B, and was undecided in A"),
        ({"ranks": "not judged"}, {"ranks": "suspect"}, "with a suspect, in B, and was not judged in A"),
        ({"ranks": "open"}, {"pairs": "open"}, "check pairs is undecided in B, and was not there in A"),
        ({"ranks": "judged", "tcp": "open"}, {"ranks": "open", "tcp": "open"}, "ranks is undecided in B"),
        ({"pairs": "suspect"}, {"pairs": "suspect"}, ""),  # as it was
        ({"pairs": "open", "ranks": "suspect"}, {"pairs": "open", "ranks": "suspect"}, ""),
        ({"pairs": "suspect"}, {"pairs": "open"}, ""),  # nobody is suspected any more
        ({"pairs": "not judged", "tcp": "open"}, {"pairs": "open", "tcp": "open"}, ""),  # not answered before either
        ({"ranks": "open"}, {"ranks": "judged"}, ""),
    ],
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_what_is_open_since_is_told_where_both_verdicts_are_unknown(
    before: Words, after: Words, said_of_it: str, is_kept: bool
) -> None:
    sides = [
        replace(
            said(name, OK | {"verdict": "unknown"}, runs=runs),
            checks={check: frozenset([word]) for check, word in checks.items()},
            run_ids=("1", "2", "3"),
        )
        for name, runs, checks in zip("AB", (slice(4), slice(4, 8)), (before, after), strict=True)
    ]
    if is_kept:  # as a baseline
        sides[0] = baseline_side("A", kept_of(sides[0]))
    found = compare(sides, gate=0.05)
    assert (found.exit_code, said_of_it in found.verdict_reason) == (3 if said_of_it else 0, True), found.verdict_reason
    assert compare(sides).exit_code == found.exit_code


def kept_of(side: Side) -> RunsBaseline:
    """The side as a baseline that was written and read."""
    whole = replace(side, figures={key: replace(one, results=len(side.run_ids)) for key, one in side.figures.items()})
    return RunsBaseline.of_json(json.loads(json.dumps(baseline_of_runs(whole).to_json())), "it")


@pytest.mark.parametrize(
    ("before", "after", "exit_code"),
    [
        (["judged"] * 3, ["judged", "", "judged"], 3),  # one of its runs has no such check
        (["judged", "", "judged"], ["judged", "", "judged"], 0),
        (["judged", "", "judged"], ["judged"] * 3, 0),
        (["judged", "not judged", "judged"], ["not judged"] * 3, 3),
        (["judged", "not judged", "judged"], ["judged"] * 3, 0),
        (["not judged", "", "not judged"], ["not judged"] * 3, 0),
        (["suspect", "judged", "judged"], ["judged", "judged", "suspect"], 0),
        ([""] * 3, [""] * 3, 0),
    ],
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_check_that_some_runs_lack_is_judged_in_part(
    before: list[str], after: list[str], exit_code: int, is_kept: bool
) -> None:
    sides = []
    for name, words, first in (("A", before, 0), ("B", after, 3)):
        runs = [
            replace(
                said(f"{name}{at}", OK | {"verdict": "unknown" if word == "suspect" else "ok"}),
                figures=side(FULL[first + at]).figures,
                run_ids=(f"{name}{at}",),
                checks={"data": frozenset(["judged"])} | ({"ranks": frozenset([word])} if word else {}),
            )
            for at, word in enumerate(words)
        ]
        sides.append(joined_side(name, runs))
    if is_kept:
        kept = kept_of(sides[0])
        assert ("ranks" in kept.judged) == (set(before) == {"judged"})
        sides[0] = baseline_side("A", kept)
    found = compare(sides, gate=0.05)
    assert (found.exit_code, "check ranks" in found.verdict_reason) == (exit_code, exit_code == 3), found.verdict_reason


@pytest.mark.parametrize(
    ("before", "after", "verdict", "exit_code"),
    [
        ({"judged"}, set(), "ok", 0),  # it was held against none
        ({"judged"}, {"judged", "not judged"}, "ok", 0),  # some of its runs were
        ({"judged"}, {"open"}, "unknown", 3),  # it was, and nothing came of it
        ({"judged"}, {"judged"}, "critical", 1),
        (set(), {"judged"}, "ok", 0),
    ],
)
def test_a_run_without_a_baseline_measured_the_same(
    before: set[str], after: set[str], verdict: str, exit_code: int
) -> None:
    sides = [
        replace(
            said(name, OK | {"verdict": word}, runs=runs),
            checks={"data": frozenset(["judged"])} | ({"baseline": frozenset(words)} if words else {}),
        )
        for name, runs, words, word in zip("AB", (slice(4), slice(4, 8)), (before, after), ("ok", verdict), strict=True)
    ]
    assert compare(sides, gate=0.05).exit_code == compare(sides).exit_code == exit_code
