"""``ibdiagnet2.db_csv`` and ``ibdiagnet2.net_dump_ext``: every port of the fabric, its link, counters, bit errors."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from raybench.preflight.subnet.facts import (
    MOST_PORTS,
    Aspect,
    Complaint,
    Kind,
    PortFacts,
    PortKey,
    Told,
    counter_name,
    guid_of,
)

Row = Mapping[str, str]
_Meaning = TypeVar("_Meaning", int, str)
_WIDTHS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}  # by bit, InfiniBand's PortInfo
_SPEEDS = {
    1 << 0: "SDR", 1 << 1: "DDR", 1 << 2: "QDR", 1 << 16: "FDR10", 1 << 8: "FDR", 1 << 9: "EDR", 1 << 10: "HDR",
    1 << 11: "NDR", 1 << 12: "XDR",
}  # by bit, PortInfo's LinkSpeed, its extended ones from bit 8 on, as ibdiagnet joins them  # fmt: skip
_STATES = {"1": "Down", "2": "Init", "3": "Armed", "4": "Active"}
_PHYSICAL = {"1": "Sleep", "2": "Polling", "3": "Disabled", "4": "Training", "5": "LinkUp", "6": "LinkErrorRecovery"}
_SHORT_STATES = {"ACT": "Active", "ARM": "Armed", "INI": "Init", "DOWN": "Down"}
_SHORT_PHYSICAL = {"LINK UP": "LinkUp", "POLL": "Polling", "DISABLE": "Disabled", "DISABLED": "Disabled"}
_NO_COUNT = 1 << 62  # what is not counted is written as the largest numbers
_KIND_OF_EVENT: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("duplicated-guid", re.compile("DUPL.*GUID|GUID.*DUPL")),
    ("bit-errors", re.compile(r"(?:^|_)BER(?:_|$)")),
    ("link-rate", re.compile("SPEED|WIDTH")),
    ("port-down", re.compile("(?:^|_)INIT(?:_|$)|LINK_STATE|BAD_LINK|NOT_RESPOND")),
)
_NO_ALARM = frozenset({"BER_NO_THRESHOLD_IS_SUPPORTED", "BER_NO_THRESHOLD_SUPPORTED"})
_MILD_EVENT = re.compile("NEAR|HIGH_ERRORS|NODE_DESC|FW_VER|FIRMWARE")
_AFTER = re.compile(r"(?:ERRORS|WARNINGS)_")


def is_db_csv(text: str) -> bool:
    """Whether a text is the tables."""
    return bool(re.search(r"^START_(?:NODES|PORTS|LINKS|PM_INFO)[ \t\r]*$", text, re.MULTILINE))


def parse_db_csv(text: str) -> Told:
    """Tables between START_NAME and END_NAME, each with its heading. Sample (cut)::

    START_PORTS
    NodeGuid,PortGuid,PortNum,LinkWidthActv,LinkWidthEn,LinkSpeedEn,LinkSpeedActv,PortPhyState,PortState
    0xb8599f0300a00008,0xb8599f0300a00009,1,1,2,519,512,5,4
    END_PORTS
    """
    ports: dict[PortKey, PortFacts] = {}
    names: dict[str, str] = {}
    hosts: set[str] = set()
    complaints: list[Complaint] = []
    covers: set[Aspect] = set()
    peers: dict[PortKey, PortKey] = {}
    for table, line, row in _rows(text):
        covers |= _covered(table)
        if table == "NODES":
            guid, name = guid_of(row.get("NodeGUID", "")), row.get("NodeDesc", "").strip('" ')
            if names.setdefault(guid, name) != name and guid:
                complaints.append(_twice(guid, names[guid], name, line))
            hosts |= {guid} if row.get("NodeType", "").strip() == "1" else set()
        elif table == "LINKS":
            one, other = _key(row, "1"), _key(row, "2")
            peers |= {one: other, other: one}
        elif table in {"PORTS", "PM_INFO"} and len(ports) < MOST_PORTS:
            key = _key(row)
            facts = ports.get(key) or PortFacts(key=key, line=line)
            ports[key] = _of_ports(facts, row) if table == "PORTS" else replace(facts, counters=_counters(row))
        elif _AFTER.match(table):
            complaints += _event(row, table, line)
    told = tuple(
        replace(one, node=names.get(key.node, ""), is_host=key.node in hosts if names else None, peer=peers.get(key))
        for key, one in ports.items()
        if key.node and key.port not in {"", "0"}  # port 0 of a switch has no cable
    )
    named = tuple(replace(one, node=_names(one, names)) for one in complaints)
    return Told(ports=told, complaints=named, covers=frozenset(covers))


def _rows(text: str) -> Iterator[tuple[str, int, Row]]:
    """Rows by heading, each with its table and line. One that csv cannot read is left out."""
    table, heading = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith(("START_", "END_")) and "," not in stripped:
            table, heading = (stripped.removeprefix("START_"), []) if stripped.startswith("START_") else ("", [])
        elif table and stripped:
            try:
                values = next(csv.reader([stripped], skipinitialspace=True), [])
            except csv.Error:
                continue
            if heading:
                yield table, number, dict(zip(heading, values, strict=False))
            else:
                heading = [value.strip() for value in values]


def _covered(table: str) -> set[Aspect]:
    found: dict[str, set[Aspect]] = {
        "PORTS": {"link state", "link rate"},
        "PM_INFO": {"error counters"},
        "NODES": {"GUIDs"},
    }
    return {"alarms"} if _AFTER.match(table) else found.get(table, set())


def _key(row: Row, end: str = "") -> PortKey:
    guid = row.get(f"NodeGuid{end}") or row.get(f"NodeGUID{end}") or ""
    number = row.get(f"PortNum{end}") or row.get(f"PortNumber{end}") or ""
    return PortKey(node=guid_of(guid), port=number.strip())


def _of_ports(facts: PortFacts, row: Row) -> PortFacts:
    return replace(
        facts,
        state=_STATES.get(row.get("PortState", "").strip(), ""),
        physical=_PHYSICAL.get(row.get("PortPhyState", "").strip(), ""),
        width=max(_bits(row, "LinkWidthActv", _WIDTHS), default=None),
        speed=next(reversed(_bits(row, "LinkSpeedActv", _SPEEDS)), ""),
        widths=tuple(_bits(row, "LinkWidthEn", _WIDTHS)),
        speeds=tuple(_bits(row, "LinkSpeedEn", _SPEEDS)),
    )


def _bits(row: Row, name: str, meanings: Mapping[int, _Meaning]) -> list[_Meaning]:
    value = _number(row.get(name, ""))
    return [meaning for bit, meaning in meanings.items() if value and value & bit]


def _number(text: str) -> int | None:
    try:
        value = int(text.strip()[:32], 0)
    except ValueError:
        return None
    return value if 0 <= value < _NO_COUNT else None


def _counters(row: Row) -> dict[str, int]:
    """The larger of a counter and its extended one."""
    found: dict[str, int] = {}
    for name, text in row.items():
        known, value = counter_name(name), _number(text)
        if known and value is not None:
            found[known] = max(value, found.get(known, 0))
    return found


def _twice(guid: str, one: str, other: str, line: int) -> Complaint:
    text = f"node GUID {guid} is that of {one!r} and of {other!r}"
    return Complaint(kind="duplicated-guid", text=text, grave=True, ports=(PortKey(node=guid, port=""),), line=line)


def _event(row: Row, table: str, line: int) -> Iterator[Complaint]:
    event = row.get("EventName", "").strip('" ')
    if event in _NO_ALARM or not (event or row.get("Summary")):
        return
    kind: Kind = next((one for one, expression in _KIND_OF_EVENT if expression.search(event)), "fabric-alarm")
    grave = (table.startswith("ERRORS_") or kind == "bit-errors") and not _MILD_EVENT.search(event)
    key = _key(row)
    said = row.get("Summary", "").strip('" ')
    text = f"{event}: {said}"
    yield Complaint(kind=kind, text=text, grave=grave, ports=(key,) if key.node else (), line=line)


def _names(one: Complaint, names: Mapping[str, str]) -> str:
    return next((names[key.node] for key in one.ports if names.get(key.node)), "")


def is_net_dump_ext(text: str) -> bool:
    """Whether a text is the table of links with their bit errors."""
    return bool(re.search(r"^[ \t]*Ty[ \t]*:[ \t]*#[ \t]*:[ \t]*#IB[ \t]*:", text, re.MULTILINE))


def parse_net_dump_ext(text: str) -> Told:
    """Columns by their heading; the last one is a name that may have colons in it. Sample (cut)::

    Ty : # : #IB : GUID               : Sta : PhysSta : LWA : LSA : Raw BER : Symbol BER : Node Desc
    CA : 1 : 1   : 0xb8599f0300a00002 : ACT : LINK UP : 4x  : 50  : 1e-9    : 15E-255    : "gpu-01 mlx5_0"
    """
    heading: list[str] = []
    ports: list[PortFacts] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not heading:
            heading = [name.strip() for name in line.split(":")] if re.match(r"\s*Ty\s*:", line) else []
            continue
        values = [value.strip() for value in line.split(":", len(heading) - 1)]
        if len(values) == len(heading) and len(ports) < MOST_PORTS:
            ports += _of_dump(dict(zip(heading, values, strict=True)), number)
    covers: set[Aspect] = {"link state"} if ports else set()
    if any(name.endswith("BER") for name in heading) and ports:
        covers.add("bit errors")
    return Told(ports=tuple(ports), covers=frozenset(covers))


def _of_dump(row: Row, line: int) -> Iterator[PortFacts]:
    key = PortKey(node=guid_of(row.get("GUID", "")), port=row.get("#IB", ""))
    if not key.node or not key.port.isdecimal():
        return
    rates = {name: _rate(row.get(f"{name.capitalize()} BER", "")) for name in ("raw", "effective", "symbol")}
    width = re.match(r"(\d{1,2})x", row.get("LWA", ""), re.IGNORECASE)
    yield PortFacts(
        key=key,
        node=row.get("Node Desc", "").strip('" '),
        is_host=row.get("Ty") in {"CA", "HCA"},
        state=_SHORT_STATES.get(row.get("Sta", "").upper(), ""),
        physical=_SHORT_PHYSICAL.get(row.get("PhysSta", "").upper().replace("_", " "), ""),
        width=int(width[1]) if width else None,
        bit_errors={name: rate for name, rate in rates.items() if rate is not None},
        line=line,
    )


def _rate(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?(?:[eE][-+]?\d{1,4})?", text) else None
