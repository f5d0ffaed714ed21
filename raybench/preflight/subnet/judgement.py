"""What is wrong with ports of a fabric: links that are down or slower than both ends can, errors, GUIDs of two. Pure.

A port of a switch with nothing plugged in is no fault, and neither is a port that is down on most hosts, as the second
one of many NICs is. A link is slow where both ends would take part in more; where that is not told, where the tool says
that it could be more and most links of its kind are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.findings import Evidence, Finding
from raybench.finding_rules.ports import (
    FABRIC_ALARM,
    FABRIC_BIT_ERRORS,
    FABRIC_DUPLICATED_GUID,
    FABRIC_LINK_RATE,
    FABRIC_PORT_DOWN,
    FABRIC_PORT_ERRORS,
)
from raybench.finding_rules.rule import MeasuredRule
from raybench.preflight.link_limits import BIT_ERROR_LIMITS, INFINIBAND_SPEEDS
from raybench.preflight.subnet.facts import Complaint, Kind, PortFacts, PortKey, Told

_RULES: Mapping[Kind, MeasuredRule] = {
    "port-down": FABRIC_PORT_DOWN,
    "link-rate": FABRIC_LINK_RATE,
    "port-errors": FABRIC_PORT_ERRORS,
    "bit-errors": FABRIC_BIT_ERRORS,
    "duplicated-guid": FABRIC_DUPLICATED_GUID,
    "fabric-alarm": FABRIC_ALARM,
}
# Totals since the counters were reset that are worth a look, as those of a host's own ports (checks/rdma_counters.py).
TOTALS = {"link_error_recovery": 0, "port_rcv_errors": 100, "port_xmit_discards": 1000, "symbol_error": 1000,
          "link_downed": 2, "local_link_integrity_errors": 0, "excessive_buffer_overrun_errors": 0}  # fmt: skip
_GRAVE_GROWTH = frozenset({"link_downed", "local_link_integrity_errors", "excessive_buffer_overrun_errors"})
_GROWTH = {"symbol_error": 10, "port_rcv_errors": 10, "port_xmit_discards": 100, "link_error_recovery": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """Something found at a port; the same of two files or from both ends of a link is one."""

    kind: Kind
    summary: str
    explanation: str
    grave: bool
    ports: tuple[PortKey, ...]
    hosts: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """Of a link the same from either end; of what names no port the words."""
        return self.kind, frozenset(self.ports) or self.summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFile:
    """What a file says, with its name, for evidence; ``lines`` are those of its text."""

    name: str
    told: Told
    lines: Sequence[str] = ()

    def evidence(self, line: int) -> tuple[Evidence, ...]:
        """The line that something rests on; none where the file has no lines that mean something."""
        if not 1 <= line <= len(self.lines):
            return ()
        return (Evidence(file=self.name, line=line, text=self.lines[line - 1].strip()[:400]),)


def judge(files: Sequence[ToldFile]) -> tuple[Finding, ...]:
    """What is at fault, the gravest first."""
    ports = _joined(files)
    found: dict[tuple[object, ...], _Fault] = {}
    for fault in _faults(files, ports):
        before = found.get(fault.identity)
        if before is None or (fault.grave and not before.grave):
            found[fault.identity] = fault
    ordered = sorted(found.values(), key=lambda one: (not one.grave, list(_RULES).index(one.kind)))
    return tuple(map(_finding, ordered))


def _faults(files: Sequence[ToldFile], ports: Mapping[PortKey, PortFacts]) -> Iterator[_Fault]:
    names = {key: one.node for key, one in ports.items() if one.node}
    nodes = {key.node: name for key, name in names.items()}
    for file in files:
        yield from (_complained(one, names, nodes, ports, file) for one in file.told.complaints)
    where = {one.key: file.evidence(one.line) for file in files for one in file.told.ports}
    judged = (*_down(ports), *_slow(ports), *_counted(ports), *_wrong_bits(ports))
    yield from (replace(fault, evidence=where.get(fault.ports[0], ())) for fault in judged)


def _joined(files: Sequence[ToldFile]) -> dict[PortKey, PortFacts]:
    """Each port with what all files say of it; of what two say, the first."""
    ports: dict[PortKey, PortFacts] = {}
    for one in (port for file in files for port in file.told.ports):
        before = ports.get(one.key)
        ports[one.key] = one if before is None else _both(before, one)
    return ports


def _both(one: PortFacts, other: PortFacts) -> PortFacts:
    return replace(
        one,
        node=one.node or other.node,
        is_host=other.is_host if one.is_host is None else one.is_host,
        peer=one.peer or other.peer,
        state=one.state or other.state,
        physical=one.physical or other.physical,
        width=one.width or other.width,
        speed=one.speed or other.speed,
        widths=one.widths or other.widths,
        speeds=one.speeds or other.speeds,
        could_be=one.could_be or other.could_be,
        counters={**other.counters, **one.counters},
        grown={**other.grown, **one.grown},
        bit_errors={**other.bit_errors, **one.bit_errors},
    )


def _name(port: PortFacts) -> str:
    return f"{port.node or port.key.node} port {port.key.port}"


def _hosts(*ports: PortFacts | None) -> tuple[str, ...]:
    """Hosts' names: ``gpu-01 mlx5_0`` is of gpu-01."""
    named = (one.node.split()[0] for one in ports if one is not None and one.is_host and one.node.split())
    return tuple(dict.fromkeys(named))


def _down(ports: Mapping[PortKey, PortFacts]) -> Iterator[_Fault]:
    alike = Counter(_place(one) for one in ports.values() if one.is_host and one.state == "Active")
    missing = Counter(_place(one) for one in ports.values() if one.is_host and one.state in {"Down", "Init"})
    for one in ports.values():
        peer = ports.get(one.peer) if one.peer else None
        linked = peer is not None or one.peer is not None
        waiting = one.state in {"Init", "Armed"} and one.physical in {"LinkUp", ""}
        unlike = one.is_host and one.state == "Down" and alike[_place(one)] > missing[_place(one)]
        if not (waiting or unlike or (one.state == "Down" and linked)):
            continue
        state = "/".join(filter(None, (one.state, one.physical)))
        why = (
            "the cable is fine, and no subnet manager has brought the port up"
            if waiting
            else f"the same port is up on {alike[_place(one)]} other hosts"
            if unlike
            else f"something is plugged in: {_far(one, peer)}"
        )
        yield _Fault(
            kind="port-down", summary=f"{_name(one)} is {state}", explanation=f"{why}.", grave=True,
            ports=(one.key,), hosts=_hosts(one, peer),
        )  # fmt: skip


def _place(port: PortFacts) -> tuple[str, str]:
    """What hosts' ports have in common: the device's name behind the host's, and the number."""
    return port.node.partition(" ")[2], port.key.port


def _far(one: PortFacts, peer: PortFacts | None) -> str:
    return _name(peer) if peer else str(one.peer)


def _slow(ports: Mapping[PortKey, PortFacts]) -> Iterator[_Fault]:
    usual = _usual(ports)
    for one in ports.values():
        peer = ports.get(one.peer) if one.peer else None
        if one.state != "Active" or not one.peer:
            continue
        less = [*_below_both(one, peer), *_below_usual(one, peer, usual)]
        if less:
            yield _Fault(
                kind="link-rate",
                summary=f"{_name(one)} to {_far(one, peer)} runs at {_rate(one)}",
                explanation=f"It should run at {less[0]}.",
                grave=True,
                ports=tuple(sorted((one.key, one.peer), key=str)),
                hosts=_hosts(one, peer),
            )


def _rate(one: PortFacts) -> str:
    return " ".join(filter(None, (f"{one.width}x" if one.width else "", one.speed)))


def _below_both(one: PortFacts, peer: PortFacts | None) -> Iterator[str]:
    """What both ends would take part in, where that is more."""
    if peer is None:
        return
    widths = set(one.widths) & set(peer.widths)
    speeds = set(one.speeds) & set(peer.speeds) & set(INFINIBAND_SPEEDS)
    best = max(speeds, key=INFINIBAND_SPEEDS.index) if speeds else ""
    if one.width and widths and one.width < max(widths):
        yield f"{max(widths)}x: both ends would"
    if one.speed in INFINIBAND_SPEEDS and best and INFINIBAND_SPEEDS.index(one.speed) < INFINIBAND_SPEEDS.index(best):
        yield f"{best}: both ends would"


_Rates = Mapping[frozenset[bool | None], Counter[tuple[int, int]]]


def _speed(one: PortFacts) -> tuple[int, int]:
    return one.width or 0, INFINIBAND_SPEEDS.index(one.speed) if one.speed in INFINIBAND_SPEEDS else -1


def _usual(ports: Mapping[PortKey, PortFacts]) -> _Rates:
    """How many links run at each rate, of hosts and between switches; only where a tool says that it could be more."""
    found: dict[frozenset[bool | None], Counter[tuple[int, int]]] = {}
    if any(one.could_be for one in ports.values()):
        for one in ports.values():
            if one.state == "Active" and one.peer:
                found.setdefault(_ends(one, ports.get(one.peer)), Counter())[_speed(one)] += 1
    return found


def _ends(one: PortFacts, peer: PortFacts | None) -> frozenset[bool | None]:
    return frozenset({one.is_host, peer.is_host if peer else None})


def _below_usual(one: PortFacts, peer: PortFacts | None, usual: _Rates) -> Iterator[str]:
    """Where the tool says that a link could be more, and most links of its kind are."""
    rates = usual.get(_ends(one, peer), Counter())
    own = _speed(one)
    faster = sum(count for rate, count in rates.items() if rate[0] >= own[0] and rate[1] >= own[1] and rate != own)
    if one.could_be and 2 * faster > rates.total():
        (width, speed), _ = rates.most_common(1)[0]
        name = INFINIBAND_SPEEDS[speed] if speed >= 0 else ""
        yield f"{width}x {name}, as most links of its kind do".replace("  ", " ")


def _counted(ports: Mapping[PortKey, PortFacts]) -> Iterator[_Fault]:
    for one in ports.values():
        grown = {name: by for name, by in one.grown.items() if by > _GROWTH.get(name, 0)}
        totals = {name: count for name, count in one.counters.items() if count > TOTALS[name]}
        if not grown and not totals:
            continue
        told = [*(f"{name} +{by}" for name, by in grown.items()), *(f"{name} {by}" for name, by in totals.items())]
        what = "while the tool looked" if grown else "since its counters were reset"
        yield _Fault(
            kind="port-errors",
            summary=f"{_name(one)}: {', '.join(told)}",
            explanation=f"Counted {what}.",
            grave=bool(_GRAVE_GROWTH & set(grown)),
            ports=(one.key,),
            hosts=_hosts(one, ports.get(one.peer) if one.peer else None),
        )


def _wrong_bits(ports: Mapping[PortKey, PortFacts]) -> Iterator[_Fault]:
    """By what is left behind the error correction: of a link whose symbol errors are told, these alone count."""
    for one in ports.values():
        kinds = ("symbol",) if "symbol" in one.bit_errors else ("effective",)
        told = []
        for kind in (*kinds, "raw"):
            rate, (worth, bad) = one.bit_errors.get(kind), BIT_ERROR_LIMITS[kind]
            if rate is not None and rate >= worth:
                told.append((rate >= bad, f"{kind} BER {rate:.0e}, at most {worth:g}"))
        if told:
            peer = ports.get(one.peer) if one.peer else None
            yield _Fault(
                kind="bit-errors", summary=f"{_name(one)}: {'; '.join(text for _, text in told)}",
                explanation=f"At the other end: {_far(one, peer)}." if one.peer else "",
                grave=any(bad for bad, _ in told),
                ports=(one.key,), hosts=_hosts(one, peer),
            )  # fmt: skip


def _complained(
    one: Complaint,
    names: Mapping[PortKey, str],
    nodes: Mapping[str, str],
    ports: Mapping[PortKey, PortFacts],
    file: ToldFile,
) -> _Fault:
    """What a tool says itself, in its own words, with the names that other files have of its GUIDs."""
    known = [names.get(key) or nodes.get(key.node) or one.node or key.node for key in one.ports]
    where = " to ".join(
        f"{name} port {key.port}" if key.port else name for name, key in zip(known, one.ports, strict=True)
    )
    where = where or one.node
    return _Fault(
        kind=one.kind,
        summary=(f"{where}: {one.text}" if where else one.text)[:400],
        explanation="In the tool's own words.",
        grave=one.grave,
        ports=tuple(sorted(one.ports, key=str)),
        hosts=(one.host,) if one.host else _hosts(*(ports.get(key) for key in one.ports)),
        evidence=file.evidence(one.line),
    )


def _finding(fault: _Fault) -> Finding:
    rule = _RULES[fault.kind]
    return rule.finding(
        severity="critical" if fault.grave else "warning",
        confidence="certain",
        summary=fault.summary,
        explanation=fault.explanation,
        hosts=fault.hosts,
        evidence=fault.evidence,
        recommendations=rule.advice,
    )


def port_count(files: Iterable[ToldFile]) -> tuple[int, int]:
    """How many ports, and of how many nodes, the files tell of."""
    keys = {port.key for file in files for port in file.told.ports}
    return len(keys), len({key.node for key in keys})
