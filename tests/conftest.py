"""Fixtures of the whole suite."""

import os
from pathlib import Path

import pytest

from .lab.fixtures import lab, ray_lab

__all__ = ["lab", "ray_lab"]

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _own_code_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that tests start run this working tree, whatever else is installed."""
    path = os.environ.get("PYTHONPATH", "")
    if str(REPOSITORY) not in path.split(os.pathsep):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(REPOSITORY), path])))
