"""Which link layer the NICs have: InfiniBand or Ethernet (RoCE), by all that proves it."""

from collections import Counter

from diagnostics.events import Event
from diagnostics.facts import JobFacts, asked_once
from diagnostics.parsers.base import compiled

# what rdma-core's naming, drivers that know Ethernet only, and bonds (which InfiniBand has none of) prove
_ROCE_NAMES = r"(?i)^(?:roce|bnxt_re|irdma|ionic|rxe|hns_|qedr|mlx5_bond_)"
_IB_NAMES = r"^(?:ib[ps]\d|hfi1|opa|qib)"
# an IPv4 address, an empty row of the table, a link-local, global or unique local IPv6 address; fec0:: is InfiniBand's
_ROCE_GIDS = r"::|fe80::|2[0-9a-f]{3}:|f[cd][0-9a-f]{2}:"
_UNREACHABLE = (  # only RoCE asks the kernel for an interface, a route and a neighbour when it connects
    r"ibv_modify_qp failed with (?:.{0,20}?\b(?:No such device|Network is (?:down|unreachable)|No route to host)|"
    r"(?:error )?(?:19|100|101|113)\b)"
)


@asked_once
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
    names = {event.fields.get("device", "") for event in (*errors, *facts.of("gdr-nic"))}
    filters = (*facts.variables.get("NCCL_IB_HCA", ()), facts.typed_variables.get("NCCL_IB_HCA", ""))
    names.update(name for value in filters if "^" not in value for name in compiled(r"[\w.]+").findall(value))
    if any(compiled(_ROCE_NAMES).match(name) for name in names) or any(_has_gid(event) for event in errors):
        return "roce"
    return "ib" if any(compiled(_IB_NAMES).match(name) for name in names) else None


def _has_gid(event: Event) -> bool:
    mapped = compiled(rf"(?i)GID (?:index \d+, local GID )?(?:{_ROCE_GIDS})|/RoCE").search(event.text)
    if event.kind == "verbs-failed" and compiled(_UNREACHABLE).search(event.text):
        return True
    return bool(mapped) or (event.kind == "completion-error" and "Gid" in event.text)
