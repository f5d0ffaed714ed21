"""The real kubectl, told by ``nodes kubernetes --apply``, against a simulator of the API server."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from raybench.nodes.kubernetes import CONDITION, LABEL, TAINT
from raybench.services.nodes.judged import ActOptions
from raybench.services.nodes.kubernetes import act, patches
from raybench.verdicts import NodeState

from .kube_api import node_server
from .reports import report
from .test_kubernetes import OURS, SCHEMA, THEIRS, node

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def use(server: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig of the simulator, and a cache of its own."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.setenv("HOME", str(folder))


def condition(found: dict[str, Any]) -> str:
    return next(one["status"] for one in found["status"]["conditions"] if one["type"] == CONDITION)


def test_a_bad_node_is_tainted_and_given_back_and_others_taints_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: dict[str, NodeState] = {"bad": "drain", "was-bad": "healthy", "lost": "unknown", "theirs": "healthy"}
    before = [
        node("bad", THEIRS),
        node("was-bad", OURS),
        node("lost", OURS),
        node("theirs", THEIRS, unschedulable=True),
    ]
    options = ActOptions(apply=True, most_drained="4")
    with node_server(before) as server:
        use(server, tmp_path, monkeypatch)
        judged = report(states, now())
        dry = act(judged, ActOptions(most_drained="4"))
        assert (dry.applied, dry.unchecked, server.requests) == (False, "", [])
        done = act(judged, options)
        assert [(one.node, one.step, one.done, one.error) for one in done.actions] == [
            ("bad", "drain", True, ""), ("was-bad", "resume", True, ""), ("lost", "none", True, ""),
            ("theirs", "none", True, ""),
        ]  # fmt: skip
        assert done.exit_code == 1
        keys = {
            name: sorted(one["key"] for one in found["spec"].get("taints") or [])
            for name, found in server.nodes.items()
        }
        assert keys == {"bad": [THEIRS["key"], TAINT], "was-bad": [], "lost": [TAINT], "theirs": [THEIRS["key"]]}
        assert {name: found["metadata"]["labels"][LABEL] for name, found in server.nodes.items()} == states
        assert {name: condition(found) for name, found in server.nodes.items()} == {
            "bad": "True", "was-bad": "False", "lost": "Unknown", "theirs": "False"
        }  # fmt: skip
        assert server.nodes["theirs"]["spec"]["unschedulable"] is True
        assert THEIRS in server.nodes["bad"]["spec"]["taints"]
        for found in server.nodes.values():
            assert [one["type"] for one in found["status"]["conditions"]] == ["Ready", CONDITION]
            jsonschema.validate(found, SCHEMA)
        again = act(judged, options)
        assert [(one.step, one.commands) for one in again.actions] == [("none", ())] * 4, "all is told already"
        assert len(patches(judged, ActOptions())) == 2 * len(states)


def test_what_the_api_server_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_server([node("bad")]) as server:
        use(server, tmp_path, monkeypatch)
        monkeypatch.setattr("tests.nodes.kube_api._Handler.do_PATCH", lambda self: self._refuse(403, "Forbidden", "no"))
        done = act(report({"bad": "drain"}, now()), ActOptions(apply=True))
    (one,) = done.actions
    assert (one.done, done.exit_code) == (False, 3)
    assert "no" in one.error


def test_a_dry_run_without_a_cluster_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_server([]) as server:
        use(server, tmp_path, monkeypatch)
    dry = act(report({"bad": "drain"}, now()), ActOptions())
    assert "did not answer" in dry.unchecked
    assert [one.step for one in dry.actions] == ["drain"]
