"""Manifests taken by a real API server, by an account that has no more than docs/launch.md asks, and read back."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.launchers.kubernetes.manifests import manifests
from raybench.launchers.kubernetes.request import KubernetesRequest
from raybench.processes.interrupt import Interrupt
from raybench.services.launching.kubernetes import follow, submit
from tests.lab.kubernetes.server import ApiServer, act_as_user, server_with_account

from .test_manifests import FULL, REFUSED, SCHEMAS, TAKEN, request

pytestmark = pytest.mark.long
INDEXED = (1, 24)  # Indexed Jobs are in every cluster since
WORDS = ("run", "--suite", "all_reduce", "--env", "A=b c")
RIGHTS = [
    {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list"]},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with server_with_account(tmp_path_factory.mktemp("api"), RIGHTS) as running:
        running.define(rayjob_definition(running))
        running.create(
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}} for one in ("ml", "n" * 63))
        )
        yield running


@pytest.fixture(autouse=True)
def _account(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    act_as_user(server, monkeypatch)


def rayjob_definition(server: ApiServer) -> dict[str, Any]:
    """KubeRay's, of the published schema, by which unknown fields are refused."""
    schema = open_(json.loads(gzip.decompress((SCHEMAS / "rayjob-v1.json.gz").read_bytes())))
    if server.version < (1, 25):
        schema = without(schema, {"x-kubernetes-validations", "default"})
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "RayJob", "plural": "rayjobs", "singular": "rayjob", "listKind": "RayJobList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayjobs.ray.io"},
        "spec": {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def open_(schema: Any) -> Any:
    """As a definition has it: no ``additionalProperties: false`` beside properties, and its word for two types."""
    if isinstance(schema, list):
        return [open_(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("type"), list):
        return {"x-kubernetes-int-or-string": True}
    return {key: open_(value) for key, value in schema.items() if (key, value) != ("additionalProperties", False)}


def without(schema: Any, words: set[str]) -> Any:
    """Without what older servers do not know."""
    if isinstance(schema, list):
        return [without(one, words) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without(value, words) for key, value in schema.items() if key not in words}


def needs_indexed_jobs(server: ApiServer, form: str) -> None:
    if form == "pods" and server.version < INDEXED:
        pytest.skip(f"Kubernetes {server.version[0]}.{server.version[1]} has no Indexed Jobs")


def missing(made: Any, found: Any, where: str = "") -> list[str]:
    """What was given and is not there as it was given; what the server added is its own."""
    if isinstance(made, dict):
        return [text for key, value in made.items() for text in missing(value, found.get(key), f"{where}.{key}")]
    if isinstance(made, list) and isinstance(found, list) and len(made) == len(found):
        return [text for pair in zip(made, found, strict=True) for text in missing(*pair, f"{where}[]")]
    return [] if made == found else [f"{where}: {made!r} became {found!r}"]


@pytest.mark.parametrize("form", ["pods", "rayjob"])
@pytest.mark.parametrize("values", [{}, FULL, {"nodes": 2}], ids=["least", "full", "two"])
def test_objects_are_taken_and_stored_as_they_were_made(server: ApiServer, form: str, values: dict[str, Any]) -> None:
    needs_indexed_jobs(server, form)
    asked = request(form=form, **values)
    job = submit(asked, WORDS)
    for made in manifests(asked, job, WORDS):
        place = ["--namespace", asked.namespace or "default"]
        found = server.get(made["kind"].lower(), job, *place)
        assert missing(made, found) in ([], [QUANTITY]), "nothing is dropped or changed"
        server.kubectl("delete", made["kind"].lower(), job, *place)


def unchecked(text: str) -> dict[str, str]:
    key, _, effect = text.rpartition(":")
    return {"key": key, "operator": "Exists", "effect": effect} if key else {"key": text.partition("=")[0]}


def dry_run(server: ApiServer, asked: KubernetesRequest) -> str:
    """What kubectl says of the manifests. Raises AssertionError where the server refuses them."""
    made = manifests(asked, f"{asked.name}-3f9a21", WORDS)
    content = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    words = ("create", "--validate=strict", "--dry-run=server", "--namespace", asked.namespace or "default")
    return server.kubectl(*words, "-f", "-", text_in=content)


# The server writes quantities in its own way: the same number of bytes.
QUANTITY = ".spec.template.spec.volumes[].emptyDir.sizeLimit: '17179869184' became '16Gi'"


@pytest.mark.parametrize("form", ["pods", "rayjob"])
@pytest.mark.parametrize("values", TAKEN, ids=str)
def test_what_raybench_takes_the_server_takes(server: ApiServer, form: str, values: dict[str, Any]) -> None:
    needs_indexed_jobs(server, form)
    lines = dry_run(server, request(form=form, **values)).splitlines()
    assert lines
    assert all(line.endswith("created (server dry run)") for line in lines)


@pytest.mark.parametrize("values", [values for values, _ in REFUSED], ids=str)
def test_what_raybench_refuses_the_server_would_refuse(
    server: ApiServer, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_indexed_jobs(server, "pods")
    asked = request(gpus_per_node=int("gpu_resource" in values))
    for field, value in values.items():
        object.__setattr__(asked, field, value)  # past what checks it
    if "tolerations" in values:
        monkeypatch.setattr("raybench.launchers.kubernetes.manifests.toleration", unchecked)
    with pytest.raises((AssertionError, UsageError), match=r"invalid|Invalid|must|NotFound|not found|Unsupported"):
        dry_run(server, asked)


def test_a_job_is_followed_to_its_end_with_what_keeps_its_pods(server: ApiServer, tmp_path: Path) -> None:
    needs_indexed_jobs(server, "pods")
    asked = request(nodes=2, namespace="ml")
    job = submit(asked, WORDS)
    pod = manifests(asked, job, WORDS)[0]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **pod}
    pod["metadata"] |= {"name": f"{job}-0-x2x4v", "namespace": "ml"}
    server.create(pod)
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    told = {"status": {"conditions": [{**waits, "message": message}]}}
    server.kubectl("patch", "pod", pod["metadata"]["name"], "-n", "ml", "--subresource=status", "-p", json.dumps(told))
    ended = [{"type": kind, "status": "True", "reason": "DeadlineExceeded"} for kind in ("FailureTarget", "Failed")]
    status = {"status": {"startTime": "2026-11-23T12:00:00Z", "conditions": ended}}
    server.kubectl("patch", "job", job, "-n", "ml", "--subresource=status", "-p", json.dumps(status))
    said: list[str] = []
    launched = follow(asked, job, interrupt=Interrupt(), say=said.append, output_dir=tmp_path)
    assert any("2 nodes without enough free nvidia.com/gpu" in line for line in said), said
    assert (launched.exit_code, launched.results) == (3, ())
    assert "DeadlineExceeded" in launched.reason


def test_a_rayjob_without_kuberay_is_refused_with_the_next_step(server: ApiServer, tmp_path: Path) -> None:
    definition = rayjob_definition(server)
    server.kubectl("delete", "crd", "rayjobs.ray.io")
    try:
        with pytest.raises(UsageError, match="does not know rayjobs"):
            submit(request(form="rayjob"), WORDS)
    finally:
        server.define(definition)
