"""Ranks of one machine take each other for different machines.

Symptom: nNodes is higher than the number of machines; channels between GPUs of one machine go ``via NET``.

Why: NCCL tells machines apart by host name and boot id. Containers with their own host names, or NCCL_HOSTID, make
one machine look like several; NVLink and shared memory are then ruled out.

Not when: NCCL_P2P_DISABLE and NCCL_SHM_DISABLE leave nothing but the network (NCCL then counts each rank as a node);
the ranks do run on different machines, which may have one name: the rule compares addresses, device numbers
and buses, and says "possible" where that is all there is.

Source: NCCL's getHostHash; user guide, NCCL_HOSTID.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import Communicator, JobFacts, Member
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed, plural

_POD = r"^(.*?)[-.]?\d+$"


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL counts more nodes than hosts, or where pods seem to share one machine."""
    if (split := facts.split_machine) is not None:
        if _nothing_but_network(facts):
            return CLEAR
        return found(_more_nodes_than_hosts(facts, split, _lines(split)))
    for communicator in facts.communicators:
        if communicator.nodes is None or len(communicator.members) < communicator.nranks or communicator.nodes < 2:
            continue
        members = list(communicator.members.values())
        lines = _lines(communicator)
        if _fewer_hosts(communicator, facts):
            return found(_more_nodes_than_hosts(facts, communicator, lines))
        if _look_like_one_machine(members) and _over_tcp(facts):
            return found(_pods(facts, communicator, lines))
    return CLEAR


def _nothing_but_network(facts: JobFacts) -> bool:
    """Whether variables leave ranks of one machine no other way to each other, whatever they take each other for."""
    direct = facts.variables.get("NCCL_P2P_LEVEL", {}).keys() & {"LOC", "0"}
    off = direct or "1" in facts.variables.get("NCCL_P2P_DISABLE", ())
    return bool(off) and "1" in facts.variables.get("NCCL_SHM_DISABLE", ())


def _lines(communicator: Communicator) -> list[Event]:
    return [member.event for member in communicator.members.values() if member.event is not None]


def _fewer_hosts(communicator: Communicator, facts: JobFacts) -> bool:
    """Whether there are fewer host names than nodes, and each name is one machine's, by the addresses there."""
    members = communicator.members.values()
    if not all(member.process[0] for member in members) or len(communicator.hosts) >= (communicator.nodes or 0):
        return False
    addresses = {(event.origin.host, event.fields["address"]) for event in facts.of("bootstrap-interface")}
    buses = {(member.process[0], member.bus) for member in members}
    return len(addresses) <= len({host for host, _ in addresses}) and len(buses) == len(members)


def _more_nodes_than_hosts(facts: JobFacts, communicator: Communicator, lines: list[Event]) -> Finding:
    hosts = len(communicator.hosts)
    identities = facts.variables.get("NCCL_HOSTID", {})
    echoed = [event for event in facts.of("variable") if event.fields["name"] == "NCCL_HOSTID"]
    named = f": NCCL_HOSTID is {listed(sorted(identities))}" if len(identities) > 1 else ""
    nodes = communicator.nodes or len(identities)
    return conclude(
        facts,
        [*(echoed if named else ()), *(lines or (channel.event for channel in facts.net_channels[:4]))],
        severity="warning",
        confidence="certain" if named else "likely" if nodes else "possible",
        summary=f"NCCL counts {nodes} nodes on {plural(hosts, 'host')}{named}"
        if nodes
        else f"Ranks of {plural(hosts, 'host')} reach each other over the network",
        explanation="Ranks of one machine think that they are on different machines, and use the network instead of "
        "NVLink or shared memory."
        + ("" if nodes else " Or both P2P and shared memory are switched off, which this release does not print."),
        hosts=communicator.hosts,
    )


def _pods(facts: JobFacts, communicator: Communicator, lines: list[Event]) -> Finding:
    return conclude(
        facts,
        lines,
        severity="warning",
        confidence="possible",
        summary=f"{communicator.nodes} containers with one GPU each talk over TCP and may share one machine",
        explanation="Their GPUs have different numbers and buses and no two the same, as the GPUs of one "
        "machine have. If so, the "
        "data should go over NVLink or PCIe: give the containers one identity (NCCL_HOSTID) and a common IPC "
        "namespace.",
    )


def _over_tcp(facts: JobFacts) -> bool:
    return transport.job_network(facts) in transport.TCP_NETWORKS


def _look_like_one_machine(members: list[Member]) -> bool:
    """Pods of one series, one GPU each, visible to each as device 0, and all distinct by number and by bus."""
    hosts = {member.process[0] for member in members}
    series = {match[1] for host in hosts if (match := compiled(_POD).match(host))}
    numbers = [member.nvml for member in members]
    buses = [member.bus for member in members]
    distinct = None not in numbers and len(set(numbers)) == len(members) and len(set(buses)) == len(members)
    masked = all(member.cuda == "0" and member.local_ranks in (1, None) for member in members)
    return 1 < len(members) <= 16 and len(hosts) == len(members) and len(series) == 1 and distinct and masked


RULE = Rule(
    id="host-identity-mismatch",
    title="Ranks of one machine take each other for different machines",
    severity="warning",
    actions=("same-host-id", "share-ipc"),
    check=check,
    slow=True,
)
