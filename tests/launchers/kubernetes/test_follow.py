"""A job followed through kubectl, here a program that answers from files, and the pods' own program with real ranks."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.launchers.kubernetes.frame import framed, unpacked
from raybench.launchers.kubernetes.status import signs_of_events, signs_of_pods, signs_of_workloads, status_of
from raybench.launchers.kubernetes.trouble import troubles
from raybench.processes.interrupt import Interrupt
from raybench.services.launching import kubernetes
from raybench.services.launching.kubernetes import KubernetesRequest, bring_home, follow, submit
from tests.processes.ports import free_port

JOB = "raybench-3f9a21"
# As a scheduler of 1.30 writes them for a pod that finds no GPU, shortened.
PENDING: dict[str, Any] = {
    "metadata": {"name": f"{JOB}-0-x2x4v"},
    "status": {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."},
        ],
    },
}  # fmt: skip
ENDED: dict[str, Any] = {
    "metadata": {"name": f"{JOB}-0-x2x4v"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {"name": "raybench", "lastState": {}, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
        ],
    },
}
WORKLOAD: dict[str, Any] = {
    "metadata": {"name": "job-a", "ownerReferences": [{"kind": "Job", "name": JOB}]},
    "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending",
                               "message": "couldn't assign flavors to pod set main: insufficient unused quota for "
                               "nvidia.com/gpu in flavor h100, 8 more needed"}]},
}  # fmt: skip


def test_objects_say_how_far_they_are() -> None:
    complete = {"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    broken = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it has reached it"}
    assert status_of(complete).ended == "Complete"
    assert (
        status_of({"kind": "Job", "status": {"conditions": [broken]}}).reason
        == "BackoffLimitExceeded: it has reached it"
    )
    assert status_of({"kind": "Job", "spec": {"suspend": True}, "status": {}}).suspended
    assert status_of({"kind": "RayJob", "status": {"jobDeploymentStatus": "Failed", "message": "m"}}).ended == "Failed"
    assert status_of({"kind": "RayJob", "status": {"jobDeploymentStatus": "Running"}}).ended == ""
    assert status_of({"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "False"}]}}).ended == ""
    assert status_of({"kind": "Job", "status": [], "spec": None}).ended == ""


def test_signs_are_read_of_pods_events_and_workloads_of_the_run_alone() -> None:
    assert [one.kind for one in troubles(signs_of_pods([PENDING]))] == ["unschedulable"]
    assert [one.kind for one in troubles(signs_of_pods([ENDED]))] == ["out-of-memory"]
    assert [one.kind for one in troubles(signs_of_workloads([WORKLOAD], JOB))] == ["not-admitted"]
    assert not list(signs_of_workloads([WORKLOAD], "another"))
    quota = {
        "type": "Warning",
        "reason": "FailedCreate",
        "message": f'Error creating: pods "{JOB}-0-a" is forbidden: exceeded quota: gpus, requested: '
        "requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
        "involvedObject": {"kind": "Job", "name": JOB},
    }
    other = {**quota, "involvedObject": {"kind": "Job", "name": f"{JOB}9"}}
    normal = {**quota, "type": "Normal"}
    assert [one.kind for one in troubles(signs_of_events([quota], JOB))] == ["quota"]
    assert not list(signs_of_events([other, normal, {"type": "Warning"}], JOB))


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder: what kubectl prints by its verb and kind, ``get-job.1`` the first time, and ``calls``."""
    folder = tmp_path / "answers"
    folder.mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "words = [word for word in sys.argv[1:] if not word.startswith('--')]\n"
        "name = '-'.join(words[:2]) if words[0] == 'get' else words[0]\n"
        "with (folder / 'calls').open('a') as calls: calls.write(' '.join(sys.argv[1:]) + '\\n')\n"
        "if words[0] == 'create': (folder / 'applied').write_text(sys.stdin.read())\n"
        "first = sorted(folder.glob(name + '.[0-9]'))\n"
        "path = first[0] if first else folder / name\n"
        "text = path.read_text() if path.exists() else ''\n"
        "first and path.unlink()\n"
        "if text.startswith('ERROR '): sys.exit(text)\n"
        "sys.stdout.write(text or '{}')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(kubernetes, "_POLL_SECONDS", 0.01)
    return folder


def request(**values: Any) -> KubernetesRequest:
    return KubernetesRequest(image="registry.example/raybench:1", namespace="ml", **values)


def put(folder: Path, name: str, value: Any) -> None:
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))


def test_a_job_is_created_followed_and_brought_home(answers: Path, tmp_path: Path) -> None:
    results = tmp_path / "made" / "20261123-010203-abcd"
    results.mkdir(parents=True)
    (results / "result.json").write_text("{}")
    running = {"kind": "Job", "spec": {}, "status": {}}
    put(answers, "get-job.1", running)
    put(answers, "get-job.2", {**running, "spec": {"suspend": True}})
    put(answers, "get-job", {"kind": "Job", "status": {"conditions": [{"type": "Failed", "status": "True"}]}})
    put(answers, "get-pods.1", {"items": [PENDING]})
    put(answers, "get-workloads.kueue.x-k8s.io", {"items": [WORKLOAD]})
    put(answers, "logs", "\n".join(["a rank says", *framed(tmp_path / "made"), "RAYBENCH-EXIT 1", ""]))
    job = submit(request(queue="gpus"), ("run", "--suite", "p2p"))
    assert "kind: Job" in (answers / "applied").read_text()
    assert job in (answers / "applied").read_text()
    said: list[str] = []
    ended = follow(request(queue="gpus"), JOB, interrupt=Interrupt(), say=said.append, output_dir=tmp_path / "runs")
    assert ended.exit_code == 1
    assert ended.reason == ""
    assert [path.name for path in ended.results] == ["20261123-010203-abcd"]
    assert (ended.folder / "kubernetes.log").read_text() == "a rank says\nRAYBENCH-EXIT 1\n"
    text = "\n".join(said)
    assert "2 nodes without enough free nvidia.com/gpu" in text
    assert "8 more nvidia.com/gpu of flavor h100 must become free" in text
    assert all("--namespace=ml" in call for call in (answers / "calls").read_text().splitlines())


def test_a_cluster_without_the_kind_is_told_before_anything_runs(answers: Path) -> None:
    message = 'error: no matches for kind "RayJob" in version "ray.io/v1"\nensure CRDs are installed first'
    put(answers, "create", f"ERROR {message}")
    with pytest.raises(UsageError, match=r"does not know RayJob.*--form pods"):
        submit(request(form="rayjob"), ("run",))


def test_a_log_without_results_is_incomplete(answers: Path, tmp_path: Path) -> None:
    put(answers, "logs", "Traceback: something\n")
    ended = bring_home(request(), JOB, tmp_path / "runs", None)
    assert ended.exit_code == 3
    assert "the log has no results" in ended.reason


@pytest.mark.long
@pytest.mark.cluster
def test_the_program_of_two_pods_measures_and_prints_its_results(tmp_path: Path) -> None:
    port = str(free_port())
    words = ["--nodes", "2", "--ranks-per-node", "1", "--master-address", "127.0.0.1", "--master-port", port, "--"]
    run = ["run", "--suite", "all_reduce", "--sizes", "1K", "--blocks", "2", "--no-agent", "--quiet"]
    command = [sys.executable, "-P", "-m", "raybench.launchers.kubernetes.pod_task", *words, *run]
    pods = [
        subprocess.Popen(
            command,
            env={**os.environ, "JOB_COMPLETION_INDEX": str(index), "RAYBENCH_KUBERNETES_JOB": JOB},
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    printed = [pod.communicate(timeout=240)[0].splitlines() for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0]
    assert printed[0][-1] == "RAYBENCH-EXIT 0"
    unpacked(printed[0], tmp_path)
    (path,) = tmp_path.glob("*/result.json")
    result = json.loads(path.read_text())
    assert (result["status"], len(result["cluster"]["nodes"])) == ("complete", 2)
    assert result["scheduler"] == {"name": "kubernetes", "job_id": JOB, "node_list": "", "partition": ""}
