"""The interface that is offered to the peers does not lead to them.

Symptom: ``Bootstrap : Using docker0:172.17.0.1`` or ``lo:127.0.0.1`` in a job of several nodes; ``No route to host``
or ``Network is unreachable`` while connecting; a failed connection to 127.0.0.1; two hosts that offer one address; a
rank over loopback that is refused again and again up to the end of the log; an attempt without a route
(``returned No route to host, retrying (1/34)``) that nothing of the start follows (a warning).

Why: NCCL picks interfaces by name, InfiniBand ones first and docker, lo and virbr last. Where the wrong one is
picked, the peers get an address that they cannot reach. 172.17.x.x is docker's own bridge and different on every host.

Not when: all ranks share one node: there even lo works; hosts of one address that complete a communicator together;
attempts that are retried, where the start completes behind them.

Source: NCCL user guide, NCCL_SOCKET_IFNAME.
"""

from collections import defaultdict

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.bootstrap.connecting import (
    MEANING,
    MIN_LAST_ATTEMPTS,
    had_worked,
    is_gone,
    is_unrouted,
    last_attempts,
    socket_error,
    unanswered,
)
from diagnostics.rules.bootstrap.left_trying import left_trying

_BRIDGE = r"172\.17\.|172\.(?:1[89]|2\d|3[01])\.0\.1\b"  # its first network, and the host's end of those behind it
_CONTAINER = r"^[0-9a-f]{12}$"  # docker's host name where none is given, and the network is not the host's
_LOCAL = r"^(?:lo|docker\d*|virbr\d*|veth\w*|br-[0-9a-f]{6,}|cni\d*|flannel[\w.]*|lxc\w*)$"


def check(facts: JobFacts) -> Outcome:
    """Found where a connection has no route, or where several nodes meet over a local interface."""
    outcome = _by_failures(facts)
    return outcome if outcome.findings else _by_last_attempt(facts)


def _by_last_attempt(facts: JobFacts) -> Outcome:
    """An attempt without a route behind which the log shows nothing more of the start: NCCL would try again."""
    tried = [event for event in last_attempts(facts) if is_unrouted(event) and not had_worked(event, facts)]
    return found(left_trying(facts, tried)) if tried else CLEAR


def _by_failures(facts: JobFacts) -> Outcome:
    failed = [event for event in facts.of("connect-failed") if "retrying" not in event.fields]
    failed = [event for event in [*failed, *unanswered(facts)] if _is_misled(event, facts)]
    if facts.multi_node is not False:
        failed += [event for event in facts.of("peer-closed") if _to_bridge(event) and not facts.survived(event)]
    doubtful = [event for event in _offers(facts) if _is_local(event)]
    if twice := _offered_twice(facts):
        return found(_one_address(facts, twice, failed))
    if not doubtful and unanswered(facts):
        doubtful = [event for event in facts.of("socket-devices") if _lists_local(event)]
    if failed:
        peers = sorted({event.fields["peer"].split("<")[0] for event in failed if "peer" in event.fields})
        return found(
            conclude(
                facts,
                failed + doubtful[:1],
                severity="critical",
                confidence="likely",
                summary=(
                    f"{socket_error(failed[0]) or failed[0].fields.get('reason', 'The connection was closed')}"
                    f"{' at ' + ', '.join(peers[:4]) if peers else ''}: wrong interface or address"
                ),
                explanation=_meaning(failed[0]) + "The address that a peer offered cannot be reached from here. "
                "Usually NCCL picked an interface that the nodes do not share; less often a route is missing, or a "
                "firewall is in the way.",
                occurrences=facts.count("connect-failed"),
            )
        )
    if behind := _behind_bridges(facts):
        return found(_one_address(facts, behind, []))
    if own := _own_machine(facts):
        return found(_loopback(facts, own, doubtful))
    if not doubtful or not facts.multi_node:
        return _unfinished(facts, doubtful)
    names = sorted({name for event in doubtful for name in _local_names(event)})
    refused = [event for event in facts.of("connect-failed", "connect-retry") if not facts.survived(event)]
    return found(
        conclude(
            facts,
            [*doubtful[:2], *refused[:2]],
            severity="critical" if refused else "warning",
            confidence="likely",
            summary=f"Several nodes, but ranks offer a local interface: {', '.join(names[:4])}",
            explanation="Addresses of loopback and of container bridges mean nothing on another machine."
            + (" So no rank of another node can connect to the one that offers it." if refused else ""),
            occurrences=len(doubtful) + len(refused),
        )
    )


def _offers(facts: JobFacts) -> list[Event]:
    """The interface that each process offers: releases to 2.3 list all that they find, and offer the first."""
    first: dict[tuple[object, int | None, str], Event] = {}
    for event in facts.of("bootstrap-interface"):
        if event.text.find("NET : Using interface") < 0:
            first[event.origin.process, event.origin.line, event.origin.file] = event
        else:
            first.setdefault((event.origin.process, None, event.origin.file), event)
    return list(first.values())


def _unfinished(facts: JobFacts, doubtful: list[Event]) -> Outcome:
    """Ranks offer an address that is good on one link, no communicator comes to be, and the number of nodes is open."""
    if facts.works or facts.multi_node is False:
        return CLEAR
    if not doubtful and facts.multi_node and not facts.steps and facts.net_channels:
        return _among_data(facts)
    linked = [event for event in doubtful if event.fields.get("address", "").startswith(("169.254.", "fe80:"))]
    if not linked and (refused := _refused_at_loopback(facts, doubtful)):
        return found(_at_loopback(facts, doubtful, refused))
    if not linked:
        return CLEAR
    return found(
        conclude(
            facts,
            linked,
            severity="critical",
            confidence="possible",
            summary=f"Ranks offer a link-local address ({linked[0].fields['interface']}), and no communicator is made",
            explanation="Such an address is good on one link only: a rank of another node cannot connect to it, and "
            "waits until its time is over.",
        )
    )


def _among_data(facts: JobFacts) -> Outcome:
    """Ranks of several nodes open connections for data over local interfaces too, and no line shows them connected."""
    listing = [event for event in facts.of("socket-devices") if _lists_local(event)]
    if not listing or transport.job_network(facts) not in transport.TCP_NETWORKS:
        return CLEAR
    names = sorted({name for event in listing for name in _local_names(event)})
    return found(
        conclude(
            facts,
            listing,
            severity="warning",
            confidence="possible",
            summary=f"Several nodes, and NCCL takes local interfaces for data too ({', '.join(names[:4])})",
            explanation="NCCL spreads data over all interfaces that it lists, and another machine cannot connect to "
            "those of container bridges. The log ends while the ranks connect: they wait there, or it was cut.",
        )
    )


def _refused_at_loopback(facts: JobFacts, doubtful: list[Event]) -> list[Event]:
    """Attempts that end the log of a rank over loopback; the first few are refused where the peer starts later."""
    if facts.hosts[1:] or not any(_is_own(event.fields.get("address", "")) for event in doubtful):
        return []
    tried = [event for event in facts.of("connect-retry") if not facts.survived(event)]
    return tried if len(tried) >= MIN_LAST_ATTEMPTS and facts.is_near_end(tried[-1]) else []


def _at_loopback(facts: JobFacts, doubtful: list[Event], refused: list[Event]) -> Finding:
    return conclude(
        facts,
        [*doubtful[:1], *refused],
        severity="critical",
        confidence="possible",
        summary=f"A rank uses loopback ({doubtful[0].fields['interface']}), and is refused up to the end of the log",
        explanation="Loopback leads each machine to itself: where the ranks are on several machines, none of them can "
        "meet. The log does not show on how many they are; on one, the rank that is asked for does not run.",
        occurrences=len(refused),
    )


def _offered_twice(facts: JobFacts) -> list[Event]:
    """A line of each host that offers an address which another one offers too, and never met that one."""
    offers: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in facts.of("bootstrap-interface"):
        host = event.origin.process[0] if event.origin.process else ""
        if host and not _is_own(event.fields["address"]):
            offers[event.fields["address"].split("<")[0]].setdefault(host, event)
    for hosts in offers.values():
        apart = {name: line for name, line in hosts.items() if not any(o != name and o.endswith(name) for o in hosts)}
        if len(apart) > 1 and facts.multi_node is not False and not _met(facts, set(apart)):
            return list(apart.values())
    return []


def _behind_bridges(facts: JobFacts) -> list[Event]:
    """Lines of containers, named by their id, that offer the address of docker's bridge to ranks of other nodes."""
    if not facts.multi_node or _met(facts, set(facts.hosts)):
        return []
    offers = [event for event in facts.of("bootstrap-interface") if event.origin.process]
    named = [one for one in offers if one.origin.process and compiled(_CONTAINER).match(one.origin.process[0])]
    return [event for event in named if event.fields["address"].startswith("172.17.")]


def _met(facts: JobFacts, hosts: set[str]) -> bool:
    """Whether ranks of more than one of these hosts completed one communicator, or the run did its work."""
    groups = ({one.process[0] for one in whole.members.values() if one.completed} for whole in facts.communicators)
    return bool(facts.count("work-done", "destroy")) or any(len(hosts & group) > 1 for group in groups)


def _one_address(facts: JobFacts, twice: list[Event], failed: list[Event]) -> Finding:
    fields, hosts = twice[0].fields, {event.origin.process[0] for event in twice if event.origin.process}
    offered = f"{fields['interface']}:{fields['address'].split('<')[0]}"
    return conclude(
        facts,
        [*twice[:4], *failed[:2]],
        severity="critical",
        confidence="likely",
        summary=f"{len(hosts)} hosts offer the same address, {offered}"
        if len(hosts) > 1
        else f"A container offers the address of its host's bridge to other nodes, {offered}",
        explanation="A rank that connects to that address reaches its own host, and waits there. Containers behind "
        "a bridge of each host have such addresses: start them with the host's network, or name an interface that "
        "the hosts share.",
        occurrences=len(twice) + len(failed),
    )


def _own_machine(facts: JobFacts) -> list[Event]:
    """Connections to loopback that failed before ranks had met, in a job that is not known to be of one node."""
    if facts.multi_node is False:
        return []
    given_up = [event for event in facts.of("connect-failed") if event.origin.level != "INFO"] + unanswered(facts)
    own = [event for event in given_up if _is_own(event.fields.get("peer", ""))]
    return [event for event in own if not is_gone(event, facts) and not facts.survived(event)]


def _is_own(address: str) -> bool:
    """Whether an address means the machine itself, wherever it is used."""
    return address.lstrip("[").startswith(("127.", "::1<", "::1]", "::ffff:127.")) or address == "::1"


def _loopback(facts: JobFacts, own: list[Event], doubtful: list[Event]) -> Finding:
    peer = own[0].fields["peer"].split("<")[0]
    several = bool(facts.multi_node)
    return conclude(
        facts,
        own + doubtful[:1],
        severity="critical" if several else "warning",
        confidence="likely" if several else "possible",
        summary=f"A peer offered its loopback address, {peer}, and connecting to it fails",
        explanation="Loopback leads each machine to itself: a rank of another node cannot reach the peer there. NCCL "
        "picked lo, or NCCL_COMM_ID or the host's name stands for loopback."
        + ("" if several else " On one node it means that the process there has ended: look at that rank first."),
        occurrences=len(own),
    )


def _is_misled(event: Event, facts: JobFacts) -> bool:
    """Whether a connection fails as it does over a wrong interface; where data had flowed, a link was lost instead."""
    return _to_bridge(event) or _to_link_local(event) or (is_unrouted(event) and not had_worked(event, facts))


def _meaning(event: Event) -> str:
    error = socket_error(event)
    return f"{MEANING[error.name]} " if error and error.name in MEANING else ""


def _to_bridge(event: Event) -> bool:
    """Whether a peer offered the address of docker's own bridge, which exists on every host that runs docker."""
    bridge = compiled(_BRIDGE).match(event.fields.get("peer", ""))
    return bridge is not None and event.origin.level != "INFO"


def _to_link_local(event: Event) -> bool:
    """Whether a peer offered an address that is good on one link only, as those of cloud agents and of veth are."""
    given_up = event.kind == "connect-retry" or event.origin.level != "INFO"
    return given_up and event.fields.get("peer", "").startswith(("169.254.", "fe80:"))


def _lists_local(event: Event) -> bool:
    """Whether data goes over a local interface too: NCCL spreads it over all that it lists."""
    return bool(_local_names(event))


def _local_names(event: Event) -> list[str]:
    """The local interfaces that a line offers, by name or address; one that lists a single interface names that one."""
    if "interface" in event.fields:
        return list(transport.interface_names(event))
    listed = compiled(r"\[\d+\]([^:\[\]\s]+):([^<\s]+)<").findall(event.fields["interfaces"])
    return [name for name, address in listed if _is_link_local(name, address)]


def _is_local(event: Event) -> bool:
    return _is_link_local(event.fields["interface"], event.fields["address"])


def _is_link_local(interface: str, address: str) -> bool:
    named = compiled(_LOCAL).match(interface)
    return bool(named) or address.startswith(("127.", "169.254.")) or (address.startswith("fe80:") and "%" in address)


RULE = Rule(
    id="wrong-interface",
    title="The interface does not lead to the peers",
    severity="critical where a connection fails, else warning",
    actions=("choose-interface", "check-reachability"),
    check=check,
)
