"""Slurm: what sinfo says of its nodes, and what scontrol is to be told. Pure.

Only nodes that raybench itself drained are resumed: those whose reason it wrote (``mark``). A node that somebody else
drained, that is down or in maintenance, is left as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from raybench.documents.node_actions import NodeAction
from raybench.errors import IncompleteRunError
from raybench.nodes.intent import Intent, too_many
from raybench.nodes.mark import is_marked, marked
from raybench.nodes.naming import nodes_by_host

# A line a node and partition: name, host name, address, state, who gave the reason, the reason.
SINFO = ("sinfo", "-h", "-N", "-o", "%N|%n|%o|%T|%u|%E")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")  # scontrol reads commas and brackets as several nodes, and ALL as every one
_FLAGS = "*~#!%$@^-+"  # behind the state: sinfo(1), NODE STATE CODES
_NO_REASON = {"none", "(null)", ""}
_DRAINED = {"drained", "draining", "drain", "drng"}
# Gets no jobs from Slurm for a reason of its own; a drain would take the place of that reason.
_AWAY = {"down", "fail", "failing", "error", "unknown", "future", "powered_down", "powering_down", "power_down",
         "rebooting", "reboot", "reboot_issued", "reboot_requested", "maint", "inval", "blocked"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as sinfo has it. ``silent``: its slurmd does not answer. ``reason`` is empty where there is none."""

    name: str
    names: tuple[str, ...]
    state: str
    silent: bool
    user: str
    reason: str

    @property
    def drained(self) -> bool:
        """Whether it gets no new jobs, since somebody said so."""
        return self.state in _DRAINED

    @property
    def ours(self) -> bool:
        """Whether raybench drained it."""
        return self.drained and is_marked(self.name, self.reason)

    @property
    def by_whom(self) -> str:
        """``root: waiting for a board``."""
        return f"{self.user or 'somebody'}: {self.reason or 'no reason was given'}"


def read_nodes(said: str) -> dict[str, SlurmNode]:
    r"""The nodes of sinfo's answer, once each. Raises IncompleteRunError for an answer of another form.

    A reason of several lines, as somebody may have written one, goes on with lines that have no bar.

    >>> read_nodes("gpu-01|gpu-01|10.0.0.1|drained*|root|raybench: x [0a1b2c3d]\n")["gpu-01"].silent
    True
    """
    nodes: dict[str, SlurmNode] = {}
    name = ""
    for line in filter(str.strip, said.splitlines()):
        if name and "|" not in line:
            nodes[name] = replace(nodes[name], reason=f"{nodes[name].reason} {line.strip()}")
            continue
        parts = line.strip().split("|", 5)
        if len(parts) != 6 or not parts[0]:
            raise IncompleteRunError(f"sinfo answered {line[:120]!r}, which is not a node of six parts")
        name, host, address, state, user, reason = (part.strip() for part in parts)
        nodes[name] = SlurmNode(
            name=name,
            names=(host, address),
            state=state.rstrip(_FLAGS).lower(),
            silent="*" in state,
            user="" if user.lower() in {"unknown", "n/a"} else user,
            reason="" if reason.lower() in _NO_REASON else reason,
        )
    return nodes


def drain_command(node: str, text: str) -> tuple[str, ...]:
    """Drain a node with raybench's reason."""
    return ("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={marked(node, text)}")


def resume_command(node: str) -> tuple[str, ...]:
    """Give a node back to its partition."""
    return ("scontrol", "update", f"NodeName={node}", "State=RESUME")


def planned(
    intents: Sequence[Intent], nodes: Mapping[str, SlurmNode] | None, *, by_hostname: bool = False
) -> tuple[NodeAction, ...]:
    """What is to be done with each host's node. ``nodes`` is None where Slurm could not be asked."""
    if nodes is None:
        return tuple(map(_unchecked, intents))
    found = nodes_by_host(intents, {name: node.names for name, node in nodes.items()}, by_hostname=by_hostname)
    return tuple(_action(one, nodes.get(found[one.host][0]), found[one.host][1]) for one in intents)


def refusal(actions: Sequence[NodeAction], nodes: Mapping[str, SlurmNode], limit: str) -> str:
    """Why so much is not done at once; empty where it may be."""
    drained = sum(node.ours for node in nodes.values()) - sum(one.step == "resume" for one in actions)
    return too_many(drained, sum(one.step == "drain" for one in actions), limit, len(nodes))


def _unchecked(one: Intent) -> NodeAction:
    if one.step == "drain" and (_NAME.fullmatch(one.host) is None or one.host.upper() == "ALL"):
        why = "not the name of one node to scontrol; call this where sinfo can be asked"
        return NodeAction(host=one.host, node="", state=one.state, step="none", why=why)
    if one.step == "drain":
        commands = (drain_command(one.host, one.brief),)
        return NodeAction(host=one.host, node=one.host, state=one.state, step="drain", why=one.why, commands=commands)
    told = "who drained it, if anybody did, cannot be told without sinfo" if one.step == "resume" else one.why
    return NodeAction(host=one.host, node="", state=one.state, step="none", why=told)


def _action(one: Intent, node: SlurmNode | None, why_none: str) -> NodeAction:
    if node is None:
        return NodeAction(host=one.host, node="", state=one.state, step="none", why=why_none)
    step, why = next(_decided(one, node))
    text = one.brief or one.why
    commands = {"drain": (drain_command(node.name, text),), "resume": (resume_command(node.name),)}.get(step, ())
    return NodeAction(host=one.host, node=node.name, state=one.state, step=step, why=why, commands=commands)  # type: ignore[arg-type]


def _decided(one: Intent, node: SlurmNode) -> Iterator[tuple[str, str]]:
    """The step and why; the first that holds counts."""
    if one.step == "drain":
        if node.ours:
            yield "none", f"raybench drained it already: {one.why}"
        if node.drained:
            yield "none", f"drained already by {node.by_whom}"
        if node.state in _AWAY:
            yield "none", f"Slurm has it {node.state} already ({node.by_whom}); {one.why}"
        yield "drain", one.why
    if not node.drained:
        yield "none", one.why
    if not node.ours:
        yield "none", f"drained by {node.by_whom}; left so"
    if one.step == "none":
        yield "none", f"drained by raybench, and left so: {one.why}"
    if node.silent:
        yield "none", "drained by raybench, and left so: its slurmd does not answer"
    yield "resume", f"raybench drained it ({node.reason}), and it is {one.state}"
