"""NCCL_IB_HCA leaves no NIC.

Symptom: an echo of ``NCCL_IB_HCA`` and ``NET/IB : No device found.``

Why: the filter is a list of name prefixes; a name of another machine type, a typing error or an exclusion with ``^``
that hits all leaves nothing.

Not when: a device was found, or none can be opened.

Source: NCCL user guide, NCCL_IB_HCA.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where a filter is set and a rank that has it found no device."""
    echoes = [
        event for event in facts.of("variable") if event.fields["name"] == "NCCL_IB_HCA" and event.fields["value"]
    ]
    empty = facts.of("ib-no-device")
    if not echoes or not empty or facts.of("ib-open-failed", "libibverbs-missing"):
        return CLEAR
    filtered = {event.origin.process for event in echoes}
    hit = [event for event in empty if event.origin.process in filtered]
    if not hit:
        return CLEAR
    value = echoes[0].fields["value"].rstrip(".")
    return found(
        conclude(
            facts,
            [echoes[0], *hit],
            severity="critical" if facts.multi_node is not False else "info",
            confidence="likely",
            summary=f"NCCL_IB_HCA={value} leaves no RDMA NIC",
            explanation=(
                "The filter names prefixes of NICs; no active NIC of this node fits it, so TCP is what remains."
            ),
            occurrences=len(hit),
            blocks=transport.job_network(facts) == "mixed",  # others have a NIC that fits, and the two do not talk
        )
    )


RULE = Rule(
    id="hca-filter-excludes-all",
    title="NCCL_IB_HCA leaves no NIC",
    severity="critical",
    actions=("fix-hca-filter", "list-rdma-devices"),
    check=check,
    victim_of=("gpu-out-of-memory", "host-memory-exhausted", "duplicate-gpu"),
    slow=True,
)
