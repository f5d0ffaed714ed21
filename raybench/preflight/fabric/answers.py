"""What hosts returned, checked for its form before it is read: a hostile host is out of the test alone. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.preflight.fabric.schedule import Fabric
from raybench.preflight.forms import by_name, flag, list_of, maybe, number, optional, record, row_of, text, whole_number

WRONG_END = (
    "what it returned of itself has another form than raybench's module gives it: is its Python, or the host, sound?"
)
WRONG_RESULTS = "results that it returned are not of this test, or have another form than the agent gives them"
_ANY = (text, number, flag)


def _scalar(value: object) -> bool:
    return any(form(value) for form in _ANY)


def _role(value: object) -> bool:
    return isinstance(value, str) and value in {"client", "server"}


_PCI = optional(
    path=text,
    links=list_of(optional(address=text, speed=_scalar, width=_scalar)),
    max_payload_bytes=whole_number,
)
_GID = record(index=whole_number, gid=text, type=maybe(text), netdev=maybe(text))
_COMMON = {"driver": text, "pci": _PCI, "counters": list_of(text), "state": text}
_DEVICE = optional(**_COMMON, phys_state=text, rate=text, link_layer=text, info=text, gids=list_of(_GID))
_INTERFACE = optional(**_COMMON, speed_mbit=_scalar, mtu=whole_number)
_NAMED_PORT = record(name=text, port=whole_number)
_NAMED = record(name=text)
_END = optional(
    hostname=text,
    devices=list_of(lambda one: _NAMED_PORT(one) and _DEVICE(one)),
    interfaces=list_of(lambda one: _NAMED(one) and _INTERFACE(one)),
    addresses=list_of(record(address=text, interface=text)),
    gpus=list_of(_scalar),
    tools=by_name(lambda one: record(path=text)(one) and optional(version=text, help=text)(one)),
    control_port=whole_number,
    boot_id=text,
    network_id=text,
)
_COUNTS = by_name(row_of(number, number))
_RESULT = record(test=text, role=_role, peer=text, key=text, round=whole_number)
_FIGURE = optional(problem=text, output=text, code=number, counters=_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What hosts measured, of those whose answer can be read, and why the others' cannot."""

    entries: Mapping[str, Sequence[Mapping[str, Any]]]
    refused: Mapping[str, str]


def is_end(found: object) -> bool:
    """Whether a host described itself as the module does."""
    return _END(found)


def results_of(returned: object, fabric: Fabric) -> Results:
    """The entries of hosts that take part. For one that cannot be of this test, a host is refused with all it said."""
    by_host = returned if isinstance(returned, dict) else {}
    hosts, rails = set(fabric.names), {rail.name for rail in fabric.rails}
    good, refused = {}, {}
    for host in fabric.names:
        entries = by_host.get(host, [])
        if isinstance(entries, list) and all(_is_result(entry, hosts - {host}, rails) for entry in entries):
            good[host] = entries
        else:
            refused[host] = WRONG_RESULTS
    return Results(entries=good, refused=refused)


def _is_result(entry: object, peers: set[str], rails: set[str]) -> bool:
    return (
        isinstance(entry, dict)
        and _RESULT(entry)
        and _FIGURE(entry)
        and entry["peer"] in peers
        and entry["key"] in rails
    )
