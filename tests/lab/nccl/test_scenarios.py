"""One release of NCCL over the emulated GPU: each fault, and what ``raybench diagnose`` says of its log.

The whole matrix, every release and the scenarios that wait for limits of NCCL's own, is ``make nccl-matrix``.
"""

from pathlib import Path

import pytest

from .fixtures import Logs, logs
from .judge import diagnose, differences, shows_fault
from .scenario import Scenario
from .scenarios import SCENARIOS

__all__ = ["logs"]
pytestmark = pytest.mark.lab
QUICK = [scenario for scenario in SCENARIOS if scenario.is_of_every_day]


@pytest.mark.parametrize("scenario", QUICK, ids=lambda scenario: scenario.name)
def test_what_is_said_of_a_fault(scenario: Scenario, logs: Logs, tmp_path: Path) -> None:
    if not scenario.since <= logs.release.number <= scenario.until:
        pytest.skip(f"NCCL {logs.release.tag} is not one of its releases")
    log = tmp_path / "job.log"
    log.write_text(logs.outcome(scenario).log)
    assert shows_fault(scenario, log.read_text()), log.read_text()
    assert not differences(scenario.verdict, diagnose(log)), log.read_text()
