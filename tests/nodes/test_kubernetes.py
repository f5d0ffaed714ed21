"""What Kubernetes is told: raybench's own taint, label and condition alone, valid by the API's published schema."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from raybench.errors import IncompleteRunError
from raybench.nodes.intent import Policy, intents_of
from raybench.nodes.kubernetes import CONDITION, LABEL, TAINT, json_patches, planned, read_nodes, refusal
from raybench.verdicts import NodeState

from .reports import BAD, host, report, report_of

AT = "2026-11-23T12:00:10Z"
SCHEMA = json.loads((Path(__file__).parent / "schemas/node-v1.32.json").read_text())
OURS = {"key": TAINT, "value": "gpu-rows", "effect": "NoSchedule"}
THEIRS = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-20T00:00:00Z"}


def node(name: str, *taints: Mapping[str, str], unschedulable: bool = False, **conditions: str) -> dict[str, Any]:
    own = [
        {"type": kind, "status": status, "lastTransitionTime": "2026-11-01T00:00:00Z"}
        for kind, status in {"Ready": "True", **conditions}.items()
    ]
    spec = {"taints": list(taints)} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, "resourceVersion": "77"},
        "spec": {**spec, **({"unschedulable": True} if unschedulable else {})},
        "status": {"conditions": own, "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]},
    }


def said(*nodes: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})


def patched(before: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """The node after a JSON patch: test, add and replace, as RFC 6902 has them."""
    after: dict[str, Any] = json.loads(json.dumps(before))
    for one in patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:]]
        target: Any = after
        for part in way:
            target = target[int(part)] if isinstance(target, list) else target[part]
        if one["op"] == "test":
            assert target[last] == one["value"]
        elif isinstance(target, list):
            target.append(one["value"]) if last == "-" else target.__setitem__(int(last), one["value"])
        else:
            assert one["op"] == "add" or last in target
            target[last] = one["value"]
    return after


@pytest.mark.parametrize(
    ("state", "taints", "step", "left"),
    [
        ("drain", [], "drain", [OURS]),
        ("drain", [THEIRS], "drain", [THEIRS, OURS]),
        ("drain", [OURS], "none", [OURS]),
        ("healthy", [], "none", []),
        ("healthy", [OURS], "resume", []),
        ("healthy", [THEIRS, OURS], "resume", [THEIRS]),
        ("healthy", [THEIRS], "none", [THEIRS]),
        ("degraded", [OURS], "none", [OURS]),
        ("unknown", [OURS], "none", [OURS]),
        ("unknown", [], "none", []),
    ],
)
def test_only_the_taint_of_raybench_comes_and_goes(
    state: NodeState, taints: list[dict[str, str]], step: str, left: list[dict[str, str]]
) -> None:
    before = node("gpu-01", *taints)
    nodes, intents = read_nodes(said(before)), intents_of(report({"gpu-01": state}), Policy())
    (action,) = planned(intents, nodes, at=AT)
    assert action.step == step
    taint = [words for words in action.commands if words[1] == "taint"]
    assert len(taint) == (step != "none")
    of_node, of_status = json_patches(intents[0], action, nodes["gpu-01"], AT)
    after = patched(patched(before, of_node["patch"]), of_status["patch"])
    assert [{**one, "value": "gpu-rows"} if one["key"] == TAINT else one for one in after["spec"]["taints"]] == left
    assert after["metadata"]["labels"] == {"kubernetes.io/hostname": "gpu-01", LABEL: state}
    assert [one["type"] for one in after["status"]["conditions"]] == ["Ready", CONDITION]
    jsonschema.validate(after, SCHEMA)


def test_the_schema_refuses_what_is_no_node() -> None:
    for wrong in ({"spec": {"taints": [{"key": "x"}]}}, {"status": {"conditions": [{"type": 1}]}}, {"specs": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ("drain", "True", "GpuRows"),
        ("healthy", "False", "Healthy"),
        ("degraded", "False", "GpuTemperature"),
        ("unknown", "Unknown", "GpuEcc"),
    ],
)
def test_the_condition_says_the_state_and_keeps_its_time(state: NodeState, status: str, reason: str) -> None:
    for before in ("True", "False", "Unknown"):
        nodes = read_nodes(said(node("gpu-01", **{CONDITION: before})))
        (action,) = planned(intents_of(report({"gpu-01": state}), Policy()), nodes, at=AT)
        patch = json.loads(action.commands[-1][-1].removeprefix("--patch="))
        (condition,) = patch["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (CONDITION, status, reason)
        assert condition["lastTransitionTime"] == ("2026-11-01T00:00:00Z" if before == status else AT)
        assert condition["lastHeartbeatTime"] == AT


def test_nodes_are_found_by_address_and_a_foreign_name_is_none() -> None:
    nodes = read_nodes(said(node("gpu-01")))
    (action,) = planned(intents_of(report({"10.0.0.7": "drain"}), Policy()), nodes, at=AT)
    assert (action.node, action.step) == ("gpu-01", "drain")
    (action,) = planned(intents_of(report({"gpu-99": "drain"}), Policy()), nodes, at=AT)
    assert (action.node, action.step, action.commands) == ("", "none", ())


@pytest.mark.parametrize("name", ["--all", "a b", "Gpu_01", "-l x", "a/b"])
def test_without_a_cluster_a_name_that_is_an_option_is_no_node(name: str) -> None:
    (action,) = planned(intents_of(report({name: "drain"}), Policy()), None, at=AT)
    assert (action.step, action.commands) == ("none", ())


def test_a_mass_drain_is_refused() -> None:
    nodes = read_nodes(said(*(node(f"n{number}") for number in range(20)), node("n20", OURS)))
    actions = planned(intents_of(report(dict.fromkeys(("n1", "n2"), "drain")), Policy()), nodes, at=AT)
    assert "2 nodes would be drained beside 1" in refusal(actions, nodes, "10%")
    assert refusal(actions, nodes, "3") == ""


def test_what_a_host_wrote_stays_text() -> None:
    bad = [BAD["drain"].__class__(check="gpu-rows", verdict="fail", seen='"}]}}\n--x $(y) \x1b[31m' + "z" * 5000)]
    intents = intents_of(report_of([host("gpu-01", "drain", checks=bad)]), Policy())
    (action,) = planned(intents, read_nodes(said(node("gpu-01"))), at=AT)
    patch = json.loads(action.commands[-1][-1].removeprefix("--patch="))
    assert len(patch["status"]["conditions"][0]["message"]) <= 1024


def test_an_answer_of_another_form_is_not_taken_for_no_nodes() -> None:
    for answer in ("", "{}", "error: You must be logged in", '{"items": [{"metadata": {}}]}'):
        with pytest.raises(IncompleteRunError):
            read_nodes(answer)
