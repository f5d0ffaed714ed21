"""Several jobs in one call: told apart, each with its own verdict; one job is never taken for several."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnostics.engine import diagnose_paths
from diagnostics.findings import Diagnosis
from diagnostics.inputs import files as inputs
from diagnostics.inputs.jobs import sort_by_job
from raybench.cli.diagnose import command


def rank_lines(
    rank: int,
    *,
    host: str,
    pid: int,
    nranks: int,
    network: str = "IB",
    communicator: str | None = "0xaaaa",
    bus: str | None = None,
) -> list[str]:
    prefix = f"{host}:{pid}:{pid} [0] NCCL INFO "
    identity = f" commId {communicator}" if communicator else ""
    bus = bus or f"{rank + 1}000"
    start = f"ncclCommInitRank comm 0x55{rank} rank {rank} nranks {nranks} cudaDev 0 nvmlDev 0 busId {bus}{identity}"
    devices = (
        "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>" if network == "IB" else "NET/IB : No device found."
    )
    lines = [
        "NCCL version 2.25.1+cuda12.4",
        f"Bootstrap: Using eth0:10.0.0.{rank + 1}<0>",
        devices,
        f"Using network {network}",
        f"{start} - Init START",
        f"comm 0x55{rank} rank {rank} nRanks {nranks} nNodes 2 localRanks 1 localRank 0 MNNVL 0",
        f"{start} - Init COMPLETE",
        f"Channel 00/0 : {rank}[0] -> {(rank + 1) % nranks}[0] [send] via NET/{network}/0"
        + ("/GDRDMA" if network == "IB" else ""),
        "Connected all rings, use ring PXN 0 GDR 1",
    ]
    return [prefix + line for line in lines]


def write_job(folder: Path, *, network: str = "IB", communicator: str | None = "0xaaaa", pid: int = 100) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(2):
        lines = rank_lines(rank, host=f"n{rank}", pid=pid + rank, nranks=2, network=network, communicator=communicator)
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n")


def jobs_of(diagnosis: Diagnosis) -> dict[str, str]:
    return {job.job: job.verdict for job in diagnosis.jobs}


def rules(diagnosis: Diagnosis) -> set[str]:
    return {finding.rule for finding in diagnosis.findings}


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/logs"))


def test_runs_of_one_call_each_have_their_verdict(tmp_path: Path) -> None:
    write_job(tmp_path / "a" / "logs")
    write_job(tmp_path / "b" / "logs", network="Socket", communicator="0xbbbb", pid=300)
    write_job(tmp_path / "c" / "logs", communicator="0xcccc", pid=500)
    for paths in (logs(tmp_path), [tmp_path], [f"{tmp_path}/*/logs"], [f"{tmp_path}/*/logs/*.log"]):
        diagnosis = diagnose_paths(paths)
        assert jobs_of(diagnosis) == {"a": "ok", "b": "warning", "c": "ok"}
        assert (diagnosis.verdict, diagnosis.network) == ("warning", "mixed")
        assert "ranks-disagree-on-transport" not in rules(diagnosis)
        assert diagnosis.explanation.startswith("1 of 3 jobs")
        assert {finding.job for finding in diagnosis.findings if finding.severity != "info"} == {"b"}


@pytest.mark.parametrize("pid", [100, 300], ids=["same-pids", "other-pids"])
def test_runs_of_releases_without_ids_are_told_apart_by_their_folders(tmp_path: Path, pid: int) -> None:
    write_job(tmp_path / "a" / "logs", communicator=None)
    write_job(tmp_path / "b" / "logs", network="Socket", communicator=None, pid=pid)
    assert jobs_of(diagnose_paths(logs(tmp_path))) == {"a": "ok", "b": "warning"}


def test_runs_without_ids_in_one_folder_are_told_apart_by_their_ranks(tmp_path: Path) -> None:
    for name, network, pid in (("a", "IB", 100), ("b", "Socket", 300)):
        lines = [
            line
            for rank in range(2)
            for line in rank_lines(rank, host=f"n{rank}", pid=pid + rank, nranks=2, network=network, communicator=None)
        ]
        (tmp_path / f"{name}.log").write_text("\n".join(lines) + "\n")
    assert jobs_of(diagnose_paths([tmp_path])) == {"a.log": "ok", "b.log": "warning"}


def test_a_run_that_failed_before_its_communicator_is_not_part_of_another(tmp_path: Path) -> None:
    write_job(tmp_path / "a" / "logs")
    (tmp_path / "b" / "logs").mkdir(parents=True)
    (tmp_path / "b" / "logs" / "nccl-rank-0.log").write_text(
        "n0:7:7 [0] bootstrap.cc:1 NCCL WARN Bootstrap : no socket interface found\n"
    )
    assert jobs_of(diagnose_paths(logs(tmp_path))) == {"a": "ok", "b": "critical"}


def test_a_job_started_again_in_the_same_file_is_another_job(tmp_path: Path) -> None:
    first = [line for rank in range(2) for line in rank_lines(rank, host=f"n{rank}", pid=10 + rank, nranks=2)]
    died = ["n0:10:10 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n<4>"]
    again = [
        line
        for rank in range(2)
        for line in rank_lines(rank, host=f"n{rank}", pid=90 + rank, nranks=2, communicator="0xbbbb")
    ]
    (tmp_path / "train.log").write_text("\n".join([*first, *died, "restarting", *again]) + "\n")
    diagnosis = diagnose_paths([tmp_path / "train.log"])
    assert jobs_of(diagnosis) == {"train.log from line 1": "critical", "train.log from line 21": "ok"}
    evidence = diagnosis.findings[0].evidence[0]
    assert (evidence.line, "closed by remote peer" in evidence.text) == (19, True)
    assert diagnosis.lines.read == 38


def pair_lines(hosts: tuple[str, str], *, pid: int, communicator: str, network: str, ends: bool) -> list[str]:
    lines = []
    for rank, host in enumerate(hosts):
        lines += rank_lines(rank, host=host, pid=pid, nranks=2, communicator=communicator, network=network)
        end = f"{host}:{pid}:{pid} [0] NCCL INFO comm 0x55{rank} rank {rank} nranks 2 cudaDev 0 - Destroy COMPLETE"
        lines += [end] if ends else []
    return lines


@pytest.mark.parametrize(("ends", "second", "jobs"), [
    (True, "0xbbbb", 2),
    (False, "0xbbbb", 1),  # both may go on: groups of one job
    (True, "0xaaaa", 1),
])  # fmt: skip
def test_pairs_of_hosts_one_after_the_other_in_a_file_are_jobs_of_their_own(
    tmp_path: Path, ends: bool, second: str, jobs: int
) -> None:
    lines = pair_lines(("n1", "n2"), pid=10, communicator="0xaaaa", network="IB", ends=ends)
    lines += pair_lines(("n3", "n4"), pid=20, communicator=second, network="Socket", ends=True)
    (tmp_path / "pairs.log").write_text("\n".join(lines) + "\n")
    diagnosis = diagnose_paths([tmp_path / "pairs.log"])
    assert max(len(diagnosis.jobs), 1) == jobs
    assert [job.network for job in diagnosis.jobs] == (["ib", "socket"] if jobs == 2 else [])
    assert jobs == 1 or "tcp-fallback" not in {finding.rule for finding in diagnosis.jobs[0].findings}


def test_a_run_that_ended_disagrees_with_none_that_begins_behind_it(tmp_path: Path) -> None:
    lines = pair_lines(("n1", "n2"), pid=10, communicator="0xaaaa", network="IB", ends=True)[:10]
    lines += ["n9:99:9 [0] NCCL INFO NET/IB : No device found.", "n9:99:9 [0] NCCL INFO Using network Socket"]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    assert "ranks-disagree-on-transport" not in rules(diagnose_paths([tmp_path]))
    (tmp_path / "a.log").write_text("\n".join(line for line in lines if "Destroy" not in line) + "\n")
    assert "ranks-disagree-on-transport" in rules(diagnose_paths([tmp_path]))


def one_job_in(folder: Path, files: dict[str, Sequence[str]]) -> bool:
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(lines) + "\n")
    return len(sort_by_job(inputs.find_inputs([folder]).files)) == 1


def test_files_of_one_job_stay_together(tmp_path: Path) -> None:
    ranks = [rank_lines(rank, host=f"n{rank // 2}", pid=10 + rank, nranks=4) for rank in range(4)]
    failed = ["n1:77:77 [0] bootstrap.cc:1 NCCL WARN Bootstrap : no socket interface found"]
    assert one_job_in(tmp_path / "rank-files", {f"{rank}/stdout.log": lines for rank, lines in enumerate(ranks)})
    assert one_job_in(tmp_path / "one-silent", {"0.log": ranks[0], "1.log": failed, "2.log": ["Traceback"]})
    assert one_job_in(tmp_path / "none-started", {"0.log": failed, "1.log": ["n2:5:5 [0] NCCL INFO Using network IB"]})


def test_a_folder_for_each_host_is_one_job(tmp_path: Path) -> None:
    warning = "NCCL WARN Bootstrap : no socket interface found"
    for host in ("n0", "n1"):
        (tmp_path / host).mkdir()
        (tmp_path / host / "a.log").write_text(f"{host}:7:7 [0] bootstrap.cc:1 {warning}\n")
    assert not diagnose_paths([tmp_path / "n0", tmp_path / "n1"]).jobs


def test_ranks_that_are_each_a_world_of_their_own_are_one_launch(tmp_path: Path) -> None:
    lines = [
        line
        for number in range(4)
        for line in rank_lines(0, host="n", pid=number, nranks=1, communicator=f"0x{number}a", bus="1000")
    ]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    diagnosis = diagnose_paths([tmp_path])
    assert not diagnosis.jobs
    assert "single-rank-jobs" in rules(diagnosis)


def test_processes_that_share_gpus_side_by_side_are_one_job(tmp_path: Path) -> None:
    """A trainer and an inference engine on the same GPUs, in one log, taking turns."""
    trainer = [line for rank in range(2) for line in rank_lines(rank, host="n", pid=10 + rank, nranks=2)]
    engine = [
        line for rank in range(2) for line in rank_lines(rank, host="n", pid=90 + rank, nranks=2, communicator="0xbbbb")
    ]
    more = [f"n:{pid}:{pid} [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/IPC" for pid in (10, 90) * 20]
    assert one_job_in(tmp_path, {"a.log": [*trainer, *engine, *more]})


def test_groups_that_exchange_nothing_may_use_different_networks(tmp_path: Path) -> None:
    lines = [
        line
        for group, network in enumerate(("IB", "Socket"))
        for rank in range(2)
        for line in rank_lines(
            rank,
            host=f"n{2 * group + rank}",
            pid=rank,
            nranks=2,
            network=network,
            communicator=f"0x{group}b",
        )
    ]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    assert "ranks-disagree-on-transport" not in rules(diagnose_paths([tmp_path]))
    (tmp_path / "a.log").write_text("\n".join(line for line in lines if "Init COMPLETE" not in line) + "\n")
    assert "ranks-disagree-on-transport" in rules(diagnose_paths([tmp_path]))


def test_every_format_names_the_jobs(tmp_path: Path) -> None:
    write_job(tmp_path / "good" / "logs")
    write_job(tmp_path / "bad" / "logs", network="Socket", communicator="0xbbbb", pid=300)
    paths = [str(path) for path in logs(tmp_path)]
    for output_format in ("text", "markdown", "html", "sarif"):
        result = CliRunner().invoke(command, [*paths, "--format", output_format])
        assert result.exit_code == 1
        assert "bad" in result.output
    whole = json.loads(CliRunner().invoke(command, [*paths, "--format", "json"]).output)
    assert [(job["job"], job["verdict"]) for job in whole["jobs"]] == [("bad", "warning"), ("good", "ok")]
    assert {finding["job"] for finding in whole["findings"]} == {"bad"}
    redacted = CliRunner().invoke(command, [*paths, "--redact"]).output
    assert "n0:300" not in redacted
    assert redacted.startswith("WARNING: 1 of 2 jobs has a warning. name-1: Data between nodes goes over TCP")
    assert "=== name-1 ===" in redacted
    assert not re.search(r"\bbad\b|\bgood\b", redacted)


@pytest.mark.parametrize("ranks", [5000])
def test_every_rank_has_a_row(tmp_path: Path, ranks: int) -> None:
    lines = [
        f"n{rank // 8}:{rank}:{rank} [0] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks {ranks} cudaDev 0 "
        f"nvmlDev 0 busId {rank % 8 + 1}000 commId 0xaa - Init COMPLETE"
        for rank in range(ranks - 1)
    ]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    diagnosis = diagnose_paths([tmp_path])
    assert len(diagnosis.to_json()["ranks"]) == ranks - 1
    assert (diagnosis.ranks_not_listed, diagnosis.missing_ranks) == (1, (ranks - 1,))


@pytest.mark.parametrize(
    ("document", "raised"),
    [
        ({"message": "KeyError: 'x'", "extraInfo": {"py_callstack": "Traceback (most recent call last):"}}, True),
        ({"message": "KeyError: 'x'", "extraInfo": {"tags": "Traceback (most recent call last):"}}, False),
    ],
)
def test_the_error_file_of_torchrun_beside_the_logs_is_read(
    tmp_path: Path, document: dict[str, object], raised: bool
) -> None:
    (tmp_path / "rank0.log").write_text("n1:1:1 [0] NCCL INFO Using network IB\n")
    (tmp_path / "error.json").write_text(json.dumps({"message": document}))
    found = [finding.summary for finding in diagnose_paths([tmp_path]).findings if finding.rule == "application-error"]
    assert [summary.startswith("The program raised KeyError: 'x'") for summary in found] == [True] * raised
