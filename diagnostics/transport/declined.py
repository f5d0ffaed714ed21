"""Processes whose network plugin loaded and did not start, told by what NCCL tried after it.

NCCL tries a plugin, then InfiniBand or RoCE, then sockets, and stops at the first that has a device. Where one of its
own networks speaks in a process after a plugin did, that plugin is not the network, whatever it said. Releases to 2.4.7
list socket interfaces before all of these.
"""

from collections.abc import Mapping

from diagnostics.events import Event, ProcessKey
from diagnostics.facts import JobFacts

_OWN = ("ib-devices", "ib-no-device", "socket-devices")
_PLUGINS = ("ofi", "vendor-network")
_ON_VERBS = frozenset({"gIB"})  # plugins that list NCCL's InfiniBand devices themselves
_OFI = "aws-ofi-nccl"


def successors(facts: JobFacts) -> Mapping[ProcessKey, str]:
    """Processes in which a plugin did not start: ``IB`` or ``Socket`` after it, empty where that is not shown."""
    spoke = {event.origin.process: event for event in facts.of(*_PLUGINS) if event.origin.process}
    provided = {event.origin.process for event in facts.of("ofi-provider")}
    provided |= {process for process, event in spoke.items() if _name(event) in _ON_VERBS}
    found: dict[ProcessKey, str] = {}
    sockets: set[ProcessKey] = set()
    for event in facts.of(*_OWN):
        process = event.origin.process
        if process is None or process not in spoke:
            continue
        after = event.origin.sequence > spoke[process].origin.sequence
        if event.kind == "socket-devices":
            sockets.add(process)
            if after and found.get(process) != "IB":
                found[process] = "Socket"
        elif after and process not in provided:  # a release with a second interface may ask verbs beside a plugin
            found[process] = "IB" if _lists_any(event) else "Socket" if process in sockets else ""
    return found


def declined(facts: JobFacts) -> list[Event]:
    """The lines of plugins in processes in which they did not start."""
    processes = successors(facts)
    return [event for event in facts.of(*_PLUGINS) if event.origin.process in processes]


def networks_after_plugins(facts: JobFacts) -> set[str]:
    """The networks of a job in which processes did without their plugin; empty where none is shown to."""
    after = successors(facts)
    plugins = facts.of("ofi-provider", "vendor-network")
    started = {_name(event) for event in plugins if event.origin.process not in after}
    names = set(after.values()) - {""}
    return names | started if names else names


def _name(event: Event) -> str:
    return event.fields["name"] if event.kind == "vendor-network" else _OFI


def _lists_any(event: Event) -> bool:
    return any(mark in event.fields.get("devices", "") for mark in ("/IB", "RoCE"))
