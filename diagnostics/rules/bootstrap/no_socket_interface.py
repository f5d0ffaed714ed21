"""No network interface fits.

Symptom: ``Bootstrap : no socket interface found``, ``NET/Socket : No usable listening interface found``.

Why: NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY matches no interface of this host. Interface names differ between
machines, and in containers.

Not when: an interface was found.

Source: NCCL's socket.cc; user guide, NCCL_SOCKET_IFNAME.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import named_error
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL says that it has no interface."""
    events = [event for event in facts.of("no-interface") if not _lacks_descriptors(event)]
    if not events:
        return CLEAR
    value = facts.value_of("NCCL_SOCKET_IFNAME") or facts.typed_variables.get("NCCL_SOCKET_IFNAME")
    setting = facts.variable_event("NCCL_SOCKET_IFNAME")
    return found(
        conclude(
            facts,
            [*([setting] if setting else []), *events],
            severity="critical",
            summary="No network interface fits" + (f" NCCL_SOCKET_IFNAME={value}" if value else ""),
            explanation="Every rank needs one IP interface to meet the others, whatever carries the data. "
            + _why(events, value),
            hosts={event.origin.host for event in events if event.origin.host},
            occurrences=facts.count("no-interface"),
        )
    )


def _lacks_descriptors(event: Event) -> bool:
    """Whether listing the interfaces failed for want of a descriptor: that is file-limit's."""
    error = named_error(event.fields.get("what", ""))
    return error is not None and error.name in ("EMFILE", "ENFILE")


def _why(events: list[Event], value: str | None) -> str:
    if all("getifaddrs" in event.fields.get("what", "") for event in events):
        return "The system does not let this process list its interfaces: a container or security module forbids it."
    return "The name in the variable does not exist on this host." if value else "None is up with a usable address."


RULE = Rule(
    id="no-socket-interface",
    title="No network interface fits",
    severity="critical",
    actions=("choose-interface",),
    check=check,
)
