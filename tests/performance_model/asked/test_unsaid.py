"""Trainings of which nobody says what decides whether they fit: it is open, and the verdict says what to say."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command
from tests.performance_model.asked.judge import options_of
from tests.performance_model.published_run import FOLDER

ROWS = json.loads((FOLDER / "unsaid.json").read_text())


def _memory(row: dict[str, Any], *more: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*options_of(row), *more, "--json"])
    memory: dict[str, Any] = json.loads(result.stdout)["memory"]
    return memory


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_what_decides_and_is_not_said_is_open(row: dict[str, Any]) -> None:
    """All that ran were told not to fit, and the one that ran out of memory to fit."""
    memory = _memory(row)
    assert memory["fits"] is None
    assert (memory["recomputed_peak"] is None) is not row["fits"]
    assert bool(memory["other_device_bytes"]) is not row["fits"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["fits"]], ids=lambda row: row["id"])
def test_once_said_it_is_open_no_longer(row: dict[str, Any]) -> None:
    assert _memory(row, "--no-activation-checkpointing")["fits"] is False
    assert _memory(row, "--activation-checkpointing")["fits"] is not False


def test_once_said_the_size_of_a_gpu_decides() -> None:
    row = next(row for row in ROWS if not row["fits"])
    assert [bool(_memory(row, "--memory", size)["fits"]) for size in ("40G", "80G")] == [False, True]
