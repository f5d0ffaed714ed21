"""Every alarm of the table is told, its near miss is silent."""

from pathlib import Path

import pytest

from .alarm_cases import FOLDER, NVIDIA, AlarmCase, host_of, recorded_alarm, result, seen, value
from .alarm_table import ALARM_CASES, document, wrong


@pytest.mark.parametrize("case", ALARM_CASES, ids=lambda case: case.name)
def test_an_alarm_is_told_and_its_near_miss_is_silent(case: AlarmCase) -> None:
    assert wrong(case) == ""
    fired, _ = seen(case)
    assert fired.expected
    assert fired.basis
    assert fired.advice


def test_alarms_are_many_and_each_has_its_source() -> None:
    assert len(ALARM_CASES) >= 60
    assert len({case.name for case in ALARM_CASES}) == len(ALARM_CASES)
    assert all(case.source for case in ALARM_CASES)


def test_the_document_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs/alarms.md"
    assert page.read_text() == document(), "python -m tests.preflight.alarm_table --markdown > docs/alarms.md"


def test_every_long_output_has_an_origin() -> None:
    origins = (FOLDER / "README.md").read_text()
    assert [path.name for path in FOLDER.glob("*.txt") if path.name not in origins] == []


def test_a_healthy_h200_raises_no_alarm() -> None:
    """As our proof met it: one GPU of a virtual machine (tests/gpu/records)."""
    host = host_of({"nvidia_smi": recorded_alarm("nvidia_smi_h200.txt"), "is_virtual": value(True)} | NVIDIA)
    checks = sorted({case.check for case in ALARM_CASES if case.check.startswith("gpu-")})
    found = {check: result(check, host) for check in checks}
    assert {check: one.verdict for check, one in found.items() if one.verdict in ("fail", "warn")} == {}
    assert {check for check, one in found.items() if one.verdict == "pass"} >= {"gpu-clocks", "gpu-power", "gpu-mode"}
