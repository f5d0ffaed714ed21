"""The three answers of the verdict, from facts alone: which network, GPUDirect or not, TCP fallback or not.

Each answers None or ``unknown`` where the log cannot tell; a missing line is never evidence.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from diagnostics.events import Event, quote
from diagnostics.facts import Channel, JobFacts
from diagnostics.parsers.base import compiled

_OFI_NAMES = frozenset({"aws libfabric", "libfabric", "ofi", "aws-ofi-nccl"})
_SYNONYMS = {"infiniband": "ib", "ib": "ib", "socket": "socket", "sockets": "socket", "tcp": "socket", "ip": "socket"}
_DATA_CALLS = ("reg_mr", "reg_dmabuf", "modify_qp", "create_qp", "create_cq")
TCP_NETWORKS = frozenset({"socket", "plugin:FastSocket"})
FABRIC_INTERFACE = r"^(?:ib\d|ibs|ibp|ib[A-Z]|hsn\d|opa\d)"
_WANTED_VARIABLES = (
    "NCCL_IB_HCA",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
)


# what rdma-core's naming, drivers that know Ethernet only, and bonds (which InfiniBand has none of) prove
_ROCE_NAMES = r"(?i)^(?:roce|bnxt_re|irdma|ionic|rxe|hns_|qedr|mlx5_bond_)"
_IB_NAMES = r"^(?:ib[ps]\d|hfi1|opa|qib)"


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


def link_layer(facts: JobFacts) -> str | None:
    """``ib`` or ``roce`` by what most devices of the lists show; of equals, the first device's. None without a list."""
    listed = Counter(device.layer for device in facts.devices)
    if listed:
        most = max(listed.values())
        return next(device.layer.lower() for device in facts.devices if listed[device.layer] == most)
    if facts.of("roce-sign", "gid-unreadable"):
        return "roce"
    if any("RoCE" in event.fields["devices"] for event in facts.of("ib-devices")):
        return "roce"
    connections = facts.of("ib-connection")
    if connections:
        return "roce" if "gid" in connections[0].fields else "ib"
    return _layer_of_errors(facts)


def _layer_of_errors(facts: JobFacts) -> str | None:
    """The link layer by what errors name: NCCL prints GIDs of RoCE only, and devices may be named by their layer."""
    errors = facts.of("completion-error", "verbs-failed", "async-event", "link-layer-mismatch", "ib-open-failed")
    names = {event.fields.get("device", "") for event in (*errors, *facts.of("gdr-adapter"))}
    filters = (*facts.variables.get("NCCL_IB_HCA", ()), facts.typed_variables.get("NCCL_IB_HCA", ""))
    names.update(name for value in filters if "^" not in value for name in compiled(r"[\w.]+").findall(value))
    if any(compiled(_ROCE_NAMES).match(name) for name in names) or any(_has_gid(event) for event in errors):
        return "roce"
    return "ib" if any(compiled(_IB_NAMES).match(name) for name in names) else None


def _has_gid(event: Event) -> bool:
    mapped = compiled(r"(?i)GID (?:index \d+, local GID )?(?:::ffff:|fe80::)|/RoCE").search(event.text)
    return bool(mapped) or (event.kind == "completion-error" and "Gid" in event.text)


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
        return {vendor.fields["name"]}
    if distances := facts.of("nic-distance"):
        return {event.fields["name"] for event in distances}
    if facts.of("ofi") and not facts.of("ofi-failed"):
        return {"aws-ofi-nccl"}
    if devices := facts.of("gdr-adapter"):  # printed for the devices of the network in use, under its name
        return {event.fields["network"].strip() for event in devices}
    return _socket_or_verbs(facts)


def _socket_or_verbs(facts: JobFacts) -> set[str]:
    sockets = facts.of("socket-devices")
    if not (sockets and facts.of("ib-no-device")) and _rdma_data_events(facts):
        return {"IB"}
    units = {event.fields["unit"] for event in facts.of("trace")} | _units_of_warnings(facts)
    if (sockets and (facts.of("ib-no-device") or not _lists_sockets_always(facts))) or "net_socket" in units:
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
    others = facts.of("completion-error", "ib-connection", "async-event", "gdr-claimed")
    listed = [
        event
        for event in facts.of("ib-devices")
        if "IB" in event.fields["devices"] or "RoCE" in event.fields["devices"]
    ]
    return calls + others + listed


def data_channels(facts: JobFacts) -> list[Channel]:
    """Network channels that could use GPUDirect RDMA: all but those over sockets."""
    return [channel for channel in facts.net_channels if network_class(channel.network or "", None) not in TCP_NETWORKS]


def gpu_direct(facts: JobFacts) -> bool | None:
    """True where a channel shows GDRDMA, False where it is shown to be absent, None where the log cannot tell."""
    channels = data_channels(facts)
    if any(channel.gdr for channel in channels):
        return True
    if facts.net_channels:
        used = facts.count("init-complete") if channels else not facts.failed
        return False if used or not facts.failed else None
    if facts.of("gdr-disabled-by-plugin"):
        return False
    states = adapter_states(facts)
    if states and not any(states.values()):
        return False
    if job_network(facts) in TCP_NETWORKS and facts.multi_node and facts.works and not facts.failed:
        return False
    claims = facts.of("gdr-claimed")
    return claims[0].fields["state"] == "enabled" if claims else None


def adapter_states(facts: JobFacts) -> dict[tuple[str, str], bool]:
    """(host, adapter) -> whether it can register GPU memory, by either way. Socket interfaces are left out."""
    states: dict[tuple[str, str], bool] = {}
    for event in facts.of("gdr-adapter"):
        if network_class(event.fields["network"], None) in TCP_NETWORKS:
            continue
        key = (event.origin.host or "", event.fields["device"])
        enabled = event.fields["state"].lower() == "enabled"
        states[key] = states.get(key, False) or enabled
    return states


def tcp_by_choice(facts: JobFacts) -> Event | None:
    """The line that shows that the user wanted TCP."""
    choices = (("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "socket"), ("NCCL_NET_PLUGIN", "none"))
    for name, wanted in choices if platform_signs(facts) else choices[:2]:  # verbs work without a plugin
        values = chain(facts.variables.get(name, ()), filter(None, (facts.typed_variables.get(name),)))
        if any(value.lower() == wanted for value in values):
            return facts.variable_event(name)
    requested = facts.first("network-requested")
    return requested if requested and requested.fields["name"].strip().lower() == "socket" else None


def platform_signs(facts: JobFacts) -> list[Event]:
    """Lines that show a platform whose network is reached through a plugin only: EFA, Slingshot."""
    sign = compiled(r"\b(?:hsn\d|efa\b|rdmap\d|FI_PROVIDER=(?:efa|cxi)|aws-ofi|p[345]\w{0,3}\.\d+xlarge)")
    kinds = (
        "bootstrap-interface",
        "socket-devices",
        "variable",
        "shell-variable",
        "plugin-absent",
        "ofi",
        "topology-file",
    )
    return [event for event in facts.of(*kinds) if sign.search(event.text)]


def absent_named_plugin(facts: JobFacts) -> tuple[str, Event] | None:
    """A plugin that NCCL was told to load by name (NCCL_NET_PLUGIN) and whose file is not there, and the line.

    Without a name NCCL looks for ``libnccl-net.so`` alone; ``none`` is what users write to have no plugin.
    """
    if facts.of("plugin-loaded", "ofi-provider"):
        return None
    present = {_plugin_name(event.fields["library"]) for event in broken_plugins(facts)}
    for event in facts.of("plugin-absent", "plugin-load-error"):
        if event.kind == "plugin-absent" or _is_absent_plugin(event):
            text = event.fields.get("names") or event.fields.get("name") or event.fields.get("library", "")
            names = [_plugin_name(name) for name in text.split()]
            if names and not {"", "none", *present}.intersection(names):
                return names[0], event
    return None


def _plugin_name(library: str) -> str:
    """``custom`` of ``libnccl-net-custom.so``, and of the name alone; empty for NCCL's default file."""
    file = library.rsplit("/", 1)[-1].rstrip(".")
    named = compiled(r"^lib[nr]ccl[-_]net-?(.*?)\.so[.\d]*$").match(file)
    return named[1] if named else file


_TELLS_PLUGIN = (2, 4, 0)  # from here on each rank says whether it found a network plugin
_PLUGIN_LINES = ("plugin-absent", "plugin-load-error", "plugin-loaded", "network-requested", "variable")


def never_tried(facts: JobFacts) -> Event | None:
    """The line that shows TCP being chosen by ranks that never looked for RDMA; None where that is not shown.

    NCCL names its verbs adapters, or says that it has none, before it takes sockets. Where a rank's start is in the log
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


def broken_plugins(facts: JobFacts) -> list[Event]:
    """Lines that show a plugin that is there and does not load. One whose own file does not exist is merely absent."""
    return [event for event in facts.of("plugin-load-error") if not _is_absent_plugin(event)]


def unloadable_plugins(facts: JobFacts) -> list[Event]:
    """The same, and what NCCL says of a library that it could not load."""
    return broken_plugins(facts) + [event for event in facts.of("plugin-unusable") if "library" in event.fields]


def _is_absent_plugin(event: Event) -> bool:
    library = event.fields["library"].rsplit("/", 1)[-1]
    own = library.startswith(("libnccl-net", "librccl-net", "libnccl_net", "libnccl-gin", "libnccl-tuner"))
    return own and _without_name(event).startswith("cannot open shared object file: No such")


def _without_name(event: Event) -> str:
    """The linker's text on a library, without the library's name where it is given twice (2.22 and newer)."""
    library = event.fields["library"].rsplit("/", 1)[-1]
    head, mark, reason = event.fields["reason"].partition(": ")
    return reason if mark and head.rsplit("/", 1)[-1] == library else event.fields["reason"]


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


def tcp_provider(facts: JobFacts) -> Event | None:
    """The line in which aws-ofi-nccl says that it runs over TCP."""
    return next(
        (
            event
            for event in facts.of("ofi-provider")
            if compiled(r"^(?:tcp|sockets|net)\b").match(event.fields["provider"])
        ),
        None,
    )


def handshake_refused(facts: JobFacts) -> bool:
    """Whether a peer of another kind called while sockets were set up, so that no data path came to be."""
    wrong_type = any(event.fields.get("what") == "type" for event in facts.of("foreign-connection"))
    return wrong_type and not facts.net_channels


def tcp_fallback(facts: JobFacts, *, split_machine: bool) -> bool | None:
    """True where data crosses nodes over TCP although RDMA was there or wanted; None where the log cannot tell.

    ``split_machine``: the "nodes" are containers of one machine, whose data could have gone over NVLink or PCIe.
    """
    network = job_network(facts)
    if network in ("unknown", "none"):
        return None
    split_machine = split_machine or facts.split_machine is not None
    over_tcp = (
        network in TCP_NETWORKS or tcp_provider(facts) is not None or (network == "mixed" and _socket_data(facts))
    )
    if not over_tcp or (facts.multi_node is False and facts.split_machine is None):
        return False
    if facts.multi_node is None:
        return False if handshake_refused(facts) else None
    if network == "mixed" and tcp_by_choice(facts):
        return None
    if tcp_by_choice(facts) or (not split_machine and never_tried(facts)):
        return False
    return True if split_machine or network == "mixed" or rdma_evidence(facts) else None


def _socket_data(facts: JobFacts) -> bool:
    return any(network_class(channel.network or "", None) in TCP_NETWORKS for channel in facts.net_channels)
