"""Connections over sockets: why one fails, and attempts that NCCL repeats at level INFO.

No warning follows such attempts where the job is ended before the last.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import ErrorNumber, named_error
from diagnostics.judging.stacks import lone_stacks
from diagnostics.judging.unfinished import is_last_step
from diagnostics.parsers.warnings import KINDS
from diagnostics.rules.program.run_failed import failure_lines

STARTS_FIRST = (2, 22, 0)  # from here on `Init START` is printed before the ranks meet
PRINTS_START = (2, 18, 3)
TELLS_CLOSED = (2, 13, 0)
MIN_ATTEMPTS = 5  # a peer that starts later is refused a few times
MIN_LAST_ATTEMPTS = 3  # of a process that prints nothing after them, in a run that failed
MIN_SILENT_ATTEMPTS = 2  # where nobody answers, the kernel tries for some two minutes each time
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
    silent = [event for event in retries if (error := socket_error(event)) is not None and error.name == "ETIMEDOUT"]
    if len(silent) >= MIN_SILENT_ATTEMPTS:
        return retries
    last = max((event.number("attempt") or 0 for event in retries), default=0)
    if max(last, facts.count("connect-retry")) >= MIN_ATTEMPTS:
        return retries
    return retries if len(retries) >= MIN_LAST_ATTEMPTS and _are_last_words(retries, facts) else []


def last_attempts(facts: JobFacts) -> list[Event]:
    """Attempts that found no way or no answer, behind which nothing shows that this connection or the start succeeds.

    One that is refused is none of them: so it goes while ranks start one after another.
    """
    retries = [event for event in facts.of("connect-retry") if is_lost(event)]
    return [event for event in retries if is_last_step(event, facts)]


def is_lost(event: Event) -> bool:
    """Whether no way leads to the address, or nothing answers there."""
    error = socket_error(event)
    return error is not None and error.name in LOST


def explains_failure(facts: JobFacts) -> bool:
    """Whether the run failed by an error without a cause, and no warning of NCCL tells one."""
    told = failure_lines(facts)
    failed = any(event.kind in ("run-error", "python-error") for event in told)
    return failed and not any(event.kind == "unclassified-warning" or event.kind in KINDS for event in told)


def _are_last_words(retries: list[Event], facts: JobFacts) -> bool:
    """Whether a process printed nothing behind its retries, and an error without a cause shows that the run failed."""
    if not explains_failure(facts):
        return False
    speakers = {event.origin.process for event in retries} - {None}
    last = retries[-1].origin.sequence
    return bool(speakers) and not any(
        event.origin.process in speakers and event.origin.sequence > last
        for kind in facts.events
        for event in facts.events[kind]
    )


def failed_by_stack(facts: JobFacts) -> list[Event]:
    """The innermost line of each stack that stands alone and tells that a connection failed in a system call.

    From 2.13 on a connection that its peer closed has a code of its own (6).
    """
    if facts.version is not None and facts.version < TELLS_CLOSED:
        return []
    found = []
    for stack in lone_stacks(facts):
        outer = next((event.fields["unit"] for event in stack if event.fields["unit"] != "socket"), "")
        if _is_call_of_socket(stack[0]) and outer in ("bootstrap", "net_socket"):
            found.append(stack[0])
    return found


def _is_call_of_socket(event: Event) -> bool:
    return event.fields["unit"] == "socket" and event.fields["code"] == "2"


def is_gone(event: Event, facts: JobFacts) -> bool:
    """Whether a peer that had been there refuses: its process listened while the communicator came to be."""
    error = socket_error(event)
    if error is None and "reason" not in event.fields:  # that the attempts are used up, without why each failed
        tried = [one for one in facts.of("connect-retry") if one.origin.process == event.origin.process]
        return bool(tried) and is_gone(tried[-1], facts)
    refused = error is not None and error.name in ("ECONNREFUSED", "ECONNRESET")
    return refused and (had_worked(event, facts) or _had_met(event, facts))


def _had_met(event: Event, facts: JobFacts) -> bool:
    """Whether all ranks had met and opened channels: before 2.22 `Init START` is printed behind the bootstrap."""
    process = facts.processes.get(event.origin.process) if event.origin.process else None
    opened = process is not None and 0 <= process.last_work < event.origin.sequence
    if facts.version is None or facts.version >= STARTS_FIRST or not opened:
        return False
    if facts.version < PRINTS_START:
        return _is_of_another_rank(event, facts)
    started = [[one.process for one in whole.members.values() if one.started] for whole in facts.communicators]
    whole = zip(facts.communicators, started, strict=True)
    return any(len(ranks) == one.nranks > 1 and event.origin.process in ranks for one, ranks in whole)


def _is_of_another_rank(event: Event, facts: JobFacts) -> bool:
    """Whether the peer's address is the one by which another process took part in the bootstrap."""
    named = [event, *(one for one in facts.of("connect-failed") if one.origin.process == event.origin.process)]
    address = next((one.fields["peer"] for one in named if "peer" in one.fields), "").split("<")[0]
    owners = {one.origin.process for one in facts.of("bootstrap-interface") if one.fields["address"] == address}
    return bool(owners - {event.origin.process})


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
