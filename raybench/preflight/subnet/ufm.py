"""UFM's REST answers, saved as files: ports, alarms and events, and ports that OpenSM leaves out as unhealthy."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.preflight.subnet.facts import MOST_PORTS, Aspect, Complaint, Kind, PortFacts, PortKey, Told, guid_of

Row = Mapping[str, Any]
_STATES = {"active": "Active", "armed": "Armed", "initialize": "Init", "initialized": "Init", "init": "Init",
           "down": "Down"}  # fmt: skip
_PHYSICAL = {"link up": "LinkUp", "linkup": "LinkUp", "polling": "Polling", "disabled": "Disabled"}
_SEVERE = frozenset({"critical", "error", "major"})
_MILD = frozenset({"warning", "minor"})
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("duplicated-guid", re.compile(r"duplicat\w* .*guid|guid.*duplicat", re.IGNORECASE)),
    ("bit-errors", re.compile(r"\bBER\b|bit error|symbol[- _]?ber", re.IGNORECASE)),
    ("port-errors", re.compile(r"symbol[- ]?error|rcv[- ]?error|integrity|overrun|error[- ]recovery|link[- ]?downed",
                               re.IGNORECASE)),
    ("link-rate", re.compile(r"\b(?:link )?(?:speed|width)\b", re.IGNORECASE)),
    ("port-down", re.compile(r"link (?:went|is|state)? ?down|port .*(?:down|disabled)|node is down", re.IGNORECASE)),
)  # fmt: skip
_OBJECT = re.compile(r"(?:0x)?([0-9a-f]{16})(?:_(\d{1,4}))?", re.IGNORECASE)
_MOST_COMPLAINTS = 100_000


def rows_of(text: str) -> Sequence[Row]:
    """The objects of an answer: a list, or one below ``data``; none where it has another form."""
    if text.lstrip()[:1] not in {"[", "{"}:
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if isinstance(found, dict):
        found = next((found[name] for name in ("data", "ports", "alarms", "events") if name in found), [found])
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else ()


def _is_port(row: Row) -> bool:
    return "physical_state" in row or "logical_state" in row


def _is_unhealthy(row: Row) -> bool:
    return "UnhealthyNode" in row or "UnhealthyPort" in row


def _is_alarm(row: Row) -> bool:
    return "severity" in row and bool({"object_name", "related_object_name", "reason", "event_type"} & set(row))


def is_ufm(text: str) -> bool:
    """Whether a text is an answer that is known."""
    rows = rows_of(text)
    return any(_is_port(row) or _is_unhealthy(row) or _is_alarm(row) for row in rows[:100])


def parse_ufm(text: str) -> Told:
    """Samples (6.19, cut)::

    [{"system_name": "gpu-01", "dname": "HCA-1/1", "name": "b8599f0300a00002_1", "physical_state": "Link Up",
      "logical_state": "Active", "active_speed": "EDR", "active_width": "4x", "high_ber_severity": "N/A"}]
    [{"name": "Link HW Error", "severity": "Warning", "object_name": "b8599f0300a00002_1", "event_type": 112,
      "reason": "Link-Downed counter delta threshold exceeded. Threshold is 0, calculated delta is 2."}]
    """
    ports: list[PortFacts] = []
    complaints: list[Complaint] = []
    covers: set[Aspect] = set()
    owners: dict[PortKey, str] = {}
    for row in rows_of(text):
        if _is_port(row) and len(ports) < MOST_PORTS:
            port = _port(row)
            ports.append(port)
            complaints += _twice(port, owners)
            complaints += _high_ber(row, port)
            covers |= {"link state", "link rate", "GUIDs", *(("bit errors",) if "high_ber_severity" in row else ())}
        elif len(complaints) < _MOST_COMPLAINTS and _is_unhealthy(row):
            covers.add("alarms")
            complaints += _unhealthy(row)
        elif len(complaints) < _MOST_COMPLAINTS and _is_alarm(row):
            covers.add("alarms")
            complaints += _alarm(row)
    return Told(ports=tuple(ports), complaints=tuple(complaints), covers=frozenset(covers))


def _said(row: Row, *names: str) -> str:
    return next((str(row[name]).strip() for name in names if row.get(name) not in {None, "", "N/A", "NA"}), "")


def _listed(row: Row, name: str) -> list[str]:
    value = row.get(name)
    return [str(one) for one in value[:32]] if isinstance(value, list) else []


def _port(row: Row) -> PortFacts:
    width = re.match(r"\d{1,2}", _said(row, "active_width"))
    peer = _OBJECT.fullmatch(_said(row, "peer"))
    widths = (re.match(r"\d{1,2}", one) for one in _listed(row, "enabled_width"))
    return PortFacts(
        key=_key(_said(row, "name")) or PortKey(node=_said(row, "system_name"), port=_said(row, "number", "dname")),
        node=" ".join(filter(None, (_said(row, "system_name"), _said(row, "dname")))),
        is_host="computer" in _said(row, "description", "path").lower(),
        peer=PortKey(node=guid_of(peer[1]), port=peer[2]) if peer and peer[2] else None,
        state=_STATES.get(_said(row, "logical_state").lower(), ""),
        physical=_PHYSICAL.get(_said(row, "physical_state").lower(), _said(row, "physical_state")),
        width=int(width[0]) if width else None,
        speed=_said(row, "active_speed"),
        widths=tuple(int(one[0]) for one in widths if one),
        speeds=tuple(_listed(row, "enabled_speed")),
    )


def _key(name: str) -> PortKey | None:
    """``b8599f03000a7768_1``: a GUID and a number."""
    match = _OBJECT.fullmatch(name)
    return PortKey(node=guid_of(match[1]), port=match[2]) if match and match[2] else None


def _twice(port: PortFacts, owners: dict[PortKey, str]) -> Iterator[Complaint]:
    first = owners.setdefault(port.key, port.node)
    if first != port.node and port.key.node.startswith("0x"):
        text = f"GUID {port.key.node} is that of {first!r} and of {port.node!r}"
        yield Complaint(kind="duplicated-guid", text=text, grave=True, ports=(port.key,), node=port.node)


def _high_ber(row: Row, port: PortFacts) -> Iterator[Complaint]:
    grade = _said(row, "high_ber_severity").lower()
    if grade in _SEVERE | _MILD:
        text = f"UFM calls its bit error rate high ({_said(row, 'high_ber_severity')})"
        yield Complaint(kind="bit-errors", text=text, grave=grade in _SEVERE, ports=(port.key,), node=port.node)


def _unhealthy(row: Row) -> Iterator[Complaint]:
    """OpenSM routes nothing over such a port. ``MANUAL``: somebody wanted it so."""
    condition = row.get("Condition")
    why = ", ".join(map(str, condition[:8])) if isinstance(condition, list) else str(condition or "")
    node, number = _said(row, "UnhealthyNode"), _said(row, "UnhealthyPortNumber", "UnhealthyPortDname")
    key = PortKey(node=guid_of(_said(row, "UnhealthyGUID")) or node, port=number)
    text = f"marked unhealthy ({why or 'no reason given'}): nothing is routed over it"
    host = "" if "switch" in _said(row, "UnhealthyNodeType").lower() else node.partition(" ")[0]
    grave = why.upper() != "MANUAL"
    yield Complaint(kind="fabric-alarm", text=text, grave=grave, ports=(key,), node=node, host=host)


def _alarm(row: Row) -> Iterator[Complaint]:
    grade = _said(row, "severity").lower()
    if grade not in _SEVERE | _MILD:
        return
    said = [_said(row, name) for name in ("name", "description", "summary", "reason", "counter")]
    text = ": ".join(dict.fromkeys(filter(None, said[:4])))
    kind: Kind = next((one for one, expression in _KINDS if expression.search(" ".join(said))), "fabric-alarm")
    key = _key(_said(row, "object_name", "related_object_name"))
    node = _said(row, "object_path", "related_object_path").removeprefix("default / ")
    host = re.match(r"Computer: ([^\s/]+)", node)
    yield Complaint(
        kind=kind,
        text=text,
        grave=grade in _SEVERE,
        ports=(key,) if key else (),
        node=node,
        host=host[1] if host else "",
    )
