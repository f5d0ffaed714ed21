"""Batch scripts, time limits, what Slurm says of a job, and which commands can be launched: all of it pure."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.run.scheduler import SchedulerJob, job_of_environment
from raybench.errors import IncompleteRunError, UsageError
from raybench.launchers.command_words import check_words, placed_words
from raybench.launchers.ended_job import FILE, EndedJob, JobNode, read_ended
from raybench.launchers.slurm.job_state import explained, job_of
from raybench.launchers.slurm.messages import bracketed
from raybench.launchers.slurm.node_step import srun_words
from raybench.launchers.slurm.node_task import free_port, own_address
from raybench.launchers.slurm.script import SlurmRequest, job_script
from raybench.launchers.slurm.time_limit import seconds_of, warning_seconds

# As scontrol -o show job of Slurm 22.05 prints it, shortened.
PENDING = (
    "JobId=7 JobName=raybench UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901757 Nice=0 Account=(null) "
    "QOS=(null) JobState=PENDING Reason=Resources Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 "
    "ExitCode=0:0 RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A StartTime=Unknown EndTime=Unknown Partition=lab "
    "AllocNode:Sid=node1:42 ReqNodeList=(null) ExcNodeList=(null) NodeList=(null) NumNodes=3-3 NumCPUs=3"
)
RUNNING = PENDING.replace("PENDING Reason=Resources", "RUNNING Reason=None").replace(
    " NodeList=(null)", " NodeList=node[1-3]"
)
TIMEOUT = RUNNING.replace("RUNNING Reason=None", "TIMEOUT Reason=TimeLimit")


def request(**values: Any) -> SlurmRequest:
    return SlurmRequest(**{"python": "/env/bin/python", "folder": Path("/shared/runs"), **values})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("30:15", 1815), ("2:00:00", 7200), ("1-12", 129600), ("1-12:30", 131400), ("1-0:0:5", 86405)],
)
def test_time_limits_are_read_as_sbatch_reads_them(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1h", "30\n#SBATCH --uid=0"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--time"):
        seconds_of(text)


def test_a_job_is_told_before_its_limit_and_not_at_its_begin() -> None:
    assert [warning_seconds(limit) for limit in (None, 7200, 120, 20)] == [90, 90, 30, 10]


def test_the_script_asks_for_what_was_asked_and_is_a_program_in_the_end(tmp_path: Path) -> None:
    made = job_script(
        request(
            nodes=4, gpus_per_node=8, partition="gpu", time="30", options=("qos=high",), setup=("module load cuda",)
        ),
        ("run", "--suite", "all_reduce", "--env", "NAME=a b; rm -rf $HOME"),
    )
    asked = [line.removeprefix("#SBATCH ") for line in made.splitlines() if line.startswith("#SBATCH")]
    assert asked == [
        *("--job-name=raybench", "--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=8", "--partition=gpu"),
        *("--time=30", "--exclusive", "--output=/shared/runs/slurm-%j.out", "--open-mode=append"),
        *("--signal=B:TERM@90", "--no-requeue", "--qos=high"),
    ]
    lines = made.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert "module load cuda" in lines
    assert lines[-1].startswith("exec /env/bin/python -P -m raybench.launchers.slurm.allocation --folder /shared/runs ")
    script = tmp_path / "job"
    script.write_text(made.replace("module load cuda", ":").replace("exec /env/bin/python", "printf '%s\\n'"))
    said = subprocess.run(["bash", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[-1] == "NAME=a b; rm -rf $HOME"  # one word, which no shell has read


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"partition": "gpu\n#SBATCH --uid=0"}, "--partition"),
        ({"account": "a b"}, "--account"),
        ({"options": ("qos=high --uid=0",)}, "--sbatch-option"),
        ({"options": ("signal=B:KILL",)}, "raybench sets signal itself"),
        ({"setup": ("module load cuda\nrm",)}, "--setup takes one line"),
        ({"nodes": 0}, "--nodes 0"),
        ({"folder": Path("/shared/my runs")}, "--output-dir"),
    ],
)
def test_what_cannot_stand_in_a_script_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        request(**values)


def test_a_job_is_read_and_said_with_what_its_reason_means() -> None:
    waiting, running, ended = (job_of(text) for text in (PENDING, RUNNING, TIMEOUT))
    assert waiting is not None
    assert running is not None
    assert ended is not None
    assert (waiting.waits, waiting.ended, running.ended, ended.ended) == (True, False, False, True)
    assert waiting.in_brief() == "PENDING: Resources (it is next, and waits for nodes to become free)"
    assert running.in_brief() == "RUNNING on node[1-3]"
    assert job_of("slurm_load_jobs error: Invalid job id specified") is None


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("PartitionTimeLimit", "never starts"),
        ("ReqNodeNotAvail,_UnavailableNodes:node3", "sinfo -R"),
        ("QOSMaxGRESPerUser", "quality of service"),
        ("AssocGrpGRES", "account or user"),
        ("JobHeldUser", "scontrol release"),
        ("Priority", "higher priority"),
        ("SomethingNew", ""),
    ],
)
def test_why_a_job_waits_is_explained_where_it_is_known(reason: str, said: str) -> None:
    assert said in explained(reason)
    assert bool(explained(reason)) == bool(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what to run"),
        (("diagnose", "a.log"), "cannot be launched"),
        (("trian",), "did you mean 'train'"),
        (("run", "--address", "head:6379"), "--address after -- is not taken"),
        (("run", "--output-dir=/tmp"), "--output-dir after -- is not taken"),
        (("study", "show", "x"), "name the study"),
        (("study",), "name the study"),
    ],
)
def test_commands_that_cannot_be_launched_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_words(words)


def test_the_command_gets_its_place_before_a_study_hands_words_on() -> None:
    place = ["--output-dir", "/shared/slurm-1"]
    folder = Path("/shared/slurm-1")
    assert placed_words(("run", "--suite", "p2p"), nodes=3, output_dir=folder) == [
        *("run", "--suite", "p2p", *place, "--nodes", "3")
    ]
    assert placed_words(("run", "--nodes=2"), nodes=3, output_dir=folder) == ["run", "--nodes=2", *place]
    study = ("study", "scaling", "--nodes", "1,2", "--", "train", "--model", "gpt2")
    assert placed_words(study, nodes=2, output_dir=folder) == [*study[:4], *place, *study[4:]]


def test_a_step_is_one_task_on_its_node_and_takes_options_of_the_site() -> None:
    words = srun_words("node2", ("container-image=a.sqsh",))
    assert {"--nodes=1", "--ntasks=1", "--nodelist=node2", "--overlap", "--container-image=a.sqsh"} <= set(words)
    assert not any("token" in word.lower() for word in words)


def test_jobs_that_begin_at_once_on_a_node_look_for_ports_elsewhere() -> None:
    ports = [free_port(job, number) for job in ("1001", "1002") for number in range(3)]
    assert len(set(ports)) == 6
    assert all(20000 <= port < 32000 for port in ports)


def test_a_node_takes_the_address_of_the_interface_that_its_peers_reach() -> None:
    assert own_address("127.0.0.1:6379") == "127.0.0.1"
    assert own_address(f"{bracketed('::1')}:9") == "::1"


def test_how_a_job_ended_is_kept_and_damage_is_named(tmp_path: Path) -> None:
    ended = EndedJob(job_id="7", command=("run",), exit_code=1, nodes=(JobNode(name="node1", reason="no route"),))
    assert read_ended(tmp_path) is None
    ended.write(tmp_path)
    assert read_ended(tmp_path) == ended
    (tmp_path / FILE).write_text('{"job_id": 7}')
    with pytest.raises(IncompleteRunError, match="is damaged"):
        read_ended(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/etc/passwd")
    with pytest.raises(IncompleteRunError, match="cannot be read"):
        read_ended(tmp_path)


def test_the_job_of_a_run_is_told_by_the_variables_of_its_scheduler() -> None:
    told = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_PARTITION": "gpu"}
    assert job_of_environment(told) == SchedulerJob(name="slurm", job_id="7", node_list="node[1-3]", partition="gpu")
    assert job_of_environment({"SLURM_CONF": "/etc/slurm/slurm.conf"}) is None


@pytest.mark.parametrize("module", ["allocation", "node_task"])
def test_outside_of_a_job_the_programs_of_the_script_say_so(module: str) -> None:
    words = [sys.executable, "-P", "-m", f"raybench.launchers.slurm.{module}", "--folder", "/tmp", "--", "run"]
    done = subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, env={"PYTHONPATH": "."}
    )
    assert done.returncode != 0
