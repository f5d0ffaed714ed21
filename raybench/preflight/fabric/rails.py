"""Rails: which port of one host is measured with which port of another. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from raybench.preflight.fabric.ends import End, Port


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """Ports that belong together, one a host at most: of the same name, or, where names differ, of the same place."""

    name: str
    ports: Mapping[str, Port]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProblem:
    """Why a host, or a device of it, takes no part. ``fault``: something is broken, not merely missing."""

    host: str
    text: str
    advice: str
    device: str | None = None
    fault: bool = False


def verbs_rails(ends: Sequence[End], devices: str) -> tuple[tuple[Rail, ...], tuple[HostProblem, ...]]:
    """The rails of RDMA devices. ``devices``: names or patterns, separated by commas; empty: all.

    A port that is down while others of its rail are up is a fault of its host. One that is down everywhere, as the
    second port of many NICs is, is no rail.
    """
    chosen = {end.name: _chosen(end, str(end.options.get("fabric_devices") or devices)) for end in ends}
    names = [{_label(port) for port in ports} for ports in chosen.values() if ports]
    by_name = bool(names) and bool(set.intersection(*names))
    rails: dict[str, dict[str, Port]] = {}
    for host, ports in chosen.items():
        for place, port in enumerate(ports):
            rails.setdefault(_label(port) if by_name else f"rail{place}", {})[host] = port
    alive = {name: ports for name, ports in rails.items() if any(port.active for port in ports.values())}
    problems = [problem for name, ports in alive.items() for problem in _down(name, ports)]
    problems += [_without(host) for host, ports in chosen.items() if not any(port.active for port in ports)]
    problems += _missing(alive, chosen)
    working = {name: {host: port for host, port in ports.items() if port.active} for name, ports in alive.items()}
    order = sorted(working, key=_natural)
    usable = tuple(Rail(name=name, ports=working[name]) for name in order if len(working[name]) > 1)
    return usable, tuple(problems)


def tcp_rails(ends: Sequence[End]) -> tuple[Rail, ...]:
    """The one rail of TCP: each host's interface that carries its address, or a stand-in where that is unknown."""
    ports = {}
    for end in ends:
        named = [port for port in end.interfaces if port.name == end.interface]
        ports[end.name] = named[0] if named else _unknown_interface(end.interface)
    return (Rail(name="tcp", ports=ports),)


def _chosen(end: End, devices: str) -> tuple[Port, ...]:
    wanted = [pattern.strip() for pattern in devices.split(",") if pattern.strip()]
    ports = sorted(end.verbs, key=lambda port: (_natural(port.name), port.number))
    if not wanted:
        return tuple(ports)
    return tuple(port for pattern in wanted for port in ports if fnmatchcase(port.name, pattern))


def _down(rail: str, ports: Mapping[str, Port]) -> list[HostProblem]:
    up = sum(port.active for port in ports.values())
    return [
        HostProblem(
            host=host,
            device=port.name,
            text=f"port {port.number} of {port.name} is {port.state}, while {up} other hosts have rail {rail} up",
            advice="look at cable, transceiver and switch port; ibstat shows the state, dmesg when it went down",
            fault=True,
        )
        for host, port in ports.items()
        if not port.active
    ]


def _without(host: str) -> HostProblem:
    return HostProblem(
        host=host,
        text="it has no RDMA port that is active",
        advice="raybench preflight says what is wrong with its drivers and ports",
        fault=True,
    )


def _missing(rails: Mapping[str, Mapping[str, Port]], chosen: Mapping[str, Sequence[Port]]) -> list[HostProblem]:
    """Hosts that lack a device which most others have."""
    with_any = [host for host, ports in chosen.items() if any(port.active for port in ports)]
    return [
        HostProblem(
            host=host,
            device=name,
            text=f"it has no device on rail {name}, which {len(ports)} other hosts have",
            advice="compare lspci and ibv_devices with another host; the NIC or its driver may be missing",
            fault=True,
        )
        for name, ports in rails.items()
        for host in with_any
        if host not in ports and 2 * len(ports) > len(with_any)
    ]


def _label(port: Port) -> str:
    return port.name if port.number == 1 else f"{port.name}:{port.number}"


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts mlx5_2 before mlx5_10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def _unknown_interface(name: str | None) -> Port:
    return Port(
        name=name or "unknown",
        number=1,
        verbs=False,
        active=True,
        state="unknown",
        rate_gbit_per_s=None,
        rate_text="unknown",
        ethernet=True,
        driver=None,
        mtu=None,
        pci=None,
    )
