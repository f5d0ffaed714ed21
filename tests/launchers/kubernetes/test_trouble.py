"""Pods that do not start or have ended: recorded messages of public threads, and near misses that mean nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from raybench.launchers.kubernetes.trouble import Sign, of_kubectl, troubles

SIGNS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "signs.json").read_text())


def sign(reason: str, message: str = "", exit_code: int | None = None, subject: str = "pod/a-0") -> Sign:
    return Sign(subject=subject, reason=reason, message=message, exit_code=exit_code)


@pytest.mark.parametrize("case", SIGNS, ids=[f"{case['source'].split('.com/')[1]}" for case in SIGNS])
def test_what_was_said_in_a_thread_is_explained(case: dict[str, Any]) -> None:
    (found,) = troubles([sign(case["reason"], case.get("message", ""), case.get("exit_code"))])
    assert found.kind == case["kind"]
    for part in case["said"]:
        assert part in found.text()


@pytest.mark.parametrize(
    "near_miss",
    [
        sign("Scheduled", "Successfully assigned default/a-0 to gpu-01"),
        sign("Pulling", 'Pulling image "registry.example/raybench:1"'),
        sign("Pulled", 'Successfully pulled image "gcr.io/kubebuilder/kube-rbac-proxy:v0.8.0" in 49.915187883s'),
        sign("Completed", exit_code=0),
        sign("Error", exit_code=1),  # raybench found a problem: its own report says which
        sign("Error", exit_code=3),
        sign("Failed", "Job has reached the specified backoff limit"),
        sign("FailedCreate", 'Error creating: Post "https://10.0.0.1:443/api": dial tcp: connect: timed out'),
        sign("ContainerCreating"),
        sign("Started", "Started container OOMKilled"),  # a name is no reason
    ],
    ids=lambda one: one.reason,
)
def test_what_is_no_trouble_is_not_told(near_miss: Sign) -> None:
    assert troubles([near_miss]) == []


def test_what_may_yet_start_is_told_apart_from_what_never_does() -> None:
    waiting = sign("QuotaReserved", "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed")
    never = sign(
        "QuotaReserved", "insufficient quota for nvidia.com/gpu in flavor h100, request > maximum capacity (24 > 16)"
    )
    found = troubles([waiting, never])
    assert [one.waits for one in found] == [False, True]


def test_the_cause_goes_before_what_follows_from_it() -> None:
    loop = sign("CrashLoopBackOff", "back-off 10s restarting failed container")
    assert [one.kind for one in troubles([loop, sign("OOMKilled", exit_code=137)])] == ["out-of-memory"]
    back_off = sign("ImagePullBackOff", 'Back-off pulling image "a:1"')
    exact = sign("Failed", 'Failed to pull image "a:1": manifest unknown')
    (found,) = troubles([back_off, exact])
    assert "is not in the registry" in found.what
    elsewhere = sign("OOMKilled", exit_code=137, subject="pod/a-1")
    assert len(troubles([loop, elsewhere])) == 2


def test_what_kubectl_refuses_is_explained_where_it_is_known() -> None:
    missing = of_kubectl(
        'error: resource mapping not found for name: "a" namespace: "" from "STDIN": no matches for kind "RayJob" in '
        'version "ray.io/v1"\nensure CRDs are installed first\n'
    )
    assert missing is not None
    assert "does not know RayJob" in missing.what
    removed = of_kubectl(
        'Error from server (NotFound): error when creating "STDIN": the server could not find the requested resource '
        "(post rayjobs.ray.io)"
    )
    assert removed is not None
    assert "does not know rayjobs" in removed.what
    refused = of_kubectl(
        'Error from server (Forbidden): jobs.batch is forbidden: User "ann" cannot create resource "jobs" in API group '
        '"batch" in the namespace "ml"'
    )
    assert refused is not None
    assert refused.kind == "forbidden"


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (  # kubectl 1.27, where nothing is configured
            'Get "http://localhost:8080/openapi/v2": dial tcp 127.0.0.1:8080: refused; turn it off: --validate=false',
            " at localhost:8080 (",
        ),
        (
            "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host?",
            " at 10.0.0.1:6443",
        ),
        (
            "Unable to connect to the server: dial tcp: lookup api.example on 10.0.0.2:53: no such host",
            " at api.example",
        ),
        ("Unable to connect to the server: net/http: TLS handshake timeout", "no cluster (net/http"),
    ],
)
def test_a_cluster_that_does_not_answer_is_told_with_what_to_set(said: str, where: str) -> None:
    found = of_kubectl(said)
    assert found is not None
    assert (found.kind, where in found.what, "--validate" in found.what) == ("unreachable", True, False)
    assert "KUBECONFIG" in found.advice


def test_a_server_that_reaches_no_webhook_did_answer() -> None:
    said = (
        'Error from server (InternalError): Internal error occurred: failed calling webhook "mjob.kb.io": failed to '
        'call webhook: Post "https://kueue-webhook.svc:443/mutate": dial tcp 10.1.2.3:443: connect: connection refused'
    )
    assert of_kubectl(said) is None


def test_texts_of_others_are_cut_and_plain() -> None:
    (found,) = troubles([sign("FailedMount", "\x1b[31m" + "x" * 5000)])
    assert "\x1b" not in found.text()
    assert len(found.text()) < 1000
