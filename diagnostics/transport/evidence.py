"""What shows that RDMA is there or wanted, or that TCP was chosen."""

from collections.abc import Sequence
from itertools import chain

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.transport.network import job_network
from diagnostics.transport.plugins import broken_plugins, platform_signs

FABRIC_INTERFACE = r"^(?:ib\d|ibs|ibp|ib[A-Z]|hsn\d|opa\d)"
_WANTED_VARIABLES = (
    "NCCL_IB_HCA",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
)
_TELLS_PLUGIN = (2, 4, 0)  # from here on each rank says whether it found a network plugin
_PLUGIN_LINES = ("plugin-absent", "plugin-load-error", "plugin-loaded", "network-requested", "variable")


def tcp_by_choice(facts: JobFacts) -> Event | None:
    """The line that shows that the user wanted TCP."""
    choices = (("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "socket"), ("NCCL_NET_PLUGIN", "none"))
    for name, wanted in choices if platform_signs(facts) else choices[:2]:  # verbs work without a plugin
        values = chain(facts.variables.get(name, ()), filter(None, (facts.typed_variables.get(name),)))
        if any(value.lower() == wanted for value in values):
            return facts.variable_event(name)
    requested = facts.first("network-requested")
    asked = requested if requested and requested.fields["name"].strip().lower() == "socket" else None
    return asked or _passed_over(facts)


def _passed_over(facts: JobFacts) -> Event | None:
    """Sockets that a process takes although NCCL started its verbs NICs.

    NCCL takes the first network that starts, and passes over one only where another is asked for by name (NCCL_NET,
    netName), which most releases do not print.
    """
    able = {event.origin.process for event in facts.of("ib-devices") if read_any(event)} - {None}
    chosen = (event for event in facts.of("network-assigned", "network") if event.origin.process in able)
    return next((event for event in chosen if event.fields["name"].strip().lower() == "socket"), None)


def never_tried(facts: JobFacts) -> Event | None:
    """The line that shows TCP being chosen by ranks that never looked for RDMA; None where that is not shown.

    NCCL names its verbs NICs, or says that it has none, before it takes sockets. Where a rank's start is in the log
    (its banner and completion, or its bootstrap and socket interfaces) without a word of either, it was told to.
    """
    tried = (
        "ib-no-device",
        "ib-devices",
        "ib-open-failed",
        "libibverbs-missing",
        "verbs-failed",
        "ofi",
        "plugin-unusable",
    )
    if facts.of(*tried) or job_network(facts) != "socket" or rdma_evidence(facts):
        return None
    started = {event.origin.process for event in facts.of("bootstrap-interface")}
    if facts.version is None or facts.version >= _TELLS_PLUGIN:  # without that line a part of the start is left out
        started &= {event.origin.process for event in facts.of(*_PLUGIN_LINES)}
    chosen = next((event for event in facts.of("socket-devices") if event.origin.process in started), None)
    whole = facts.of("version") and facts.of("init-complete") and facts.net_channels
    return chosen or (facts.net_channels[0].event if whole else None)


def rdma_evidence(facts: JobFacts) -> list[Event]:
    """Lines that show RDMA hardware, or the wish for it."""
    evidence = [event for event in facts.of("ib-devices") if read_any(event)]
    evidence += facts.of("ib-open-failed", "ofi-provider", "ofi-failed") + broken_plugins(facts)
    evidence += [event for event in facts.of("verbs-failed") if event.fields["call"] != "ibv_get_device_list"]
    evidence += [event for event in facts.of("variable") if event.fields["name"] in _WANTED_VARIABLES]
    evidence += [event for event in facts.of("variable", "shell-variable") if _wants_rdma(event)]
    evidence += [
        event
        for event in facts.of("bootstrap-interface", "socket-devices")
        if any(compiled(FABRIC_INTERFACE).search(name) for name in interface_names(event))
    ]
    return sorted(evidence, key=lambda event: event.origin.sequence)


def read_any(event: Event) -> bool:
    """Whether a ``NET/IB : Using`` line names a device."""
    return "/IB" in event.fields["devices"] or "RoCE" in event.fields["devices"]


def _wants_rdma(event: Event) -> bool:
    name, value = event.fields["name"], event.fields["value"].lower()
    return (name == "NCCL_NET" and value == "ib") or (name == "FI_PROVIDER" and value.startswith("efa"))


def interface_names(event: Event) -> Sequence[str]:
    """Names of the interfaces in a Bootstrap or NET/Socket line; at least one, possibly empty."""
    if "interface" in event.fields:
        return (event.fields["interface"],)
    return compiled(r"\[\d+\]([^:\[\]\s]+):").findall(event.fields.get("interfaces", "")) or ("",)
