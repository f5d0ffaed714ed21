"""The output of nccl-tests without a line of NCCL: what its end says of the job."""

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading
from tests.diagnostics.test_program_failures import START

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
    assert diagnosis.explanation.startswith("nccl-tests ran to its end, and its values are right. The network")


def test_values_that_were_not_checked_are_not_called_right() -> None:
    """With ``-c 0`` nccl-tests counts nothing wrong, and says OK below its table."""
    rows = ROW + ROW.replace("1048576  262144", "2097152  524288")
    unchecked = rows.replace("63.02      0", "63.02    N/A").replace("63.6      0", "63.6    N/A")
    assert unchecked.count("N/A") == 4
    diagnosis = _diagnose(HEAD + unchecked + END)
    assert diagnosis.verdict == "ok"
    assert diagnosis.explanation.startswith("nccl-tests ran to its end, and checked none of its values (-c 1 would).")
    in_place = _diagnose(HEAD + rows.replace("63.6      0", "63.6    N/A") + END)  # all_to_all has no values in place
    assert in_place.explanation.startswith("nccl-tests ran to its end, and its values are right.")


def test_a_table_beside_the_choice_of_a_network_leaves_no_question_open() -> None:
    diagnosis = _diagnose("NET/OFI Initializing aws-ofi-nccl 1.16.3\nUsing network AWS Libfabric\n" + ROW + END)
    assert (diagnosis.verdict, diagnosis.network) == ("ok", "plugin:aws-ofi-nccl")
    assert diagnosis.explanation == "nccl-tests ran to its end, and its values are right."


ROWS = """\
     1048576         16384     float    none      -1   1116.2    0.94    0.88    N/A   1094.0    0.96    0.90    N/A
     2097152         32768     float    none      -1   1071.4    1.96    1.83    N/A   1072.8    1.95    1.83    N/A
"""
OLD = """\
           8             2     float     sum     9.66    0.00    0.00  0e+00     9.52    0.00    0.00  4e-07
          16             4     float     sum    10.56    0.00    0.00  0e+00    10.31    0.00    0.00  0e+00
"""
FABTESTS = """\
bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec
64      20k     1.2m        0.03s     42.74       1.50       0.67
1.5m    200     300m        0.05s   6899.89     227.96       0.00
2m      200     400m        0.06s   6868.93     305.31       0.00
"""
PERFTEST = """\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             97.66              97.65 \t\t   0.186258
 131072     5000             97.66              97.66 \t\t   0.093129
---------------------------------------------------------------------------------------
"""


PREFIXED = "[1,0]<stdout>:" + ROWS.replace("\n ", "\n[1,0]<stdout>:")
RANGE = "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {} warmup iters: 5 iters: 20 validation: 1\n"
ENDED = RANGE.format(1048576, 2097152, "2(factor)")


@pytest.mark.parametrize("text", [
    PERFTEST, ROWS + END, OLD + END.splitlines()[1], ENDED + ROWS, ENDED + HEAD + ROWS, ENDED + PREFIXED,
    RANGE.format(1048576, 4000000, "2(factor)") + ROWS,  # the next size is larger than the largest
    RANGE.format(8, 16, "16(bytes)") + OLD,
])  # fmt: skip
def test_rows_of_measurements_up_to_the_end_of_their_table_show_work(text: str) -> None:
    assert _diagnose(text).verdict == "ok"


@pytest.mark.parametrize("text", [
    ROWS, OLD, FABTESTS, PREFIXED, PERFTEST.rpartition("---\n")[0].rstrip("-"),
    RANGE.format(1048576, 4194304, "2(factor)") + ROWS, RANGE.format(8, 24, "8(bytes)") + OLD,
])  # fmt: skip
def test_rows_without_the_end_of_their_table_look_like_those_of_a_test_that_hangs(text: str) -> None:
    diagnosis = _diagnose(text)
    assert (diagnosis.verdict, [finding.rule for finding in diagnosis.findings]) == ("unknown", ["log-truncated"])
    assert "and not with the end of the table" in diagnosis.explanation


@pytest.mark.parametrize("text", [
    ROWS.splitlines()[0],  # one row
    ROWS.replace("N/A", "3", 1), OLD.replace("0e+00", "1e+00", 1),  # wrong values
    HEAD + ROWS,  # a table that was begun and has no end
    PERFTEST.partition("\n")[2],  # numbers of anything
    FABTESTS.replace("6899.89", "0.00").replace("6868.93", "0.00"),
    ROWS + "the next size gave an error\n", PERFTEST + "Failed to modify the queue\n",
])  # fmt: skip
def test_rows_with_wrong_values_no_end_or_an_error_behind_show_none(text: str) -> None:
    assert _diagnose(text).verdict != "ok"


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


WRONG = "  134217728  33554432  float  sum  -1    18390   7.30    7.30  6.71089e+07  17885    7.50    7.50  6.71089e+07"


@pytest.mark.parametrize("head", [
    "", "0: ", "[1,0]<stdout>:", "[default0]:", "(RayTrainWorker pid=1, ip=10.0.0.1) ", "[pod/a-0/trainer] ",
    "2026-01-02T03:04:05.678901234Z stdout F ", "2026-01-02 03:04:05,678 - INFO - worker - ", "worker-1: ",
    "Jan  2 03:04:05 n1 train[123]: ",
])  # fmt: skip
@pytest.mark.parametrize("row", [WRONG, WRONG.replace("6.71089e+07", "0", 1), WRONG.replace("6.71089e+07", "8", 1)])
def test_a_row_with_wrong_values_is_a_failed_run_whatever_stands_before_it(head: str, row: str) -> None:
    assert [finding.rule for finding in _diagnose(f"{head}{row}\n").findings] == ["run-failed"]


@pytest.mark.parametrize("wrong", ["0", "N/A", "2e-07", "0e+00"])
def test_a_row_with_right_values_or_unchecked_ones_is_no_failure(wrong: str) -> None:
    findings = _diagnose(WRONG.replace("6.71089e+07", wrong) + "\n").findings
    assert [(finding.rule, finding.severity) for finding in findings] == [("log-truncated", "info")]


@pytest.mark.parametrize(
    ("row", "size"),
    [
        (ROW.replace("      0    30.9", "      8    30.9"), 1048576),
        (
            "  4194304  65536  float              -1   955.92    4.11  4.11  9.28541e+06  994.82  4.13  4.13  0\n",
            4194304,
        ),
    ],
    ids=["sum", "hypercube_perf, which names no reduction"],
)
def test_wrong_values_are_told_as_such(row: str, size: int) -> None:
    diagnosis = _diagnose(HEAD + row + "# Out of bounds values : 8 FAILED\n# Avg bus bandwidth    : 63.31\n")
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", "run-failed")
    assert f"results are wrong: nccl-tests counts wrong elements (#wrong) from {size} bytes on" in diagnosis.explanation


def test_right_values_without_a_reduction_are_no_failure() -> None:
    row = "  4194304  65536  float              -1   955.92    4.11    4.11  0   994.82    4.13    4.13  0\n"
    assert _diagnose(HEAD + row + END).verdict == "ok"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        ("5.94    0.00    0.00      0     5.90    0.00    0.00      0", "ok"),
        ("5.94    0.00    0.00      0", "unknown"),
        ("5.94    0.00    0.00", "unknown"),
        ("5.94    0.00    0.00      3", "critical"),
    ],
)
def test_the_last_row_is_whole_or_its_size_may_hang_in_place(last: str, verdict: str) -> None:
    ranks = [
        f"n1:{pid}:{pid} [{rank}] NCCL INFO {said}"
        for rank, pid in enumerate((7, 8))
        for said in (
            "Using network IB",
            f"comm 0x{pid} rank {rank} nranks 2 cudaDev {rank} busId {rank} - Init COMPLETE",
        )
    ]
    title = "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20 validation: 1"
    row = "8             2     float     sum      -1     5.94    0.00    0.00      0     5.90    0.00    0.00      0"
    lines = [title, *ranks, row, f"16            4     float     sum      -1     {last}"]
    assert _diagnose("\n".join(lines)).verdict == verdict


TITLE = "#                                      out-of-place                       in-place          \n"
HEADER = HEAD + TITLE + "#  size  count  type  redop  root  time  algbw  busbw #wrong\n"
INIT = "\n".join(START) + "\n"
STEPS = "".join(f"step {number}/100 loss: 2.3 12.{number} samples/s\n" for number in range(9))
CLOSED = "n1:40:42 [0] NCCL INFO [Service thread] Connection closed by localRank 1\n"


@pytest.mark.parametrize(("text", "told"), [
    (HEADER, "no row of it"), (HEADER + INIT, "no row of it"), (INIT + ENDED, "no row of it"),
    (INIT + HEADER + ROW + END + HEADER, "no row of it"),  # of a second run
    (HEADER + ROW + END + HEADER, "no row of it"),  # without NCCL's lines
    (HEADER + INIT + ROW, "not with the end"), (HEADER + INIT + ROW + CLOSED, "not with the end"),
    (HEADER + INIT + ROW + "Timeout waiting for rank 1\n", "Timeout waiting"),
    (INIT + HEADER + ROW + END + "Job 4711 FAILED\n", "Job 4711 FAILED"),
    (INIT + HEADER + ROW + END, ""), (HEADER + INIT + ROW + END + CLOSED, ""), (INIT + ROW, ""),
    (ENDED + HEADER + INIT + ROWS + CLOSED, ""),  # whose last size is the largest
    (HEADER + INIT + STEPS, ""),  # of a training that follows
])  # fmt: skip
def test_a_table_that_was_begun_and_has_no_end_is_no_job_that_works(text: str, told: str) -> None:
    diagnosis = _diagnose(text)
    assert (diagnosis.verdict == "ok", told in diagnosis.explanation) == (not told, True)
