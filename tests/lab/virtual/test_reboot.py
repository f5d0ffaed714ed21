"""A virtual machine that reboots while commands work on it beside other hosts. Minutes each: see tests/lab/virtual."""

import pytest

from tests.faults.chaos.virtual import VIRTUAL_FAULTS, VirtualFault, play

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("fault", VIRTUAL_FAULTS, ids=lambda fault: f"{fault.command}-{fault.what}")
def test_only_the_machine_that_reboots_is_missing_and_it_is_done_when_it_is_back(fault: VirtualFault) -> None:
    outcome = play(fault, 1.0, 0)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    print(f"exit {outcome.status} {outcome.seconds:.0f} s after the reset: {outcome.text[-2000:]}")
    assert outcome.planted
    assert not outcome.complaints, "\n".join(outcome.complaints)
