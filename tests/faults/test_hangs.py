"""Ranks that hang in thirty ways, all at once: the right one named, with its line of code; and runs that are slow."""

import json
import subprocess
import sys
from typing import Any

import pytest

from raybench.execution.incidents.investigation import _LOOK_SECONDS

from .hang_cases import CASES, Case

pytestmark = pytest.mark.cluster
_ALL_SECONDS = 240.0


@pytest.fixture(scope="module")
def said() -> dict[str, dict[str, Any]]:
    """What is said of every case."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.hang_ranks"],
        capture_output=True,
        text=True,
        timeout=_ALL_SECONDS,
        check=True,
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("case", [case for case in CASES if case.in_ci], ids=lambda case: case.name)
def test_a_hang_names_its_rank_and_what_that_does_and_a_slow_run_nobody(
    case: Case, said: dict[str, dict[str, Any]]
) -> None:
    findings, activity = said[case.name]["findings"], said[case.name]["activity"]
    ranks = tuple(sorted(rank for finding in findings for rank in finding["ranks"]))
    rules = {finding["rule"] for finding in findings}
    assert (rules, ranks) == ({case.rule} - {None}, case.ranks), activity
    quoted = " ".join(quote["text"] for finding in findings for quote in finding["evidence"])
    text = " ".join([finding["summary"] for finding in findings] + [quoted])
    assert [word for word in case.words if word not in text] == []
    assert all(f"rank {rank} " in activity for rank in range(case.world_size))


def test_a_look_at_the_ranks_takes_no_longer_than_it_may(said: dict[str, dict[str, Any]]) -> None:
    """The quickest of those that are made one by one, as a node looks at its own ranks: other work only adds to it."""
    seconds = [one["seconds_alone"] for one in said.values() if "seconds_alone" in one]
    print(f"{min(seconds):.1f} s, at most {max(seconds):.1f} s")
    assert len(seconds) == 3
    assert min(seconds) < _LOOK_SECONDS
