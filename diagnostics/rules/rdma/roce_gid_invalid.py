"""The RoCE address index (GID) does not fit.

Symptom: ``Call to ibv_modify_qp failed with error Invalid argument`` (22) on a RoCE NIC, a remote GID of zeros,
"No data available" (61), or ``read failed in ncclIbRoceGetVersionNum``: NCCL cannot read the table, as in containers.

Why: each RoCE port has a table of addresses, for RoCE v1 and v2, IPv6 and IPv4. ``NCCL_IB_GID_INDEX`` picks a row;
its right value differs between hosts and changes. From 2.21 on NCCL chooses by itself, and a forced index is the
usual mistake.

Not when: connecting succeeds. A set index alone is no fault. On InfiniBand the index plays no part.

Source: NCCL user guide, NCCL_IB_GID_INDEX; errno of ibv_modify_qp.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned
from diagnostics.rules.rdma.verbs import failed_calls, verbs_error


def check(facts: JobFacts) -> Outcome:
    """Found where modify_qp fails in the way of a wrong index."""
    events = [event for event in failed_calls(facts, "modify_qp") if _fits(event, facts)]
    events += [event for event in warned(facts, "gid-unreadable") if not facts.survived(event)]
    if not events:
        return CLEAR
    index = facts.value_of("NCCL_IB_GID_INDEX")
    setting = facts.variable_event("NCCL_IB_GID_INDEX") if index else None
    forced = index is not None and facts.version is not None and facts.version >= (2, 21, 0)
    return found(
        conclude(
            facts,
            [*([setting] if setting else []), *events],
            severity="critical",
            confidence="likely",
            summary="The RoCE address (GID) does not fit" + (f": NCCL_IB_GID_INDEX={index}" if index else ""),
            explanation=(
                "NCCL cannot read the table of RoCE addresses; in a container the rows of other network namespaces are "
                "there and not readable. NCCL 2.26 passes over them. "
                if events[0].kind == "gid-unreadable"
                else "The queue pair could not be moved to the connected state with this address. "
            )
            + ("From 2.21 on NCCL chooses the index itself; a forced one is the usual mistake. " if forced else "")
            + "The row must be a RoCE v2 address with an IPv4 form, of the same kind on all nodes.",
            occurrences=len(events),
        )
    )


def _fits(event: Event, facts: JobFacts) -> bool:
    empty = compiled(r"(?:local|remote) GID (?:::|0+|fe80::)(?:[,\s]|$)").search(event.text) is not None
    roce = transport.link_layer(facts) == "roce" or compiled(r"GID \S*:\S*[.\d]").search(event.text) is not None
    error = verbs_error(event)
    return empty or (roce and error is not None and error.name in ("EINVAL", "ENODATA"))


RULE = Rule(
    id="roce-gid-invalid",
    title="The RoCE address index does not fit",
    severity="critical",
    actions=("fix-gid", "measure-link"),
    check=check,
)
