"""Node actors that wait for the next run are found by it only where they run the same code."""

import os
from pathlib import Path

import pytest

from raybench import version
from raybench.execution.node_actors.warm_groups import warm_name
from raybench.execution.placement import PlacementPlan

PLAN = PlacementPlan(nodes=(), ranks_per_node=1, backend="gloo")


@pytest.mark.parametrize("changed", ["benchmarks/timing.py", "execution/node_actors/node_actor.py", "stats.py"])
def test_node_actors_of_older_code_have_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    for name in ("__init__.py", "stats.py", "benchmarks/timing.py", "execution/node_actors/node_actor.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1000, 1000))
    monkeypatch.setattr(version, "__file__", str(tmp_path / "__init__.py"))
    before = warm_name(PLAN)
    assert warm_name(PLAN) == before
    os.utime(tmp_path / changed, (2000, 2000))
    assert warm_name(PLAN) != before
