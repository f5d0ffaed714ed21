"""The campaign itself: a case whose cluster does not start is one that was not planted, and the others go on."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.benchmarks.process import LaunchError
from tests.benchmarks.ray_head import RayHead
from tests.faults import __main__ as campaign
from tests.faults import plant


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
