"""Shared by the rules on verbs errors: what failed for good, and who the peer is."""

from collections.abc import Iterable

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import ErrorNumber, named_error

_STATUSES = {  # of verbs, as rdma-core and UCX word them
    "local length error": 1,
    "local qp operation error": 2,
    "local protection error": 4,
    "wr flushed because qp in error state": 5,
    "memory window bind error": 6,
    "bad response": 7,
    "local access error": 8,
    "invalid request": 9,
    "remote invalid request error": 9,
    "remote access error": 10,
    "remote operation error": 11,
    "transport retry count exceeded": 12,
    "transport retry counter exceeded": 12,
    "receive-no-ready retry count exceeded": 13,
    "rnr retry counter exceeded": 13,
    "remote side aborted": 14,
}


def failed_calls(facts: JobFacts, *names: str) -> list[Event]:
    """Calls of these names that failed for good; retries and probes are printed at INFO and left out."""
    return [
        event
        for event in facts.of("verbs-failed")
        if event.origin.level != "INFO"
        and event.fields["call"].partition("_")[2].startswith(names)
        and not is_probe(event, facts)
    ]


def is_probe(event: Event, facts: JobFacts) -> bool:
    """Whether UCX tried a NIC while MPI started, which then worked: a benchmark begins behind it in its file."""
    begun = (one.origin for one in facts.of("benchmark-begun"))
    return "UCX" in event.text and any(one.file == event.origin.file and one.line > event.origin.line for one in begun)


def completions(facts: JobFacts) -> list[Event]:
    """Transfers that failed for good; of other libraries than NCCL, which try again, those that nothing follows."""
    return [
        event for event in facts.of("completion-error") if "library" not in event.fields or not facts.went_on(event)
    ]


def verbs_error(event: Event) -> ErrorNumber | None:
    """What a failed call says that the error is, in whichever spelling; None where it names none."""
    numbers = (event.fields.get("number"), event.fields.get("errno"))
    said = [event.fields.get("reason", ""), *(f"errno {number}" for number in numbers if number)]
    return named_error(" ".join(said))


def is_out_of_memory(event: Event) -> bool:
    """Whether a failed call says ENOMEM."""
    error = verbs_error(event)
    return error is not None and error.name == "ENOMEM"


def is_bare_queue(event: Event) -> bool:
    """Whether a queue fails without a reason, as old releases print it: ENOMEM is by far the usual one."""
    bare = "reason" not in event.fields and verbs_error(event) is None
    return bare and event.fields["call"] in ("ibv_create_qp", "ibv_create_cq")


def completion_status(event: Event) -> int | None:
    """The work-completion status of an error line, by its number or by what a library calls it."""
    if "words" in event.fields:
        return _STATUSES.get(event.fields["words"].lower())
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
    """NICs named by these events."""
    return sorted({event.fields["device"].rstrip(",.") for event in events if event.fields.get("device")})
