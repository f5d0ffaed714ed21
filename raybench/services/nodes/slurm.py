"""Slurm's nodes drained and resumed by their verdicts; a dry run unless ``apply`` is said."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from raybench.documents.node_actions import NodeAction, NodeActions
from raybench.documents.preflight import PreflightReport
from raybench.errors import IncompleteRunError
from raybench.nodes.intent import Intent, Policy, intents_of
from raybench.nodes.slurm import SINFO, SlurmNode, planned, read_nodes, refusal
from raybench.services.nodes.judged import ActOptions, check_age
from raybench.services.nodes.program import answer_of, done_of, is_there, require

_WHERE = "call this where Slurm is administered, such as its controller or login node"


def act(report: PreflightReport, options: ActOptions, intents: Sequence[Intent] | None = None) -> NodeActions:
    """Plan, and with ``apply`` do, what a report wants of Slurm's nodes. ``intents`` stand in for the report's own.

    Raises UsageError for a report that is too old to apply, and where scontrol is not here; IncompleteRunError where
    Slurm does not answer.
    """
    if options.apply:
        require("scontrol", _WHERE)
        check_age(report, options.max_age_seconds)
    policy = Policy(degraded="resume" if options.resume_degraded else "none")
    wanted = intents_of(report, policy) if intents is None else intents
    nodes, unchecked = _asked(must=options.apply)
    actions = planned(wanted, nodes, by_hostname=options.by_hostname)
    refused = refusal(actions, nodes, options.most_drained) if nodes is not None and not options.force else ""
    if options.apply and not refused:
        actions = _applied(actions)
    return NodeActions(
        scheduler="slurm",
        judged_at=report.finished_at,
        applied=options.apply and not refused,
        refused=refused,
        unchecked=unchecked,
        actions=actions,
    )


def _asked(*, must: bool) -> tuple[Mapping[str, SlurmNode] | None, str]:
    """Slurm's nodes, or why they are not known: a dry run goes without."""
    if not must and not is_there("sinfo"):
        return None, "sinfo is not on this machine"
    try:
        return read_nodes(answer_of(SINFO)), ""
    except IncompleteRunError as error:
        if must:
            raise
        return None, str(error)


def _applied(actions: Sequence[NodeAction]) -> tuple[NodeAction, ...]:
    """Each action done, those that resume first looked at again, then all looked at in what Slurm says afterwards."""
    done = [_done(one) if one.commands else one for one in actions]
    if not any(one.done for one in done):
        return tuple(done)
    try:
        after = read_nodes(answer_of(SINFO))
    except IncompleteRunError as error:
        return tuple(replace(one, done=False, error=str(error)) if one.done else one for one in done)
    return tuple(_seen_done(one, after) if one.done else one for one in done)


def _done(action: NodeAction) -> NodeAction:
    if action.step == "resume":
        try:
            now = read_nodes(answer_of((*SINFO, "-n", action.node))).get(action.node)
        except IncompleteRunError as error:
            return replace(action, done=False, error=str(error))
        if now is None or not now.ours:
            why = "somebody else has drained it or given it back meanwhile; left as it is"
            return replace(action, step="none", commands=(), why=why)
    return done_of(action)


def _seen_done(action: NodeAction, after: Mapping[str, SlurmNode]) -> NodeAction:
    """Slurm takes a command and may not follow it: what it says of the node counts."""
    node = after.get(action.node)
    if node is not None and (node.ours if action.step == "drain" else not node.drained):
        return action
    state = f"{node.state} ({node.by_whom})" if node else "not among its nodes"
    return replace(action, done=False, error=f"Slurm took the command, and has the node {state}")
