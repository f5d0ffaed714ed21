"""Nodes of Kubernetes tainted, labelled and given a condition by their verdicts; a dry run unless ``apply`` is said."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from raybench.documents.node_actions import NodeAction, NodeActions
from raybench.documents.preflight import PreflightReport
from raybench.errors import IncompleteRunError
from raybench.nodes.intent import Intent, Policy, intents_of
from raybench.nodes.kubernetes import GET, KubernetesNode, json_patches, planned, read_nodes, refusal
from raybench.services.nodes.judged import ActOptions, check_age
from raybench.services.nodes.program import answer_of, done_of, is_there, require

_AT_A_TIME = 8  # calls of kubectl: each waits for the API server
_WHERE = "install it where its kubeconfig may patch nodes and their status"


def act(report: PreflightReport, options: ActOptions, intents: Sequence[Intent] | None = None) -> NodeActions:
    """Plan, and with ``apply`` do, what a report wants of the cluster's nodes. ``intents`` stand in for its own.

    Raises UsageError for a report that is too old to apply, and where kubectl is not here; IncompleteRunError where
    the API server does not answer.
    """
    if options.apply:
        require("kubectl", _WHERE)
        check_age(report, options.max_age_seconds)
    wanted = _wanted(report, options) if intents is None else intents
    nodes, unchecked = _asked(must=options.apply)
    actions = planned(wanted, nodes, at=report.finished_at, by_hostname=options.by_hostname)
    refused = refusal(actions, nodes, options.most_drained) if nodes is not None and not options.force else ""
    if options.apply and not refused:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            actions = tuple(pool.map(lambda one: done_of(one) if one.commands else one, actions))
        actions = _seen_done(actions)
    return NodeActions(
        scheduler="kubernetes",
        judged_at=report.finished_at,
        applied=options.apply and not refused,
        refused=refused,
        unchecked=unchecked,
        actions=actions,
    )


def patches(report: PreflightReport, options: ActOptions) -> list[dict[str, Any]]:
    """The same as JSON patches of nodes and of their status. Raises IncompleteRunError without the cluster's nodes."""
    wanted = _wanted(report, options)
    nodes, _ = _asked(must=True)
    assert nodes is not None
    actions = planned(wanted, nodes, at=report.finished_at, by_hostname=options.by_hostname)
    return [
        patch
        for one, action in zip(wanted, actions, strict=True)
        if action.node
        for patch in json_patches(one, action, nodes[action.node], report.finished_at)
    ]


def _wanted(report: PreflightReport, options: ActOptions) -> tuple[Intent, ...]:
    return intents_of(report, Policy(degraded="resume" if options.resume_degraded else "none"))


def _asked(*, must: bool) -> tuple[Mapping[str, KubernetesNode] | None, str]:
    """The cluster's nodes, or why they are not known: a dry run goes without."""
    if not must and not is_there("kubectl"):
        return None, "kubectl is not on this machine"
    try:
        return read_nodes(answer_of(GET)), ""
    except IncompleteRunError as error:
        if must:
            raise
        return None, str(error)


def _seen_done(actions: Sequence[NodeAction]) -> tuple[NodeAction, ...]:
    """What the API server says afterwards counts."""
    if not any(one.done and one.step != "none" for one in actions):
        return tuple(actions)
    try:
        after = read_nodes(answer_of(GET))
    except IncompleteRunError as error:
        return tuple(replace(one, done=False, error=str(error)) if one.done else one for one in actions)
    return tuple(_compared(one, after.get(one.node)) for one in actions)


def _compared(action: NodeAction, node: KubernetesNode | None) -> NodeAction:
    if not action.done or action.step == "none" or (node is not None and node.ours == (action.step == "drain")):
        return action
    return replace(action, done=False, error="the API server took it, and the node's taint is not as it was told")
