"""A run that an agent started again after a failure: the attempt that works is judged, and no other."""

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
