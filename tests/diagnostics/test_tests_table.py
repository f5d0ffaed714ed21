"""The output of nccl-tests without a line of NCCL: what its end says of the job."""

import pytest

from diagnostics.engine import Reading
from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch

HEAD = "#  Rank  0 Group  0 Pid  4101 on gpu-a device  0 [0x1b] NVIDIA H100\n"
ROW = "  1048576  262144  float     sum      -1    31.20   33.61   63.02      0    30.9   33.9   63.6      0\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 63.31\n"


def _diagnose(text: str) -> Diagnosis:
    reading = Reading()
    reading.feed(Batch(file="job.log", block=text.encode(), first=True))
    reading.flush()
    return reading.diagnosis()


@pytest.mark.parametrize("text", [HEAD + ROW + END, ROW + END, 2 * (HEAD + ROW + END)])
def test_a_table_that_ends_with_right_values_shows_that_the_job_works(text: str) -> None:
    diagnosis = _diagnose(text)
    assert (diagnosis.verdict, diagnosis.network, diagnosis.findings) == ("ok", "unknown", ())
    assert not diagnosis.empty  # the exit code is 0
    assert diagnosis.explanation.startswith("nccl-tests ran to its end, and its values are right.")


@pytest.mark.parametrize(
    "text",
    [HEAD + ROW, HEAD + ROW + END.splitlines()[0], HEAD + ROW + END + HEAD + ROW, ROW + END.splitlines()[1]],
)
def test_a_table_that_is_cut_leaves_it_open(text: str) -> None:
    assert _diagnose(text).verdict == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        HEAD + ROW + END.replace("0 OK", "12 FAILED"),
        HEAD + ROW + END + HEAD + "gpu-a: Test NCCL failure common.cu:958 'unhandled system error'\n",
    ],
)
def test_a_table_with_wrong_values_or_a_failure_behind_it_is_a_failed_run(text: str) -> None:
    assert _diagnose(text).verdict == "critical"
