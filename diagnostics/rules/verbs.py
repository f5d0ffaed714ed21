"""Shared by the rules on verbs errors: what failed for good, and who the peer is."""

from collections.abc import Iterable

from diagnostics.events import Event
from diagnostics.facts import JobFacts

_OUT_OF_MEMORY = ("Cannot allocate memory", "errno 12")
ERRNO = {
    12: "ENOMEM",
    14: "EFAULT",
    22: "EINVAL",
    61: "ENODATA",
    101: "ENETUNREACH",
    110: "ETIMEDOUT",
    113: "EHOSTUNREACH",
}


def failed_calls(facts: JobFacts, *names: str) -> list[Event]:
    """Calls of these names that failed for good; retries and probes are printed at INFO and left out."""
    return [
        event
        for event in facts.of("verbs-failed")
        if event.origin.level != "INFO" and any(event.fields["call"].startswith(f"ibv_{name}") for name in names)
    ]


def is_out_of_memory(event: Event) -> bool:
    """Whether a failed call says ENOMEM."""
    return any(text in event.text for text in _OUT_OF_MEMORY) or error_number(event) == 12


def error_number(event: Event) -> int | None:
    """The errno of a failed call, where it is printed as a number."""
    return event.number("number") if "number" in event.fields else event.number("errno")


def completion_status(event: Event) -> int | None:
    """The work-completion status of an error line."""
    return event.number("error") if "error" in event.fields else event.number("status")


def peer_names(facts: JobFacts, events: Iterable[Event]) -> list[str]:
    """Peers of these events: the host where a bootstrap line shows whose address it is, else the address."""
    owners = {
        event.fields["address"]: event.origin.host
        for event in facts.of("bootstrap-interface")
        if event.origin.host is not None
    }
    names = dict.fromkeys(event.fields["peer"].split("<")[0] for event in events if "peer" in event.fields)
    return [f"{owners[name]} ({name})" if name in owners else name for name in names]


def device_names(events: Iterable[Event]) -> list[str]:
    """Adapters named by these events."""
    return sorted({event.fields["device"].rstrip(",.") for event in events if event.fields.get("device")})
