"""A run that an agent started again after a failure: the attempt that works is judged, and no other."""

from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.findings import Diagnosis
from tests.diagnostics.threads import diagnose

KILLED = (
    "E1122 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 11)",
    "I1122 elastic/agent/server/api.py:889] Worker group FAILED. 3/3 attempts left; will restart worker group",
)


def _attempt(first_pid: int, comm_id: str, what: tuple[str, ...] = ("START", "COMPLETE")) -> list[str]:
    lines = [
        f"n1:{first_pid}:{first_pid} [0] NCCL INFO NCCL version 2.20.5+cuda12.4",
        f"n1:{first_pid}:{first_pid} [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
        f"n1:{first_pid}:{first_pid} [0] NCCL INFO Using network Socket",
        f"n1:{first_pid}:{first_pid} [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
    ]
    lines += [
        f"n1:{first_pid + rank}:{first_pid + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 2 "
        f"cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId {comm_id} - Init {state}"
        for state in what
        for rank in (0, 1)
    ]
    return lines


def _verdict(lines: list[str]) -> Diagnosis:
    return diagnose("\n".join(lines))


def test_a_run_that_was_restarted_and_works_is_no_failure() -> None:
    assert _verdict([*_attempt(10, "0x2"), *KILLED, *_attempt(20, "0x3")]).verdict == "ok"


def test_an_attempt_that_never_came_to_be_does_not_count_either() -> None:
    assert _verdict([*_attempt(10, "0x2", ("START",)), *KILLED, *_attempt(20, "0x3")]).verdict == "ok"


def test_a_run_that_does_not_come_back_is_a_failure() -> None:
    diagnosis = _verdict([*_attempt(10, "0x2"), *KILLED, *_attempt(20, "0x3", ("START",))])
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", "peer-died")


def test_a_run_that_fails_again_is_a_failure() -> None:
    diagnosis = _verdict([*_attempt(10, "0x2"), *KILLED, *_attempt(20, "0x3"), KILLED[0]])
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", "peer-died")


JOINED = "I1127 api.py:1] [default] Detected 1 new nodes from group_rank=0; will restart worker group"
OF_ONE = "RuntimeError: NCCL communicator was aborted on rank 1."
STEPS = "step 1 | loss 2.9\nstep 2 | loss 2.8"


@pytest.mark.parametrize(("behind", "verdict"), [
    (_attempt(20, "0x3"), "ok"),
    (_attempt(20, "0x3", ("START",)), "critical"),
    ([], "critical"),
])  # fmt: skip
def test_a_change_of_membership_is_judged_by_what_comes_of_it(tmp_path: Path, behind: list[str], verdict: str) -> None:
    """The processes of the new attempt have other numbers, as those of another job in the same file have."""
    (tmp_path / "a.log").write_text("\n".join([*_attempt(10, "0x2"), STEPS, JOINED, *behind, ""]))
    diagnosis = diagnose_paths([tmp_path / "a.log"])
    assert (diagnosis.verdict, diagnosis.jobs) == (verdict, ())
    assert verdict != "ok" or "started again" in diagnosis.explanation


def test_another_job_in_the_file_is_judged_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join([*_attempt(10, "0x2"), STEPS, OF_ONE, *_attempt(20, "0x3"), ""]))
    assert [job.verdict for job in diagnose_paths([tmp_path / "a.log"]).jobs] == ["critical", "ok"]


@pytest.mark.parametrize(("behind", "verdict"), [
    (STEPS.replace("step ", "step 1"), "ok"), ("", "critical"), ("step 8 | loss 1.7", "critical"),
    (f"{STEPS}\n{OF_ONE}", "critical"),
])  # fmt: skip
def test_steps_behind_a_restart_show_that_it_led_on(behind: str, verdict: str) -> None:
    """At NCCL_DEBUG=WARN."""
    line = "n1:10:10 [0] init.cc:70 NCCL WARN NUMA auto balancing enabled which can lead to variability"
    assert _verdict([line, STEPS, OF_ONE, *KILLED, behind]).verdict == verdict
