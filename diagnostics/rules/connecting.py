"""Connections over sockets: why one fails, and attempts that NCCL repeats at level INFO.

No warning follows such attempts where the job is ended before the last.
"""

from diagnostics.error_number import ErrorNumber, named_error
from diagnostics.events import Event
from diagnostics.facts import JobFacts

MIN_ATTEMPTS = 5  # a peer that starts later is refused a few times
UNROUTED = frozenset({"EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH"})
LOST = UNROUTED | {"ETIMEDOUT"}  # of a connection that stood: nothing comes from there any more
MEANING = {
    "EADDRINUSE": "Another process holds the port on this host: a left-over of the last run, or a second launch.",
    "EADDRNOTAVAIL": "The address does not belong to this machine.",
    "ENETDOWN": "The interface that leads there is down.",
    "ENETUNREACH": "This host has no route to that address.",
    "ECONNABORTED": "The connection was given up on this side while it was set up.",
    "ECONNRESET": "The host answers, and the process there ended or closed the connection.",
    "EPIPE": "The process there closed the connection.",
    "ETIMEDOUT": "Packets are dropped on the way: a firewall, a security group or a wrong route.",
    "ECONNREFUSED": "The host answers, and nobody listens on that port: the process there ended, has not come so far, "
    "or the address is another machine's.",
    "EHOSTDOWN": "The host is down.",
    "EHOSTUNREACH": "Nobody answers for that address on its network, or a firewall rejects the connection.",
}


def socket_error(event: Event) -> ErrorNumber | None:
    """What the line of a failed connection says that the error is; None where it names none."""
    return named_error(event.fields.get("reason", ""))


def is_unrouted(event: Event) -> bool:
    """Whether no way leads to the address, however that is spelt."""
    error = socket_error(event)
    return error is not None and error.name in UNROUTED


def unanswered(facts: JobFacts) -> list[Event]:
    """The retries of processes that tried often, up to the end of what they print, and never came to work."""
    retries = [event for event in facts.of("connect-retry") if not facts.survived(event)]
    last = max((event.number("attempt") or 0 for event in retries), default=0)
    return retries if max(last, facts.count("connect-retry")) >= MIN_ATTEMPTS else []


def is_gone(event: Event, facts: JobFacts) -> bool:
    """Whether a peer that had been there refuses: its process listened while the communicator came to be."""
    error = socket_error(event)
    return error is not None and error.name in ("ECONNREFUSED", "ECONNRESET") and had_worked(event, facts)


def had_worked(event: Event, facts: JobFacts) -> bool:
    """Whether ranks had exchanged data over this network before a connection of it failed.

    A communicator that is complete has met over its bootstrap; the data goes the same way where one interface is used.
    """
    key = event.origin.process
    process = facts.processes.get(key) if key else None
    if process is None or process.last_work > event.origin.sequence:
        return False
    listed = [one.fields["interfaces"] for one in facts.of("socket-devices") if one.origin.process == key]
    one_way = all("[1]" not in interfaces for interfaces in listed)
    members = (communicator.members.values() for communicator in facts.communicators if communicator.nranks > 1)
    return one_way and any(one.completed and one.process == key for group in members for one in group)
