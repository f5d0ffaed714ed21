"""The campaign itself: what counts as planted, and which exit codes it takes for right."""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults import __main__ as campaign
from tests.faults import plant
from tests.faults.judge import complaints
from tests.faults.plan import Fault
from tests.measurements.process import LaunchError
from tests.measurements.ray_head import RayHead


@contextmanager
def no_head(**_: object) -> Iterator[RayHead]:
    raise LaunchError("ray start did not come up: no room")
    yield


def test_a_cluster_that_does_not_start_is_counted_as_not_planted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plant, "ray_head", no_head)
    monkeypatch.setattr(sys, "argv", ["faults", "--count", "2", "--workloads", "joined"])
    assert campaign.main() == 1  # nothing was planted at all
    said = capsys.readouterr().out
    assert said.count("not planted: ray start did not come up: no room") == 2
    assert "0 planted" in said


STEPS = 1000  # of each trial of the campaign's study
Documents = list[dict[str, Any]]


def study_and_trials() -> Documents:
    """What a study of two trials leaves that measured all it was asked for."""
    runs = ("20261122-204705-ec40", "20261122-204718-25dc")
    point = {"samples_seconds": [0.01] * STEPS, "verified": True}
    trials = [{"variant": name, "status": "complete", "run": run} for name, run in zip("ab", runs, strict=True)]
    study = {"status": "complete", "order": [["a", "b"]], "trials": trials, "findings": []}
    results = [{"run_id": run, "status": "complete", "benchmarks": [{"points": [dict(point)]}]} for run in runs]
    return [study, *results]


def exits_wrongly(documents: Documents, status: int = 0, **planted: str) -> bool:
    what = {"workload": "study", "phase": "placing", "target": "gcs", "action": "SIGSTOP"} | planted
    fault = Fault(number=31, delay_seconds=0.1, **what)
    ending = plant.Ending(
        planted=True, seconds=9.0, status=status, text="", documents=tuple(documents), left_processes=(), left_files=(),
        samples_kept=True, report=True,
    )  # fmt: skip
    return any(one.startswith("EXIT") for one in complaints(fault, ending))


def test_a_daemon_that_stops_after_it_placed_the_ranks_may_do_no_harm() -> None:
    assert not exits_wrongly(study_and_trials(), status=0)
    assert not exits_wrongly(study_and_trials(), status=0, target="raylet 1", phase="joining")
    assert not exits_wrongly(study_and_trials(), status=3)


def _cut(documents: Documents) -> None:
    documents[1]["benchmarks"][0]["points"][0]["samples_seconds"].pop()


def _unverified(documents: Documents) -> None:
    documents[2]["benchmarks"][0]["points"][0]["verified"] = None


def _foreign(documents: Documents) -> None:
    documents[2]["run_id"] = documents[1]["run_id"]


UNPROVED: list[Callable[[Documents], object]] = [
    _cut,
    _unverified,
    _foreign,
    lambda documents: documents.pop(),  # a trial without a result
    lambda documents: documents.pop(0),  # no study
    lambda documents: documents[0].update(status="partial"),
    lambda documents: documents[0]["order"][0].append("c"),  # a trial that was never begun
    lambda documents: documents[1].update(status="partial"),
    lambda documents: documents[1].update(benchmarks=[]),
    lambda documents: documents.append({"torn": "result.json"}),
    lambda documents: documents.clear(),
]


@pytest.mark.parametrize("change", UNPROVED)
def test_a_zero_that_nothing_proves_is_a_wrong_exit_code(change: Callable[[Documents], object]) -> None:
    documents = copy.deepcopy(study_and_trials())
    change(documents)
    assert exits_wrongly(documents, status=0)


@pytest.mark.parametrize(
    "planted",
    [
        {"phase": "cluster"},  # nobody places ranks without a GCS
        {"action": "SIGKILL"},
        {"target": "rank 0"},
        {"target": "node_actor 1"},
        {"target": "rank_host"},
        {"target": "driver"},
    ],
)
def test_what_ranks_need_does_harm_whatever_a_result_says(planted: dict[str, str]) -> None:
    assert exits_wrongly(study_and_trials(), status=0, **planted)
