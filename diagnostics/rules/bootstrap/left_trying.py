"""What is said of attempts to connect that find no way, or no answer, up to the end of what a log shows."""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import conclude
from diagnostics.rules.bootstrap.connecting import MEANING, explains_failure, socket_error


def left_trying(facts: JobFacts, tried: list[Event]) -> Finding:
    """A warning, since NCCL tries again; critical where the run failed and nothing else tells why."""
    error, offers, failed = socket_error(tried[0]), facts.of("bootstrap-interface"), explains_failure(facts)
    peers = list(dict.fromkeys(event.fields["peer"].split("<")[0] for event in tried if "peer" in event.fields))
    own = [one for one in offers if one.origin.process == tried[0].origin.process][-1:]
    theirs = [one for one in offers if peers and one.fields["address"].split("<")[0] == peers[0]][:1]
    return conclude(
        facts,
        [*own, *theirs, *tried],
        severity="critical" if failed else "warning",
        confidence="likely" if failed else "possible",
        summary=f"Connecting{f' to {peers[0]}' + _named(theirs) if peers else ''} fails up to the end of the log"
        + (f" ({error})" if error else ""),
        explanation=(f"{MEANING[error.name]} " if error and error.name in MEANING else "")
        + f"Nothing behind it shows that the connection came to be.{_own(own)} The peer may have offered an address "
        "that is good on its own machine alone (behind NAT, of a container's bridge, of WSL), or one of a VPN or "
        f"network that this host is not on. `ip route get {peers[0] if peers else '<peer address>'}` shows the way "
        "that is taken from here; NCCL_SOCKET_IFNAME names the interface, on each node its own if they differ.",
        occurrences=len(tried),
        sequence=tried[0].origin.sequence,
    )


def _named(offer: list[Event]) -> str:
    return f" ({offer[0].fields['interface']})" if offer else ""


def _own(offer: list[Event]) -> str:
    return f" This side offers {offer[0].fields['interface']}:{offer[0].fields['address']}." if offer else ""
