"""Nodes of a real API server tainted, labelled and given a condition, by an account of the rights in docs/nodes.md."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.preflight import CheckResult
from raybench.nodes.kubernetes import CONDITION, LABEL, TAINT
from raybench.services.nodes.judged import ActOptions
from raybench.services.nodes.kubernetes import act, patches
from raybench.verdicts import NodeState
from tests.lab.kubernetes.server import ApiServer, act_as_user, server_with_account

from .reports import host, report, report_of
from .test_kubernetes import OURS, THEIRS

pytestmark = pytest.mark.long
_RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]},
]
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with server_with_account(tmp_path_factory.mktemp("api"), _RIGHTS) as running:
        yield running


@pytest.fixture(autouse=True)
def _nodes_and_account(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    act_as_user(server, monkeypatch)
    yield
    server.kubectl("delete", "nodes", "--all")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(server: ApiServer, name: str, *taints: dict[str, str], unschedulable: bool = False) -> None:
    """A node, as its kubelet registers and then reports it."""
    spec = {"taints": list(taints), "unschedulable": unschedulable}
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec})
    status = {"conditions": [_READY], "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}
    server.kubectl("patch", "node", name, "--subresource=status", "--patch", json.dumps({"status": status}))


def node(server: ApiServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.get("node", name)
    return found


def keys(found: dict[str, Any]) -> list[str]:
    return sorted(one["key"] for one in found["spec"].get("taints") or [])


def condition(found: dict[str, Any]) -> dict[str, str]:
    conditions: list[dict[str, str]] = found["status"]["conditions"]
    (own,) = [one for one in conditions if one["type"] == CONDITION]
    return own


def test_a_bad_node_is_tainted_and_given_back_and_others_taints_stay(server: ApiServer) -> None:
    states: dict[str, NodeState] = {"bad": "drain", "was-bad": "healthy", "lost": "unknown", "theirs": "healthy"}
    make(server, "bad", THEIRS)
    make(server, "was-bad", OURS)
    make(server, "lost", OURS)
    make(server, "theirs", THEIRS, unschedulable=True)
    before = {name: node(server, name) for name in states}
    judged, options = report(states, now()), ActOptions(apply=True, most_drained="4")
    assert act(judged, ActOptions(most_drained="4")).applied is False
    assert {name: node(server, name) for name in states} == before, "a dry run changes nothing"
    done = act(judged, options)
    assert [(one.node, one.step, one.done, one.error) for one in done.actions] == [
        ("bad", "drain", True, ""), ("was-bad", "resume", True, ""), ("lost", "none", True, ""),
        ("theirs", "none", True, ""),
    ]  # fmt: skip
    after = {name: node(server, name) for name in states}
    assert {name: keys(one) for name, one in after.items()} == {
        "bad": [THEIRS["key"], TAINT], "was-bad": [], "lost": [TAINT], "theirs": [THEIRS["key"]]
    }  # fmt: skip
    assert {name: one["metadata"]["labels"][LABEL] for name, one in after.items()} == states
    assert {name: condition(one)["status"] for name, one in after.items()} == {
        "bad": "True", "was-bad": "False", "lost": "Unknown", "theirs": "False"
    }  # fmt: skip
    assert after["theirs"]["spec"]["unschedulable"] is True
    assert all(_READY["type"] in {one["type"] for one in each["status"]["conditions"]} for each in after.values())
    assert [(one.step, one.commands) for one in act(judged, options).actions] == [("none", ())] * 4


def test_json_patches_do_the_same_and_only_while_the_node_is_as_it_was_read(server: ApiServer) -> None:
    make(server, "bad", THEIRS)
    make(server, "good", OURS)
    judged = report({"bad": "drain", "good": "healthy"}, now())
    made = patches(judged, ActOptions())
    stale = json.dumps(made[0]["patch"])
    for one in made:
        place = [f"--subresource={one['subresource']}"] if one["subresource"] else []
        server.kubectl("patch", "node", one["node"], *place, "--type=json", "--patch", json.dumps(one["patch"]))
    bad, good = node(server, "bad"), node(server, "good")
    assert (keys(bad), keys(good)) == ([THEIRS["key"], TAINT], [])
    assert (condition(bad)["status"], condition(good)["status"]) == ("True", "False")
    assert (bad["metadata"]["labels"][LABEL], good["metadata"]["labels"][LABEL]) == ("drain", "healthy")
    with pytest.raises(AssertionError, match=r"[Tt]est|invalid|the server rejected"):
        server.kubectl("patch", "node", "bad", "--type=json", "--patch", stale)


@pytest.mark.parametrize(
    "check", ["x" * 300, "-gpu.rows_", "gpu rows; $(id) `id` \"'\\", "größe-ß", "../..", "123", "\u202e\x00\x1b[31m"]
)
def test_whatever_a_report_says_is_taken_by_the_api_server(server: ApiServer, check: str) -> None:
    make(server, "bad")
    said = f"{check} " * 300
    failed = CheckResult(check=check, verdict="fail", seen=said, effect="drain")
    done = act(report_of([host("bad", "drain", checks=[failed])], now()), ActOptions(apply=True, most_drained="1"))
    (one,) = done.actions
    assert (one.step, one.done, one.error) == ("drain", True, "")
    found = node(server, "bad")
    assert keys(found) == [TAINT]
    assert condition(found)["status"] == "True"


def test_an_account_without_the_right_changes_nothing_and_says_so(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(server, "bad")
    before = node(server, "bad")
    config = json.loads(server.user.read_text())
    config["users"][0]["user"]["token"] = "nobody's"
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    dry = act(report({"bad": "drain"}, now()), ActOptions())
    assert "Unauthorized" in dry.unchecked or "logged in" in dry.unchecked
    assert node(server, "bad") == before
