"""aws-ofi-nccl runs over TCP.

Symptom: ``NET/OFI Selected Provider is tcp`` (or sockets), while the network is called ``AWS Libfabric`` as if all
were well.

Why: libfabric found no EFA (or other fast) provider: no device in the container, no driver, or FI_PROVIDER set to
tcp.

Not when: the provider is efa, cxi, verbs, psm2 or another with RDMA; all ranks share one node.

Source: aws-ofi-nccl; libfabric providers.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, unsure


def check(facts: JobFacts) -> Outcome:
    """Found where the plugin names a TCP provider."""
    event = transport.tcp_provider(facts)
    if event is None and facts.of("ofi-provider"):
        return CLEAR
    if event is None:
        used = transport.job_network(facts) == "plugin:aws-ofi-nccl"
        return unsure("the log names no provider of libfabric; NCCL_DEBUG=INFO would show it") if used else CLEAR
    return found(
        conclude(
            facts,
            [other for other in facts.of("ofi-provider") if other.fields["provider"] == event.fields["provider"]],
            severity="info" if facts.multi_node is False else "critical",
            summary=f"The libfabric plugin runs over TCP (provider {event.fields['provider']})",
            explanation="NCCL calls the network AWS Libfabric either way. With this provider the bytes go "
            "through the kernel's "
            "TCP stack, without RDMA or GPUDirect.",
            occurrences=facts.count("ofi-provider"),
        )
    )


RULE = Rule(
    id="net-plugin-provider-tcp",
    title="The libfabric plugin runs over TCP",
    severity="critical",
    actions=("provider-efa",),
    check=check,
    slow=True,
)
