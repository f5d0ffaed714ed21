"""Manifests against the schemas that Kubernetes and KubeRay publish, and results that come home in a log."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from raybench.documents.run.scheduler import SchedulerJob, job_of_environment
from raybench.errors import IncompleteRunError, UsageError
from raybench.launchers.command_words import with_folder
from raybench.launchers.kubernetes.frame import framed, unpacked, without_frame
from raybench.launchers.kubernetes.manifests import as_yaml, manifests
from raybench.launchers.kubernetes.pod_task import torchrun
from raybench.launchers.kubernetes.request import KubernetesRequest, pairs, toleration

jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = Path(__file__).parent / "schemas"
WORDS = ("run", "--suite", "all_reduce", "--env", "A=b c")


def request(**values: Any) -> KubernetesRequest:
    return KubernetesRequest(**{"image": "registry.example/raybench:1", **values})


FULL = {
    "nodes": 3,
    "gpus_per_node": 8,
    "namespace": "ml",
    "queue": "gpu-queue",
    "resources": {"rdma/rdma_shared_device_a": "1", "cpu": "64", "memory": "512Gi"},
    "tolerations": ("nvidia.com/gpu:NoSchedule", "team=ml"),
    "node_selector": {"node.kubernetes.io/instance-type": "p5.48xlarge"},
    "pull_secret": "registry",
    "host_network": True,
}


def schema_of(kind: str) -> dict[str, Any]:
    if kind == "RayJob":
        found: dict[str, Any] = json.loads(gzip.decompress((SCHEMAS / "rayjob-v1.json.gz").read_bytes()))
        return found
    definitions: dict[str, Any] = json.loads(gzip.decompress((SCHEMAS / "kubernetes-v1.34.json.gz").read_bytes()))
    place = {"Job": "io.k8s.api.batch.v1.Job", "Service": "io.k8s.api.core.v1.Service"}[kind]
    return {**definitions, "$ref": f"#/$defs/{place}"}


def check(made: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema_of(made["kind"])).validate(made)


@pytest.mark.parametrize("form", ["pods", "rayjob"])
@pytest.mark.parametrize("values", [{}, FULL, {"nodes": 2}], ids=["least", "full", "two"])
def test_objects_are_as_the_published_schemas_have_them(form: str, values: dict[str, Any]) -> None:
    made = manifests(request(form=form, **values), "raybench-1", WORDS)
    assert [one["kind"] for one in made] == (["RayJob"] if form == "rayjob" else ["Job", "Service"])
    for one in made:
        check(one)
    assert list(yaml.safe_load_all(as_yaml(made))) == made


def test_a_field_that_there_is_not_would_be_seen() -> None:
    for form in ("pods", "rayjob"):
        made = manifests(request(form=form), "raybench-1", WORDS)[0]
        made["spec"]["completionsMode"] = "Indexed"
        with pytest.raises(jsonschema.ValidationError):
            check(made)


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    spec = made["spec"]
    template = spec["template"] if "template" in spec else spec["rayClusterSpec"]["headGroupSpec"]["template"]
    pod: dict[str, Any] = template["spec"]
    return pod


@pytest.mark.parametrize("form", ["pods", "rayjob"])
def test_a_pod_has_what_training_needs(form: str) -> None:
    made = manifests(request(form=form, **FULL), "raybench-1", WORDS)[0]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu-queue"
    assert made["spec"]["suspend"] is True
    pod = pod_of(made)
    (container,) = pod["containers"]
    wanted = {"nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "1", "cpu": "64", "memory": "512Gi"}
    assert container["resources"] == {"limits": wanted, "requests": wanted}
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert pod["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(16 * 2**30)}}]
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "ml"},
    ]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"


def test_without_a_queue_nothing_waits_and_the_result_knows_its_job() -> None:
    made = manifests(request(), "raybench-1", WORDS)[0]
    assert "suspend" not in made["spec"]
    assert made["spec"]["backoffLimit"] == 0
    told = {one["name"]: one["value"] for one in pod_of(made)["containers"][0]["env"]}
    assert job_of_environment(told) == SchedulerJob(name="kubernetes", job_id="raybench-1")
    queued = manifests(request(queue="q"), "raybench-1", WORDS)[0]
    told = {one["name"]: one["value"] for one in pod_of(queued)["containers"][0]["env"]}
    assert job_of_environment(told) == SchedulerJob(name="kubernetes", job_id="raybench-1", partition="q")


def test_pods_meet_at_the_name_of_the_first() -> None:
    job, service = manifests(request(nodes=2, gpus_per_node=4), "raybench-1", WORDS)
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--master-address") + 1] == "raybench-1-0.raybench-1"
    assert command[command.index("--") + 1 :] == list(WORDS)
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    import argparse

    options = argparse.Namespace(nodes=2, ranks_per_node=4, master_address="a-0.a", master_port=29500)
    words = torchrun(options, 1, WORDS)
    assert {"--nnodes=2", "--node-rank=1", "--nproc-per-node=4", "--master-addr=a-0.a"} <= set(words)


# Both lists are tried on a real API server, too: test_api_server.py
TAKEN: list[dict[str, Any]] = [
    {"name": "a" * 40},
    {"name": "a"},
    {"namespace": "n" * 63},
    {"queue": "q" * 63},
    {"queue": "team.a"},
    {"pull_secret": "registry.example.com"},
    {"pull_secret": "s" * 60 + "." + "t" * 60},
    {"resources": {"cpu": "0.5", "memory": "1.5Gi", "hugepages-2Mi": "1Gi", "ephemeral-storage": "10G"}},
    {"resources": {"rdma/hca_shared_devices_a": "1", "vpc.amazonaws.com/efa": "32"}},
    {"gpus_per_node": 8, "gpu_resource": "amd.com/gpu"},
    {"tolerations": ("a=b:NoExecute", "key:PreferNoSchedule", "key", "example.com/a_B.c=x_Y.z", "a=:NoSchedule")},
    {"node_selector": {"a.b/c_D.e": "", "zone": "Eu-1.a_b"}},
    {"image": "registry.example:5000/a/b_c/d@sha256:" + "0" * 64},
    {"nodes": 5000, "shm_bytes": 1, "time_limit_seconds": 1},
    {"host_network": True, "nodes": 2, "gpus_per_node": 1},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "Ray_Bench"}, "--job-name"),
    ({"name": "-a"}, "--job-name"),
    ({"namespace": "n" * 64}, "--namespace"),
    ({"queue": "a/b"}, "--queue"),
    ({"queue": "q" * 64}, "--queue"),
    ({"resources": {"rdma/x": "one"}}, "--resource rdma/x=one"),
    ({"resources": {"nvidia.com/gpu": "0.5"}}, "whole number"),
    ({"resources": {"rdma/hca": "1500m"}}, "whole number"),
    ({"resources": {"gpu": "1"}}, "with a / in them"),
    ({"resources": {"Bad..Name/x": "1"}}, "--resource Bad..Name/x=1"),
    ({"gpu_resource": "gpu"}, "--gpu-resource 'gpu'"),
    ({"tolerations": ("a:Never",)}, "--toleration"),
    ({"tolerations": ("Team/x=1",)}, "--toleration"),
    ({"node_selector": {"a b": "c"}}, "--node-selector"),
    ({"node_selector": {"Team.Example/x": "1"}}, "--node-selector"),
]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        *REFUSED,
        ({"form": "helm"}, "--form 'helm'"),
        ({"nodes": 0}, "--nodes 0"),
        # what servers take, or the newest of them, and what then comes to nothing
        ({"image": "a b"}, "--image"),
        ({"image": " a"}, "--image"),
        ({"pull_secret": "a..b"}, "--image-pull-secret"),
        ({"name": "8gpus"}, "--job-name"),  # before 1.36 services begin with a letter
    ],
)
def test_what_the_api_server_would_refuse_is_refused_here(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        request(**values)


def test_what_the_api_server_takes_is_taken_here_and_fits_its_schemas() -> None:
    for values in TAKEN:
        for form in ("pods", "rayjob"):
            for made in manifests(request(form=form, **values), "raybench-1", WORDS):
                check(made)


def test_a_study_needs_ray() -> None:
    from raybench.services.launching.kubernetes import planned

    words = ("study", "scaling", "--nodes", "1,2")
    with pytest.raises(UsageError, match="--form rayjob"):
        planned(request(), words)
    assert "kind: RayJob" in planned(request(form="rayjob"), words)


def test_the_command_of_a_rayjob_is_on_all_its_nodes_unless_it_says_so_itself() -> None:
    def entry(*words: str) -> str:
        spec: str = manifests(request(form="rayjob", nodes=3), "raybench-1", words)[0]["spec"]["entrypoint"]
        return spec.partition(" -- ")[2]

    assert entry("run", "--suite", "p2p") == "run --suite p2p --nodes 3"
    assert entry("run", "--nodes=2") == "run --nodes=2"
    assert entry("study", "scaling", "--nodes", "1,2", "--", "train") == "study scaling --nodes 1,2 -- train"
    study = ("study", "scaling", "--nodes", "1,2", "--", "train")
    assert with_folder(study, Path("/r")) == [*study[:4], "--output-dir", "/r", "--", "train"]


def test_pairs_and_tolerations_are_read() -> None:
    assert pairs("resource", ("cpu=4", "rdma/a=1")) == {"cpu": "4", "rdma/a": "1"}
    with pytest.raises(UsageError, match="--resource 'cpu'"):
        pairs("resource", ("cpu",))
    assert toleration("gpu") == {"key": "gpu", "operator": "Exists"}


def results(folder: Path) -> Path:
    run = folder / "results" / "20261123-010203-abcd"
    (run / "logs").mkdir(parents=True)
    (run / "result.json").write_text('{"a": 1}')
    (run / "logs" / "nccl-rank-0.log").write_bytes(bytes(range(256)) * 400)
    return folder / "results"


def test_results_come_home_whole_through_a_log(tmp_path: Path) -> None:
    lines = ["2026-11-23T01:02:03Z some rank said this", *framed(results(tmp_path)), "RAYBENCH-EXIT 0"]
    lines = [f"2026-11-23T01:02:03.123456789Z {line}\n" for line in lines]  # kubectl logs --timestamps
    lines.insert(3, "[W1123 01:02:03] of another process\n")
    assert {path.name for path in unpacked(lines, tmp_path / "home")} == {"result.json", "nccl-rank-0.log"}
    assert (tmp_path / "home/20261123-010203-abcd/result.json").read_text() == '{"a": 1}'
    assert len(list(without_frame(lines))) == 3


def test_results_that_are_cut_damaged_or_missing_are_not_unpacked(tmp_path: Path) -> None:
    lines = list(framed(results(tmp_path)))
    begin, part = lines[1].rsplit(" ", 1)
    damaged = [*lines[:1], f"{begin} {part.swapcase()}", *lines[2:]]
    for broken, said in ((lines[:1], "are cut"), (damaged, "are damaged"), (["nothing"], "has no results")):
        with pytest.raises(IncompleteRunError, match=said):
            unpacked(broken, tmp_path / "home")
    assert not list((tmp_path / "home").glob("*")) if (tmp_path / "home").exists() else True


@pytest.mark.parametrize("name", ["../out", "/etc/out"])
def test_an_archive_of_others_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    import base64
    import hashlib
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    data = buffer.getvalue()
    begin = f"RAYBENCH-RESULTS begin lines=1 sha256={hashlib.sha256(data).hexdigest()}"
    with pytest.raises(IncompleteRunError):
        unpacked([begin, f"RAYBENCH-RESULTS 0 {base64.b64encode(data).decode()}"], tmp_path / "home")
    assert not (tmp_path / "out").exists()
    assert not Path("/etc/out").exists()
