"""A peer cannot be reached.

Symptom: ``Connect to 192.0.2.1<4312> failed : Connection refused`` or ``Connection timed out``; a host name that does
not resolve; a bad NCCL_COMM_ID; a port that is taken; no route any more to a rank that was connected; PyTorch's store
that cannot be reached up to the end of the log; UCX's ``Destination is unreachable``;
a failure stack without its warning (``misc/socket.cc:567 -> 2``, then ``bootstrap.cc:270 -> 2``); an attempt that
nothing answered (``returned Connection timed out, retrying``) and nothing of the start follows (a warning).

Why: refused (111): nobody listens there, because that process died, or another process's address was used. Timed out
(110): a firewall or security group drops the packets, or the route is wrong. No route (113, 101) after data had flowed:
the link or the host was lost.

Not when: NCCL retries and goes on (``returned Connection refused, retrying`` at level INFO); an earlier fault ended
the peer; a peer that was there when the communicator came to be refuses (peer-died); there never was a route
(wrong-interface); the stack has code 6 (the peer closed the connection), or any warning tells what failed.

Source: NCCL's socket.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import ErrorNumber
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, stopped_at, warned
from diagnostics.rules.bootstrap.connecting import (
    MEANING,
    failed_by_stack,
    had_worked,
    is_gone,
    is_unrouted,
    last_attempts,
    socket_error,
    unanswered,
)
from diagnostics.rules.bootstrap.left_trying import left_trying

_UNKNOWN = (
    "Refused means that nobody listens: look for the process that ended first. Timed out means that packets are "
    "dropped: firewall, security group or interface."
)
_UNRESOLVED = (
    "The name cannot be turned into an address here: DNS or /etc/hosts does not know it, a pod or service is not there "
    "yet, or its name is misspelt. Nothing was asked of the network itself."
)
_OF_NAMES = r"(?i)resolv|getaddrinfo|name or service|name resolution|nodename nor|unknown ?host|NXDOMAIN|host address"


def check(facts: JobFacts) -> Outcome:
    """Found where connecting failed for good."""
    failed = [
        event
        for event in facts.of("connect-failed")
        if "retrying" not in event.fields and event.origin.level != "INFO" and _is_here(event, facts)
    ]
    failed += [event for event in unanswered(facts) if _is_here(event, facts)]
    bad = warned(facts, "address-invalid")
    bad += [event for event in warned(facts, "bind-failed") if "ras/" not in event.text]
    waited = {(event.origin.file, event.origin.line) for event in facts.of("ranks-missing")}
    store = [event for event in facts.of("store-failed") if not facts.went_on(event)]
    store = [event for event in store if (event.origin.file, event.origin.line) not in waited]
    store += _tried_in_vain(facts)
    events = sorted(failed + bad + store, key=lambda event: event.origin.sequence)
    if not events:
        return _of_own_socket(facts) or _by_stack(facts) or _by_last_attempt(facts)
    first = events[0]
    peers = sorted({event.fields["peer"].split("<")[0] for event in failed if "peer" in event.fields})
    error = socket_error(first)
    reason = str(error) if error else first.fields.get("reason", "the address cannot be used")[:100]
    lost = is_unrouted(first)
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary=("A peer can no longer be reached" if lost else "A peer cannot be reached")
            + f"{' at ' + ', '.join(peers[:4]) if peers else ''}: {reason}",
            explanation=_meaning(first, error)
            + (" Data had flowed before: the link or the host was lost, not a wrong interface chosen." if lost else ""),
            occurrences=len(events),
            actions=("check-reachability", "look-at-rank") if lost else (),
            own=first.kind in ("address-invalid", "bind-failed"),
        )
    )


def _meaning(event: Event, error: ErrorNumber | None) -> str:
    if error is None and compiled(_OF_NAMES).search(event.fields.get("reason", "")):
        return _UNRESOLVED
    return MEANING.get(error.name, _UNKNOWN) if error else _UNKNOWN


def _of_own_socket(facts: JobFacts) -> Outcome | None:
    """What the system refuses a rank on its own side, before any peer is asked."""
    events = [event for event in stopped_at(facts, "socket-refused") if "ras/" not in event.text]
    if not events:
        return None
    call = events[0].fields.get("call") or ("socket" if "creation" in events[0].text else "accept")
    error = socket_error(events[0])
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary=f"A rank cannot open a socket of its own ({call}: {error or events[0].fields['reason'][:60]})",
            explanation="The system of this host refuses it, and no peer was asked so far: its network, a limit, or "
            "what the container or a security module allows.",
            occurrences=len(events),
            actions=("choose-interface", "look-at-rank"),
        )
    )


def _by_last_attempt(facts: JobFacts) -> Outcome:
    """An attempt that nothing answered, behind which the log shows nothing more of the start."""
    tried = [event for event in last_attempts(facts) if _is_here(event, facts)]
    return found(left_trying(facts, tried)) if tried else CLEAR


def _by_stack(facts: JobFacts) -> Outcome | None:
    """What a failure stack tells alone: that a connection failed, and not to whom or why."""
    events = failed_by_stack(facts)
    if not events:
        return None
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary="A peer cannot be reached, by NCCL's failure stack: a socket failed while it was set up",
            explanation="The log has the stack and not the warning before it, which names the address and the reason. "
            "Mostly no route leads to the peer, or NCCL took an interface that the nodes do not share; seldom a local "
            "limit, as of open files.",
        )
    )


def _tried_in_vain(facts: JobFacts) -> list[Event]:
    """Attempts to reach PyTorch's store that end the log; one alone comes from a late start."""
    tried = [event for event in facts.of("store-tried") if facts.is_near_end(event) and not facts.went_on(event)]
    often = len(tried) > 1 or any((event.number("tries") or 0) > 1 for event in tried)
    in_vain = tried if often or any(is_unrouted(event) for event in tried) else []
    return in_vain + _asked_in_vain(facts)


def _asked_in_vain(facts: JobFacts) -> list[Event]:
    """Names that a script could not resolve while it waited for a host, where the run failed or the log ends there."""
    asked = [event for event in facts.of("name-unresolved") if not facts.went_on(event)]
    failed = bool(facts.of("traceback", "python-error", "launcher-failure", "run-error", "ranks-missing"))
    last = [event for event in asked if facts.is_near_end(event)]
    return asked if asked and (failed or len(last) > 1) else []


def _is_here(event: Event, facts: JobFacts) -> bool:
    """Whether a failed connection is this rule's: without a route where data had flowed, refused where none had."""
    return had_worked(event, facts) if is_unrouted(event) else not is_gone(event, facts)


RULE = Rule(
    id="bootstrap-unreachable",
    title="A peer cannot be reached",
    severity="critical; warning where an attempt is the last of the log",
    actions=("check-reachability", "choose-interface", "look-at-rank"),
    check=check,
    explained_by=("wrong-interface", "peer-died"),
    consequence="lower",
)
