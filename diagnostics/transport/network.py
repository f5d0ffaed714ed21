"""Which network NCCL took, by the lines of channels, else of the choice, else by what only one network prints."""

from diagnostics.events import Event, quote
from diagnostics.facts import JobFacts, asked_once
from diagnostics.parsers.base import compiled
from diagnostics.transport.declined import declined, networks_after_plugins
from diagnostics.transport.link_layer import link_layer

TCP_NETWORKS = frozenset({"socket", "plugin:FastSocket"})
_OFI_NAMES = frozenset({"aws libfabric", "libfabric", "ofi", "aws-ofi-nccl"})
_SYNONYMS = {"infiniband": "ib", "ib": "ib", "socket": "socket", "sockets": "socket", "tcp": "socket", "ip": "socket"}
_OF_OTHERS = r"(?i)nvshmem|\bUCX\b"  # they open connections of their own, whatever NCCL does
_NAMES_CALL = r"Call to |ibv_post_|failed \(errno "  # how NCCL and MSCCL++ name it; perror's form is of other programs
_DATA_CALLS = ("reg_mr", "reg_dmabuf", "modify_qp", "create_qp", "create_cq", "set_ece")


def network_class(name: str, layer: str | None) -> str:
    """The verdict's name of a network that NCCL calls ``name``. IB and NVIDIA's plugin for it go by the link layer."""
    plain = name.strip().lower()
    known = _SYNONYMS.get(plain)
    if known == "ib" or plain.startswith(("ibext", "nccl rdma plugin")):
        return layer or "ib"
    if known:
        return known
    if plain in _OFI_NAMES:
        return "plugin:aws-ofi-nccl"
    return f"plugin:{name.strip()}"


@asked_once
def job_network(facts: JobFacts) -> str:
    """``ib``, ``roce``, ``socket``, ``plugin:<name>``, ``mixed``, ``none`` or ``unknown``."""
    layer = link_layer(facts)
    if network_refused(facts) and not _chosen_names(facts):
        return "none"
    for names in (_channel_names(facts), _chosen_names(facts), _hinted_names(facts)):
        classes = {network_class(name, layer) for name in names}
        if classes:
            return classes.pop() if len(classes) == 1 else _agreed(classes)
    return "unknown"


def took_tcp(facts: JobFacts, event: Event) -> bool:
    """Whether the process that printed a line says that it took sockets; False where its choice is not shown."""
    process = facts.processes.get(event.origin.process) if event.origin.process else None
    if process is None or not process.networks:
        return False
    return network_class(list(process.networks)[-1], None) in TCP_NETWORKS


def network_refused(facts: JobFacts) -> bool:
    """Whether NCCL stopped because the network that it was told to take is not there."""
    return bool(facts.of("network-not-found", "plugin-none"))


def _agreed(classes: set[str]) -> str:
    plugins = {name for name in classes if name.startswith("plugin:")}
    return plugins.pop() if len(classes) == 2 and len(plugins) == 1 and "plugin:UCX" in classes else "mixed"


def _channel_names(facts: JobFacts) -> set[str]:
    return {channel.network for channel in facts.net_channels if channel.network}


def _chosen_names(facts: JobFacts) -> set[str]:
    chosen = {name for process in facts.processes.values() for name in process.networks}
    return chosen or {quote(event.fields["name"])[:60] for event in facts.of("network-assigned", "network")}


def _hinted_names(facts: JobFacts) -> set[str]:
    """What is implied by lines that only one network prints, where no line names the choice."""
    if vendor := facts.first("vendor-network"):
        return networks_after_plugins(facts) or {vendor.fields["name"]}
    if distances := facts.of("nic-distance"):
        return {event.fields["name"] for event in distances}
    if facts.of("ofi") and not facts.of("ofi-failed"):
        return networks_after_plugins(facts) or ({"aws-ofi-nccl"} if _may_be_ofi(facts) else _socket_or_verbs(facts))
    if devices := facts.of("gdr-nic"):  # printed for the devices of the network in use, under its name
        return {event.fields["network"].strip() for event in devices}
    return _socket_or_verbs(facts) or _started_plugins(facts)


def _started_plugins(facts: JobFacts) -> set[str]:
    """NVIDIA's plugin for verbs where it started, and nothing says that it found no device or another network came."""
    if facts.of("ib-no-device", "libibverbs-missing", "ib-open-failed", "plugin-unusable", "socket-devices"):
        return set()
    return {event.fields["name"] for event in facts.of("plugin-named")}


def _may_be_ofi(facts: JobFacts) -> bool:
    """Whether aws-ofi-nccl speaks in a process in which no other network is tried after it."""
    return len(declined(facts)) < len(facts.of("ofi"))


def _socket_or_verbs(facts: JobFacts) -> set[str]:
    sockets = facts.of("socket-devices")
    if not (sockets and facts.of("ib-no-device")) and _rdma_data_events(facts):
        return {"IB"}
    units = {event.fields["unit"] for event in facts.of("trace")} | _units_of_warnings(facts)
    if (
        sockets and (facts.of("ib-no-device", "libibverbs-missing") or not _lists_sockets_always(facts))
    ) or "net_socket" in units:
        return {"Socket"}
    return {"IB"} if "net_ib" in units or any(process.devices for process in facts.processes.values()) else set()


def _units_of_warnings(facts: JobFacts) -> set[str]:
    """The transports of NCCL whose own source files, or names, stand in warnings about transfers."""
    told = facts.of("message-truncated", "unclassified-warning", "collective-mismatch", "peer-closed")
    marks = {"net_socket": ("transport/net_socket", "NET/Socket"), "net_ib": ("transport/net_ib", "NET/IB")}
    return {unit for unit, names in marks.items() if any(name in event.text for event in told for name in names)}


def _lists_sockets_always(facts: JobFacts) -> bool:
    """Whether this release names socket interfaces whatever network it takes: 2.4.0 to 2.4.7."""
    return facts.version is not None and (2, 4, 0) <= facts.version <= (2, 4, 7)


def _rdma_data_events(facts: JobFacts) -> list[Event]:
    calls = [event for event in facts.of("verbs-failed") if any(call in event.fields["call"] for call in _DATA_CALLS)]
    calls = [event for event in calls if compiled(_NAMES_CALL).search(event.text)]
    calls = [event for event in calls if not compiled(_OF_OTHERS).search(event.text)]
    others = facts.of("completion-error", "ib-connection", "async-event", "gdr-claimed")
    listed = [
        event
        for event in facts.of("ib-devices")
        if "IB" in event.fields["devices"] or "RoCE" in event.fields["devices"]
    ]
    return calls + others + listed
