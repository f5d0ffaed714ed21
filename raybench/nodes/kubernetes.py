"""Kubernetes: what kubectl says of nodes, and the taint, label and condition that a node gets. Pure.

- The taint ``raybench/drain=CHECK:NoSchedule`` keeps new pods away; running ones stay. Only this one is ever taken away
  again: a taint or a cordon of somebody else is theirs.
- The label ``raybench/node-state`` has the state as it is now.
- The condition ``RaybenchDrain`` is True for a node that is to be drained, False for one that is healthy or degraded,
  Unknown for one that is unknown, with the gravest reason, for tools that act on conditions (node-problem-detector's
  convention: True is a problem).
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from raybench.documents.node_actions import NodeAction, NodeStep
from raybench.errors import IncompleteRunError
from raybench.nodes.intent import Intent, too_many
from raybench.nodes.naming import nodes_by_host
from raybench.verdicts import NodeState

GET = ("kubectl", "get", "nodes", "-o", "json")
TAINT, LABEL, CONDITION = "raybench/drain", "raybench/node-state", "RaybenchDrain"
_EFFECT = "NoSchedule"
_STATUS: Mapping[NodeState, str] = {"drain": "True", "healthy": "False", "degraded": "False", "unknown": "Unknown"}
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")  # a DNS subdomain, as the API server takes it
_MOST_MESSAGE = 1024


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str] = {}
    resourceVersion: str = ""  # noqa: N815 - as the API names it


class _Spec(msgspec.Struct, frozen=True):
    taints: list[dict[str, Any]] = []
    unschedulable: bool = False


class _Address(msgspec.Struct, frozen=True):
    address: str


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: str | None = None  # noqa: N815 - as the API names it
    lastHeartbeatTime: str | None = None  # noqa: N815


class _Status(msgspec.Struct, frozen=True):
    addresses: list[_Address] = []
    conditions: list[_Condition] = []


class KubernetesNode(msgspec.Struct, frozen=True):
    """A node as kubectl has it; what is not used here is not read."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def ours(self) -> bool:
        """Whether raybench keeps pods away from it."""
        return any((taint.get("key"), taint.get("effect")) == (TAINT, _EFFECT) for taint in self.spec.taints)

    @property
    def condition(self) -> _Condition | None:
        """Raybench's condition."""
        return next((one for one in self.status.conditions if one.type == CONDITION), None)


class _Nodes(msgspec.Struct, frozen=True):
    items: list[KubernetesNode]


def read_nodes(said: str) -> dict[str, KubernetesNode]:
    """The nodes of kubectl's answer by name. Raises IncompleteRunError for an answer of another form."""
    try:
        found = msgspec.json.decode(said.encode(errors="replace"), type=_Nodes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise IncompleteRunError(f"kubectl's answer is not a list of nodes: {error}") from error
    return {node.metadata.name: node for node in found.items}


def planned(
    intents: Sequence[Intent], nodes: Mapping[str, KubernetesNode] | None, *, at: str, by_hostname: bool = False
) -> tuple[NodeAction, ...]:
    """What each node gets; ``at`` is when it was judged. ``nodes`` is None where kubectl gave no answer."""
    if nodes is None:
        return tuple(_unchecked(one, at) for one in intents)
    names = {name: [one.address for one in node.status.addresses] for name, node in nodes.items()}
    found = nodes_by_host(intents, names, by_hostname=by_hostname)
    return tuple(_action(one, nodes.get(found[one.host][0]), found[one.host][1], at) for one in intents)


def refusal(actions: Sequence[NodeAction], nodes: Mapping[str, KubernetesNode], limit: str) -> str:
    """Why so much is not done at once; empty where it may be."""
    drained = sum(node.ours for node in nodes.values()) - sum(one.step == "resume" for one in actions)
    return too_many(drained, sum(one.step == "drain" for one in actions), limit, len(nodes))


def _unchecked(one: Intent, at: str) -> NodeAction:
    if _NAME.fullmatch(one.host) is None:
        why = "not the name of a node; call this where kubectl reaches the cluster"
        return NodeAction(host=one.host, node="", state=one.state, step="none", why=why)
    step: NodeStep = "drain" if one.step == "drain" else "none"
    told = "whether raybench drained it cannot be told without kubectl" if one.step == "resume" else one.why
    commands = (*_taint_commands(one.host, one, step), *_telling(one.host, one, None, at))
    return NodeAction(host=one.host, node=one.host, state=one.state, step=step, why=told, commands=commands)


def _action(one: Intent, node: KubernetesNode | None, why_none: str, at: str) -> NodeAction:
    if node is None:
        return NodeAction(host=one.host, node="", state=one.state, step="none", why=why_none)
    step, why = _decided(one, node)
    name = node.metadata.name
    commands = (*_taint_commands(name, one, step), *_telling(name, one, node, at))
    return NodeAction(host=one.host, node=name, state=one.state, step=step, why=why, commands=commands)


def _decided(one: Intent, node: KubernetesNode) -> tuple[NodeStep, str]:
    if one.step == "drain":
        return ("none", f"raybench drained it already: {one.why}") if node.ours else ("drain", one.why)
    if not node.ours:
        theirs = (
            "; cordoned or tainted by somebody else, left so" if node.spec.unschedulable or node.spec.taints else ""
        )
        return "none", f"{one.why}{theirs}"
    if one.step == "resume":
        return "resume", f"raybench drained it, and it is {one.state}"
    return "none", f"drained by raybench, and left so: {one.why}"


def _taint_commands(node: str, one: Intent, step: NodeStep) -> tuple[tuple[str, ...], ...]:
    if step == "drain":
        return (("kubectl", "taint", "nodes", node, f"{TAINT}={_value(one)}:{_EFFECT}", "--overwrite"),)
    return (("kubectl", "taint", "nodes", node, f"{TAINT}:{_EFFECT}-"),) if step == "resume" else ()


def _value(one: Intent) -> str:
    """The check, as the value of a taint: it begins and ends with a letter or number, and has at most 63."""
    check = one.reasons[0].check if one.reasons else "drain"
    return re.sub(r"[^A-Za-z0-9_.-]", "-", check)[:63].strip("-_.") or "drain"


def _telling(node: str, one: Intent, now: KubernetesNode | None, at: str) -> tuple[tuple[str, ...], ...]:
    """Label and condition, where the node does not say so already, whether or not anything is drained."""
    condition = condition_of(one, now, at)
    patch = json.dumps({"status": {"conditions": [condition]}}, sort_keys=True)
    label = ("kubectl", "label", "nodes", node, f"{LABEL}={one.state}", "--overwrite")
    told = ("kubectl", "patch", "node", node, "--subresource=status", "--type=strategic", f"--patch={patch}")
    labelled = now is not None and now.metadata.labels.get(LABEL) == one.state
    return (*(() if labelled else (label,)), *(() if _is_told(now, condition) else (told,)))


def _is_told(now: KubernetesNode | None, condition: Mapping[str, str]) -> bool:
    """Whether the node has the condition, and from within the same hour: a call of kubectl each costs a while."""
    found = now.condition if now is not None else None
    if (
        found is None
        or not found.lastHeartbeatTime
        or found.lastHeartbeatTime[:13] != condition["lastHeartbeatTime"][:13]
    ):
        return False
    return (found.status, found.reason, found.message) == tuple(
        condition[key] for key in ("status", "reason", "message")
    )


def condition_of(one: Intent, now: KubernetesNode | None, at: str) -> dict[str, str]:
    """Raybench's condition of a node; the time of the transition stays where the status does."""
    status = _STATUS[one.state]
    before = now.condition if now is not None else None
    since = before.lastTransitionTime if before is not None and before.status == status else None
    return {
        "type": CONDITION,
        "status": status,
        "reason": _camel(one),
        "message": (one.brief or one.why)[:_MOST_MESSAGE],
        "lastHeartbeatTime": at,
        "lastTransitionTime": since or at,
    }


def _camel(one: Intent) -> str:
    """``GpuRows`` of ``gpu-rows``; the state where no check is against the node."""
    text = one.reasons[0].check if one.reasons else one.state
    words = re.findall(r"[A-Za-z0-9]+", text)
    return "".join(word.capitalize() for word in words)[:128] or "Unknown"


def json_patches(one: Intent, action: NodeAction, node: KubernetesNode, at: str) -> list[dict[str, Any]]:
    """The same as JSON patches (RFC 6902), of the node and of its status, for those who talk to the API server.

    The first operation tests the version that was read: where the node has changed since, nothing is patched.
    """
    taints = [taint for taint in node.spec.taints if (taint.get("key"), taint.get("effect")) != (TAINT, _EFFECT)]
    if action.step == "drain" or (node.ours and action.step != "resume"):
        taints.append({"key": TAINT, "value": _value(one), "effect": _EFFECT})
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": node.metadata.resourceVersion}
    labels = {**node.metadata.labels, LABEL: one.state}
    conditions = [index for index, each in enumerate(node.status.conditions) if each.type == CONDITION]
    own: Any = condition_of(one, node, at)
    place, value = (f"/{conditions[0]}" if conditions else "/-", own) if node.status.conditions else ("", [own])
    written = {"op": "replace" if conditions else "add", "path": f"/status/conditions{place}", "value": value}
    return [
        {"node": node.metadata.name, "subresource": "", "patch": [
            version,
            {"op": "add", "path": "/metadata/labels", "value": labels},
            {"op": "add", "path": "/spec/taints", "value": taints},
        ]},
        {"node": node.metadata.name, "subresource": "status", "patch": [
            written,
        ]},
    ]  # fmt: skip
