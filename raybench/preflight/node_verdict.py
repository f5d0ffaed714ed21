"""From the checks of one host to what a scheduler shall do with its node. Pure."""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence

from raybench.documents.preflight import CheckResult, NodeReason, NodeVerdict
from raybench.preflight.node_table import ACTIONS, LOOK, NodeRow, decisive_checks, row_of
from raybench.verdicts import NodeEffect, NodeState

_GRAVEST_FIRST: tuple[NodeEffect, ...] = ("drain", "unknown", "degraded")
_MOST_SEEN = 300
# ``0000:3b:00.0`` and ``00000000:3B:00.0``, and as Xids give it: ``0000:3b:00``
_ADDRESS = re.compile(r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?\b")
_NO_ROW = NodeRow(on_fail="unknown", on_warn="unknown", action=LOOK)


def node_verdict(
    host: str, checks: Sequence[CheckResult], skip: Collection[str] = (), tests: Collection[str] = ()
) -> NodeVerdict:
    """The state of a host's node, with every reason against it.

    ``skip`` are checks or concerns that the user skipped by name (``--skip``): these are not asked for. Any other
    decisive check that is not among ``checks`` leaves the node unknown, as one that could not be read does. ``tests``
    are the checks of active tests that were asked for: of these, too, those that are decisive.
    """
    reasons = [reason for one in checks if (reason := _reason(host, one)) is not None]
    if any(one.check == "host-reachable" and one.verdict == "pass" for one in checks):
        reasons += _not_looked_at(host, {one.check for one in checks}, skip, tests)
    elif not reasons:
        reasons += _not_looked_at(host, set(), (), ())[:1]
    ordered = tuple(sorted(reasons, key=lambda one: _GRAVEST_FIRST.index(one.effect)))
    return NodeVerdict(state=_state(ordered), reasons=ordered)


def _state(ordered: Sequence[NodeReason]) -> NodeState:
    effect = ordered[0].effect if ordered else "nothing"
    return "healthy" if effect == "nothing" else effect


def _reason(host: str, one: CheckResult) -> NodeReason | None:
    effect = effect_of(one)
    return None if effect == "nothing" else _reason_of(host, one, effect)


def effect_of(one: CheckResult) -> NodeEffect:
    """What a check's result means for its node; a check without a row counts as one that nobody could judge."""
    row = row_of(one.check) or _NO_ROW
    match one.verdict:
        case "fail":
            return one.effect or row.on_fail
        case "warn":
            return one.effect or row.on_warn
        case "unknown" | "error":
            return "unknown" if row.decisive or row.decisive_if_asked else "nothing"
        case "skipped":  # because there is nothing to check, unless it says otherwise
            return one.effect or "nothing"
    return "nothing"


def _reason_of(host: str, one: CheckResult, effect: NodeEffect) -> NodeReason:
    row = row_of(one.check) or _NO_ROW
    action = LOOK if effect == "unknown" else one.action or row.action
    own = row.command if action == row.action else ""
    return NodeReason(
        check=one.check,
        verdict=one.verdict,
        effect=effect,
        seen=one.seen[:_MOST_SEEN],
        action=action,
        command=command_for(host, action, one, own),
    )


def command_for(host: str, action: str, one: CheckResult, own: str = "") -> str:
    """What to type for an action; empty where hands are needed. Names of hosts are quoted for a shell."""
    template = own or (ACTIONS[action].command if action in ACTIONS else "")
    addresses = sorted(set(_ADDRESS.findall(one.seen)))
    gpus = f" -i {','.join(addresses)}" if addresses else ""
    return template.format(host=_quoted(host), check=one.check, gpus=gpus) if template else ""


def _quoted(host: str) -> str:
    """A name that begins with a dash would be an option."""
    return shlex.quote(f"./{host}" if host.startswith("-") else host)


def _not_looked_at(host: str, ran: Collection[str], skip: Collection[str], tests: Collection[str]) -> list[NodeReason]:
    return list(_unseen(host, ran, skip, tests))


def _unseen(host: str, ran: Collection[str], skip: Collection[str], tests: Collection[str]) -> Iterator[NodeReason]:
    for name in decisive_checks(tests):
        if name not in ran and not {name, name.partition("-")[0]} & set(skip):
            one = CheckResult(
                check=name, verdict="unknown", seen="not looked at: it was not among the checks asked for"
            )
            yield _reason_of(host, one, "unknown")
