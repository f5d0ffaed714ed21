"""RDMA over Ethernet: addresses, MTU, and the settings that keep it lossless, read back."""

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.rdma import Port, Qos, parse_dcb_pfc, parse_mlnx_qos
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned


def _ports(view: HostView) -> list[Port]:
    return [port for port in view.ports if port.is_ethernet and port.state == "Active"]


def _interfaces(view: HostView) -> dict[str, str]:
    """Interfaces of active RoCE ports, by device."""
    devices = {port.device for port in _ports(view)}
    return {device: name for name, device in view.rdma_interfaces.items() if device in devices}


def gid_table(view: HostView) -> Judgement:
    """Each RoCE port has a GID of type RoCE v2 that was made from an IP address, so that it can be routed."""
    ports = _ports(view)
    if not ports:
        return skipped("no active RoCE port")
    rows = view.value("gids")
    if not rows:
        return unknown("the GID table is empty or cannot be read")
    found: dict[str, list[int]] = {port.name: [] for port in ports}
    for device, number, index, gid, kind, _ in rows:
        if f"{device}/{number}" in found and kind == "RoCE v2" and not str(gid).startswith("fe80"):
            found[f"{device}/{number}"].append(index)
    bare = sorted(name for name, indices in found.items() if not indices)
    expected = "a RoCE v2 GID made from an IP address"
    if bare:
        advice = "give the port's interface an IP address; check that RoCE v2 is on (cma_roce_mode); see show_gids"
        return failed(f"none on {', '.join(bare)}", expected, "NCCL chooses such an index", advice)
    lowest = sorted({min(indices) for indices in found.values()})
    if len(lowest) > 1:
        seen = ", ".join(f"{name} {min(indices)}" for name, indices in sorted(found.items()))
        advice = "leave NCCL_IB_GID_INDEX unset (NCCL 2.21 and newer choose by port), or make the tables identical"
        return warned(
            f"index differs: {seen}", "the same index on all ports", "one NCCL_IB_GID_INDEX is for all ports", advice
        )
    return passed(f"index {lowest[0]} on {len(found)} ports", expected)


def mtu(view: HostView) -> Judgement:
    """RDMA's packets have 4096 bytes only where Ethernet carries 4200."""
    interfaces = _interfaces(view)
    if not interfaces:
        return skipped("no interface of an active RoCE port")
    sizes = view.mtus
    limit = view.expected.roce_mtu_min
    small = {name: sizes[name] for name in interfaces.values() if name in sizes and sizes[name] < limit}
    if not small:
        return passed(
            ", ".join(f"{name} {sizes.get(name)}" for name in sorted(interfaces.values())), f"at least {limit}"
        )
    seen = ", ".join(f"{name} {size}" for name, size in sorted(small.items()))
    advice = (
        "ip link set INTERFACE mtu 9000 on hosts, and on every switch port between them; raybench configure --tags mtu"
    )
    return warned(
        seen, f"at least {limit}", "active_mtu 4096 needs 4096 bytes and headers; with 1500 it is 1024", advice
    )


def _nics(view: HostView) -> dict[str, str]:
    """Of the interfaces those of NICs: software devices send what priorities the interface below them has."""
    return {device: name for device, name in _interfaces(view).items() if device not in view.software_devices}


def _qos(view: HostView) -> dict[str, Qos]:
    found = {}
    for name in _nics(view).values():
        if view.status(f"mlnx_qos:{name}") == "ok":
            found[name] = parse_mlnx_qos(view.text(f"mlnx_qos:{name}"))
    return found


def _lossless(view: HostView, name: str) -> tuple[int, ...] | None:
    """Priorities with flow control, of mlnx_qos, else of dcb; None where neither tells."""
    qos = _qos(view).get(name)
    if qos is not None and qos.lossless is not None:
        return qos.lossless
    return parse_dcb_pfc(view.text(f"dcb_pfc:{name}")) if view.status(f"dcb_pfc:{name}") == "ok" else None


def flow_control(view: HostView) -> Judgement:
    """PFC on exactly one priority, the same on all ports, or the one that the inventory names."""
    if not _nics(view):
        return skipped("no interface of an active RoCE port")
    settings = {
        name: lossless for name in _interfaces(view).values() if (lossless := _lossless(view, name)) is not None
    }
    if not settings:
        return unknown("neither mlnx_qos nor dcb tells", "install mlnx-tools (DOCA-OFED), or iproute2's dcb")
    wanted = view.expected.roce_priority
    seen = ", ".join(f"{name}: {','.join(map(str, value)) or 'none'}" for name, value in sorted(settings.items()))
    expected = f"priority {wanted}" if wanted is not None else "one lossless priority, the same on all ports"
    basis = "mlnx_qos; RoCE over a network that drops packets loses its bandwidth"
    advice = "mlnx_qos -i INTERFACE --pfc 0,0,0,1,0,0,0,0 to match the switches; raybench configure --tags roce_qos"
    chosen = set(settings.values())
    if wanted is not None:
        return passed(seen, expected) if chosen == {(wanted,)} else failed(seen, expected, basis, advice)
    if len(chosen) == 1 and len(next(iter(chosen))) == 1:
        return passed(seen, expected)
    return warned(seen, expected, basis, f"{advice}. Some clouds need none: then skip this check")


def congestion_notification(view: HostView) -> Judgement:
    """ECN, notification point and reaction point, is on for the lossless priority (all of them by default)."""
    interfaces = sorted(_nics(view).values())
    if not interfaces:
        return skipped("no interface of an active RoCE port")
    values = {
        path: value
        for path, value in view.files("net", "/sys/class/net/*/ecn/roce_*/enable/*").items()
        if path.split("/")[4] in interfaces and value is not None
    }
    if not values:
        return unknown(
            "the driver does not show ECN in /sys/class/net/*/ecn", "it is there with the driver of DOCA-OFED"
        )
    priority = view.expected.roce_priority
    off = sorted(
        path.removeprefix("/sys/class/net/")
        for path, value in values.items()
        if value == "0" and (priority is None or path.endswith(f"/{priority}"))
    )
    if not off:
        return passed(f"on for {'all priorities' if priority is None else f'priority {priority}'}", "on")
    advice = "echo 1 into enable/PRIORITY of roce_np and roce_rp; raybench configure --tags roce_qos"
    return warned(f"off: {', '.join(off[:4])}", "on", "without ECN congestion ends in pauses that spread", advice)


def trust(view: HostView) -> Judgement:
    """Ports sort packets by DSCP, which survives routing; by PCP only with VLANs."""
    if not _nics(view):
        return skipped("no interface of an active RoCE port")
    settings = {name: qos.trust for name, qos in _qos(view).items() if qos.trust}
    if not settings:
        return unknown("mlnx_qos is not installed or does not tell", "install mlnx-tools (DOCA-OFED)")
    wanted = view.expected.roce_trust
    seen = ", ".join(f"{name}: {value}" for name, value in sorted(settings.items()))
    if set(settings.values()) == {wanted}:
        classes = sorted({str(value) for value in view.files("infiniband", "*/traffic_class").values() if value})
        return passed(f"{seen}{'; traffic class ' + ', '.join(classes) if classes else ''}", wanted)
    advice = f"mlnx_qos -i INTERFACE --trust {wanted}; raybench configure --tags roce_qos"
    return warned(seen, wanted, "NVIDIA's RoCE guide: DSCP for routed RoCE v2", advice)
