"""Priorities of an Ethernet port: who is trusted, what is lossless. By mlnx_qos, or by dcb of iproute2."""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import HostError
from ..host import Host
from .resource import Resource, State

_PRIORITIES = 8


class MlnxQosResource(Resource):
    """A port by NVIDIA's mlnx_qos. State: trust (``pcp``, ``dscp``), pfc (eight of 0 or 1), priority by ``dscp 26``."""

    kind = "mlnx_qos"

    def read(self, host: Host) -> State:
        """What the tool prints for the port. Raises HostError where it does not answer."""
        answer = host.run("mlnx_qos", "-i", self.target)
        state = parse_mlnx_qos(answer.out)
        if answer.status or state is None:
            raise HostError(f"mlnx_qos -i {self.target}: {answer.reason}")
        return state

    def write(self, host: Host, state: State) -> None:
        """Set what differs: trust first, because a mapping shows only once it is trusted."""
        now = self.read(host) or {}
        for options in mlnx_qos_options(now, state or {}):
            answer = host.run("mlnx_qos", "-i", self.target, *options)
            if answer.status:
                raise HostError(f"mlnx_qos -i {self.target} {' '.join(options)}: {answer.reason}")

    def same(self, one: State, other: State) -> bool:
        """Alike in all that both show: the mapping of DSCPs is not printed while the port trusts PCP."""
        if one is None or other is None:
            return one is other
        return all(one[name] == other[name] for name in set(one) & set(other))


class DcbResource(Resource):
    """A port by iproute2's dcb. State as for mlnx_qos; a port trusts DSCP as soon as a DSCP has a priority (mlx5)."""

    kind = "dcb"

    def read(self, host: Host) -> State:
        """What dcb shows. Raises HostError where the driver has no data centre bridging."""
        flow = host.run("dcb", "-j", "pfc", "show", "dev", self.target)
        table = host.run("dcb", "-j", "app", "show", "dev", self.target)
        state = parse_dcb(flow.out, table.out)
        if flow.status or table.status or state is None:
            raise HostError(f"dcb pfc show dev {self.target}: {(flow if flow.status else table).reason}")
        return state

    def write(self, host: Host, state: State) -> None:
        """Set what differs."""
        now = self.read(host) or {}
        for options in dcb_options(now, state or {}):
            answer = host.run("dcb", options[0], options[1], "dev", self.target, *options[2:])
            if answer.status:
                raise HostError(f"dcb {options[0]} {options[1]} dev {self.target}: {answer.reason}")


def parse_mlnx_qos(text: str) -> dict[str, Any] | None:
    """``Priority trust state: dscp``, ``prio:3 dscp:31,30,...``, ``enabled 0 0 0 1 0 0 0 0`` (MLNX_OFED 4.2 and later).

    None where the flow control is not among what was printed.
    """
    trust = re.search(r"^Priority trust (?:state|mode):\s*(pcp|dscp)", text, re.MULTILINE)
    flow = re.search(r"^\s*enabled\s+((?:[01]\s+){7}[01])\s*$", text, re.MULTILINE)
    if trust is None or flow is None:
        return None
    state: dict[str, Any] = {"trust": trust[1], "pfc": [int(each) for each in flow[1].split()]}
    for priority, points in re.findall(r"prio:(\d)\s+dscp:([\d,]+)", text):
        state.update({f"dscp {int(point)}": int(priority) for point in points.split(",") if point})
    return state


def parse_dcb(flow_json: str, table_json: str) -> dict[str, Any] | None:
    """``{"prio_pfc": [false, ...]}`` and ``{"dscp_prio": [[26, 3]]}``; older releases write hyphens in the names."""
    try:
        flow, table = json.loads(flow_json or "{}"), json.loads(table_json or "{}")
    except ValueError:
        return None
    switches = flow.get("prio_pfc", flow.get("prio-pfc"))
    if not isinstance(switches, list) or len(switches) != _PRIORITIES:
        return None
    pairs = table.get("dscp_prio", table.get("dscp-prio")) or []
    state: dict[str, Any] = {f"dscp {point}": priority for point, priority in pairs}
    return {"trust": "dscp" if pairs else "pcp", "pfc": [int(each) for each in switches], **state}


def mlnx_qos_options(now: dict[str, Any], wanted: dict[str, Any]) -> list[list[str]]:
    """Calls of mlnx_qos that lead from one state to the other, in an order that each of them can be seen to work."""
    options = []
    mapping = _points(now, wanted)
    if wanted["trust"] == "dscp" and now["trust"] != "dscp":
        options.append(["--trust", "dscp"])
    options += [["--dscp2prio", f"set,{point},{priority}"] for point, priority in mapping if priority is not None]
    if wanted["pfc"] != now["pfc"]:
        options.append(["--pfc", ",".join(map(str, wanted["pfc"]))])
    if wanted["trust"] == "pcp" and now["trust"] != "pcp":
        options.append(["--trust", "pcp"])
    return options


def dcb_options(now: dict[str, Any], wanted: dict[str, Any]) -> list[list[str]]:
    """Calls of dcb that lead from one state to the other."""
    options = []
    for point, priority in _points(now, wanted):
        if f"dscp {point}" in now:
            options.append(["app", "del", "dscp-prio", f"{point}:{now[f'dscp {point}']}"])
        if priority is not None:
            options.append(["app", "add", "dscp-prio", f"{point}:{priority}"])
    if wanted["pfc"] != now["pfc"]:
        switches = [f"{number}:{'on' if on else 'off'}" for number, on in enumerate(wanted["pfc"])]
        options.append(["pfc", "set", "prio-pfc", *switches])
    return options


def _points(now: dict[str, Any], wanted: dict[str, Any]) -> list[tuple[int, int | None]]:
    """DSCPs whose priority differs, with the one wanted; None where it shall have none."""
    names = sorted({name for name in (*now, *wanted) if name.startswith("dscp ")})
    return [(int(name.split()[1]), wanted.get(name)) for name in names if now.get(name) != wanted.get(name)]
