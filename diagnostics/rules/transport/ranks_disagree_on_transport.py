"""Ranks of one job chose different networks.

Symptom: some ranks print ``Using network IB``, others ``Using network Socket``; or a handshake fails with ``wrong
type 4 != 3``; or a transport is found on no side.

Why: one node lacks its NICs or the plugin, or the variables did not reach every node (mpirun passes only those
named with -x).

Not when: every process names the same network; groups of processes that share no communicator differ: they exchange
nothing; one began when all others had destroyed theirs: it is of another run.

Source: NCCL's socket.cc and net.cc.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts, Process, ProcessKey
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, MAX_NAMED, Outcome, Rule, conclude, found

_NETWORKS = frozenset({"3", "4"})  # ncclSocketTypeNetSocket, ncclSocketTypeNetIb; 1 bootstrap, 2 proxy, 5 RAS


def check(facts: JobFacts) -> Outcome:
    """Found where processes chose different networks, or where a handshake shows it."""
    for processes in _that_must_agree(facts):
        chosen = _chosen(processes, transport.link_layer(facts))
        if len(chosen) > 1:
            return found(_conclude(facts, chosen))
    return _from_handshake(facts)


def _chosen(processes: Sequence[Process], layer: str | None) -> dict[str, list[tuple[str, Event]]]:
    """Network -> (host, line) of the processes that chose it; lines without a host are those of several processes."""
    chosen: dict[str, list[tuple[str, Event]]] = defaultdict(list)
    for process in processes:
        named = list(process.networks.items())
        for name, event in named[-1:] if process.host else named:
            chosen[transport.network_class(name, layer)].append((process.host, event))
    return chosen


def _that_must_agree(facts: JobFacts) -> list[list[Process]]:
    """Processes that share communicators that came to be; all others, which may have been meant for one, together."""
    group: dict[ProcessKey, int] = {}
    for number, communicator in enumerate(facts.communicators, start=1):
        members = {member.process for member in communicator.members.values()}
        if 1 < communicator.nranks == sum(member.completed for member in communicator.members.values()):
            joined = {group[key] for key in members if key in group}
            if len(joined) == 1 and members <= group.keys():  # they are together by now
                continue
            if joined:
                group.update({key: number for key, old in group.items() if old in joined})
            group.update(dict.fromkeys(members, number))
    together: dict[int, list[Process]] = defaultdict(list)
    for key, process in facts.processes.items():
        together[group.get(key, 0)].append(process)
    return [run for processes in together.values() for run in _runs(processes, facts)]


def _runs(processes: Sequence[Process], facts: JobFacts) -> list[list[Process]]:
    """The processes, apart where all those before had destroyed their communicators when the next one began."""
    ended = {event.origin.process: event.origin.sequence for event in facts.of("destroy")}
    runs: list[list[Process]] = [[]]
    last_end = sys.maxsize  # of those in the last run
    for begun, process in sorted(((_begin(one), one) for one in processes), key=lambda pair: pair[0]):
        if last_end < begun:
            runs.append([])
        end = ended.get((process.host, process.pid), sys.maxsize)
        last_end = max(last_end, end) if runs[-1] else end
        runs[-1].append(process)
    return runs


def _begin(process: Process) -> int:
    return min((event.origin.sequence for event in process.networks.values()), default=sys.maxsize)


def _conclude(facts: JobFacts, chosen: Mapping[str, Sequence[tuple[str, Event]]]) -> Finding:
    hosts = {name: sorted({host for host, _ in users if host}) for name, users in chosen.items()}
    parts = "; ".join(f"{name} on {', '.join(named[:4]) or 'hosts not named'}" for name, named in sorted(hosts.items()))
    few = min(chosen.values(), key=len)
    firsts = sorted((users[0][1] for users in chosen.values()), key=lambda event: event.origin.sequence)
    unused = facts.multi_node is False and not facts.net_channels
    finding = conclude(
        facts,
        firsts,
        severity="info" if unused else "critical",
        summary=f"Ranks chose different networks: {parts}",
        explanation="They are on one node, and no data crosses a network."
        if unused
        else "Ranks that use different networks cannot exchange data: initialisation hangs or fails.",
        hosts={host for host, _ in few if host},
    )
    fewer = all(len(few) < len(users) for users in chosen.values() if users is not few)
    named = facts.ranks_of(event for _, event in few)[:MAX_NAMED] if fewer else finding.ranks  # as the hosts
    return replace(finding, ranks=named, sequence=firsts[1].origin.sequence)  # the first alone is no disagreement


def _from_handshake(facts: JobFacts) -> Outcome:
    events = [event for event in facts.of("foreign-connection") if is_of_networks(event)]
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary="A peer connected for another purpose than expected: ranks run with different settings or versions",
            explanation="The handshake carries the kind of connection, and the peer meant another one. This "
            "happens when the "
            "variables or the NCCL version of the nodes differ, for instance when mpirun did not forward them (-x).",
            occurrences=len(events),
        )
    )


def is_of_networks(event: Event) -> bool:
    """Whether both kinds of a handshake are networks: sockets on one side, verbs on the other (NCCL's socket.h)."""
    kinds = {event.fields.get("seen"), event.fields.get("wanted")}
    return event.fields.get("what") == "type" and kinds <= _NETWORKS


RULE = Rule(
    id="ranks-disagree-on-transport",
    title="Ranks chose different networks",
    severity="critical",
    actions=("same-environment", "same-version", "list-rdma-devices"),
    check=check,
    victim_of=("gpu-out-of-memory", "host-memory-exhausted", "duplicate-gpu"),
    explained_by=("rdma-device-not-openable", "libibverbs-missing"),
)
