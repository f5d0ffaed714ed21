"""RDMA devices: drivers, nodes, ports, firmware, subnet manager, partitions, SHARP."""

from collections.abc import Mapping

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.rdma import Port
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

# The kernel module that registers an RDMA device, by the PCI driver of the NIC.
_PROVIDERS = {"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "bnxt_en": "bnxt_re", "ice": "irdma", "efa": "efa"}


def modules(view: HostView) -> Judgement:
    """Each NIC has its RDMA driver, and the modules that programs talk to are loaded."""
    drivers = {device.driver for device in view.pci if device.is_rdma_nic} if view.status("lspci") == "ok" else set()
    need = {
        provider for driver, provider in _PROVIDERS.items() if driver in drivers and driver not in {"ice", "bnxt_en"}
    }
    if not view.has_rdma and not need:
        return skipped("no RDMA device here")
    if not view.modules:
        return unknown("/proc/modules cannot be read: are the drivers built into the kernel?")
    need |= {"ib_uverbs", "ib_core"}
    if any(port.link_layer == "InfiniBand" for port in view.ports):  # EFA has another layer, and no management
        need.add("ib_umad")
    absent = sorted(need - view.modules - _at_work(view))
    simulated = not view.readings.get("rdma_devices", {}).get("value") and view.ports
    if simulated:
        return skipped("ports without a kernel device: a simulated fabric")
    if not absent:
        return passed(", ".join(sorted(need)), "the NIC's driver, ib_uverbs, ib_umad for InfiniBand")
    return failed(
        f"not loaded: {', '.join(absent)}",
        ", ".join(sorted(need)),
        "without ib_uverbs no program reaches an RDMA device, and NCCL takes TCP",
        f"modprobe {' '.join(absent)}, kept in /etc/modules-load.d; or raybench configure --tags rdma_driver",
    )


def _at_work(view: HostView) -> set[str]:
    """Drivers that are seen at work, whether they are modules or built into the kernel."""
    nodes: Mapping[str, bool] = view.readings.get("devices", {}).get("value") or {}
    found = {"ib_core"} if view.readings.get("rdma_devices", {}).get("value") else set()
    for name in ("uverbs", "umad"):
        if any(path.startswith(f"/dev/infiniband/{name}") for path in nodes):
            found.add(f"ib_{name}")
    if any(port.device_type.startswith("MT") for port in view.ports):
        found |= {"mlx5_ib", "mlx4_ib"} if "ib_uverbs" in found else set()
    return found


def device_nodes(view: HostView) -> Judgement:
    """``/dev/infiniband/uverbs*`` and ``rdma_cm`` are there and may be opened."""
    registered = view.readings.get("rdma_devices", {}).get("value") or []
    if not registered:
        return skipped("no RDMA device is registered")
    nodes: dict[str, bool] = {path: may for path, may in view.value("devices").items() if "/infiniband/" in path}
    verbs = [path for path in nodes if "/uverbs" in path]
    closed = sorted(path for path in verbs if not nodes[path])
    advice = "load ib_uverbs and rdma_ucm; in a container pass --device /dev/infiniband"
    if len(verbs) < len(registered):
        return failed(
            f"{len(verbs)} uverbs for {len(registered)} devices", "one a device", "libibverbs opens them", advice
        )
    if closed:
        return failed(
            f"may not be opened: {', '.join(closed)}", "read and write for all", "udev rules of rdma-core", advice
        )
    managed = not view.ports or any(port.link_layer in {"InfiniBand", "Ethernet"} for port in view.ports)
    if "/dev/infiniband/rdma_cm" not in nodes and managed:  # EFA connects without it
        return warned(
            f"{len(verbs)} uverbs, no rdma_cm", "uverbs and rdma_cm", "rdma_cm is used by UCX and rping", advice
        )
    others = ", rdma_cm" if "/dev/infiniband/rdma_cm" in nodes else ""
    return passed(f"{len(verbs)} uverbs{others}", "uverbs and rdma_cm")


def software(view: HostView) -> Judgement:
    """Soft-RoCE and Soft-iWARP: verbs without a NIC, which NCCL takes for one."""
    if not view.readings.get("rdma_devices", {}).get("value"):
        return skipped("no RDMA device is registered")
    drivers: dict[str, str] = view.value("rdma_drivers")
    soft = sorted(view.software_devices - set(view.expected.ports_ignored))
    expected = "a NIC behind every RDMA device"
    if not soft:
        return passed(
            ", ".join(f"{device}: {driver or 'driver unknown'}" for device, driver in drivers.items()), expected
        )
    advice = f"rdma link delete {soft[0]}; or NCCL_IB_HCA=^{','.join(soft)} for jobs, and preflight_ports_ignored here"
    return warned(
        f"{', '.join(f'{device} is {drivers[device]}' for device in soft)}: EMULATED",
        expected,
        "the CPU makes and copies every packet, and rates are made up; NCCL chooses such a device like any other",
        advice,
    )


def _ports(view: HostView) -> tuple[Port, ...]:
    return view.ports


def port_state(view: HostView) -> Judgement:
    """Active and LinkUp. Initializing waits for a subnet manager, Polling for the other end of the cable."""
    ports = _ports(view)
    wanted = view.expected.port_count
    if not ports:
        if wanted:
            return failed("no port", f"{wanted} ports", "preflight_port_count", "see rdma-modules")
        return unknown("RDMA devices, but no port was seen") if view.has_rdma else skipped("no RDMA device here")
    bad = [port for port in ports if port.state not in {"Active", ""} or port.physical_state not in {"LinkUp", ""}]
    off = [port for port in bad if port.is_ethernet and port.physical_state == "Disabled"]
    silent = [port for port in ports if not port.state]
    if len(bad) > len(off):
        seen = ", ".join(f"{port.name} {port.state}/{port.physical_state}" for port in bad)
        return failed(seen, "Active/LinkUp", "ibstat", _state_advice(next(port for port in bad if port not in off)))
    if silent:
        return unknown(f"no state is given for {', '.join(port.name for port in silent)}")
    active = len(ports) - len(off)
    if wanted is not None and active != wanted:
        return failed(f"{active} ports", str(wanted), "preflight_port_count", "compare lspci and ibstat")
    if off and (not active or wanted is None):
        seen = f"{active} ports Active, switched off: {', '.join(port.name for port in off)}"
        return warned(seen, "Active/LinkUp", "ibstat; these interfaces are not configured", _state_advice(off[0]))
    return passed(f"{active} ports Active", "Active/LinkUp")


def _state_advice(port: Port) -> str:
    if port.state.startswith("Init"):
        return "the cable is fine, no subnet manager answers: start opensm or the switch's; its log names the port"
    if port.physical_state == "LinkUp" and port.link_layer == "InfiniBand":
        return (
            "the link is up and the port is not: no subnet manager brings it up; start opensm or the switch's, and see "
            "whether the firmware lets a host run one (capability mask bit 10, SM disabled)"
        )
    if port.physical_state == "Polling":
        return "no signal from the other end: check cable, transceiver, switch port; mlxlink -m shows the light"
    if port.physical_state == "Disabled":
        unused = f"list {port.device} in preflight_ports_ignored if it is not used"
        return f"the port is switched off: ip link set its interface up, or ibportstate; {unused}"
    return "check cable and switch port; reset the port; list ports that are not used in preflight_ports_ignored"


def rate(view: HostView) -> Judgement:
    """The link trained to the rate that the inventory names; otherwise to that of its like on this host."""
    active = [port for port in _ports(view) if port.state == "Active" and port.rate_gbits is not None]
    if not active:
        return skipped("no active RDMA port")
    ports = [port for port in active if port.device not in view.software_devices]
    if not ports:
        return skipped("software devices make their rate up")
    slow = []
    for port in ports:
        wanted = view.expected.for_port(port.device_type).get("rate_gbits")
        alike = [one for one in ports if (one.device_type, one.link_layer) == (port.device_type, port.link_layer)]
        best = max(other.rate_gbits or 0 for other in alike)
        need = float(wanted) if wanted is not None else best
        if (port.rate_gbits or 0) < need:
            slow.append(f"{port.name} {port.rate_gbits:g} of {need:g} Gb/s")
    seen = ", ".join(f"{value:g}" for value in sorted({port.rate_gbits or 0 for port in ports}))
    if not slow:
        return passed(f"{seen} Gb/s on {len(ports)} ports", "as the inventory says, or as its like")
    advice = "a lane or the cable is bad: reseat or change the cable, see ibportstate or mlxlink, retrain the port"
    return failed(", ".join(slow), "the full rate", "ibstat's Rate", advice)


def firmware(view: HostView) -> Judgement:
    """One firmware for all devices of a type."""
    versions: dict[str, set[str]] = {}
    for port in _ports(view):
        if port.firmware:
            versions.setdefault(port.device_type or "device", set()).add(port.firmware)
    if not versions:
        return skipped("no device names its firmware")
    wanted = {kind: view.expected.for_port(kind).get("firmware") for kind in versions}
    seen = "; ".join(f"{kind} {', '.join(sorted(found))}" for kind, found in sorted(versions.items()))
    wrong = [kind for kind, found in versions.items() if wanted[kind] and found != {wanted[kind]}]
    advice = "mlxfwmanager, or flint -d DEVICE -i IMAGE burn, then mlxfwreset or reboot"
    if wrong:
        expected = "; ".join(f"{kind} {wanted[kind]}" for kind in wrong)
        return failed(seen, expected, "preflight_port_types", advice)
    if any(len(found) > 1 for found in versions.values()):
        return warned(seen, "one version a device type", "devices of one host differ", advice)
    return passed(seen, "one version a device type")


def link_layer(view: HostView) -> Judgement:
    """InfiniBand and Ethernet ports on one host: NCCL uses one kind, and takes what it finds first."""
    layers: dict[str, list[str]] = {}
    for port in _ports(view):
        if port.state == "Active" and port.link_layer:
            layers.setdefault(port.link_layer, []).append(port.name)
    if not layers:
        return skipped("no active RDMA port")
    seen = "; ".join(f"{layer}: {', '.join(names)}" for layer, names in sorted(layers.items()))
    if len(layers) == 1:
        return passed(seen, "one link layer")
    return warned(
        seen,
        "one link layer",
        "NCCL does not mix them",
        "name the ports for training in NCCL_IB_HCA, and the others in preflight_ports_ignored",
    )


def subnet_manager(view: HostView) -> Judgement:
    """InfiniBand ports have an address of their own, given by a subnet manager."""
    ports = [port for port in _ports(view) if port.link_layer == "InfiniBand" and port.physical_state == "LinkUp"]
    if not ports:
        return skipped("no InfiniBand port is up")
    lost = [port.name for port in ports if not port.sm_lid or port.lid in {None, 0, 65535}]
    managers = sorted({port.sm_lid for port in ports if port.sm_lid})
    if lost:
        advice = "start a subnet manager (opensm, or that of a switch), and look in its log for the port's GUID"
        return failed(f"none for {', '.join(lost)}", "LID and SM LID set", "ibstat's Base lid and SM lid", advice)
    return passed(f"SM at LID {', '.join(map(str, managers))}", "LID and SM LID set")


def partition_keys(view: HostView) -> Judgement:
    """A port that is only a limited member (top bit 0) does not reach other limited members."""
    keys: dict[str, list[str]] = view.value("pkeys")
    names = {port.name for port in _ports(view) if port.link_layer == "InfiniBand"}
    own = {name: values for name, values in keys.items() if name in names}
    if not own:
        return skipped("no InfiniBand port with partition keys")
    limited = sorted(name for name, values in own.items() if not any(int(value, 16) & 0x8000 for value in values))
    if limited:
        advice = "make the port a full member in the subnet manager's partitions.conf"
        return failed(f"limited member only: {', '.join(limited)}", "full member", "bit 15 of the key", advice)
    return passed(
        f"{len(own)} ports: {', '.join(sorted({value for values in own.values() for value in values}))}", "full member"
    )


def sharp(view: HostView) -> Judgement:
    """Whether what SHARP needs on a host is installed; the aggregation manager is not seen from here."""
    if not any(port.link_layer == "InfiniBand" for port in _ports(view)):
        return skipped("no InfiniBand port")
    found = view.value("sharp")
    if any("sharp" in path for path in found):
        return passed(", ".join(found[:3]), "libsharp and NCCL's plugin, if SHARP is to be used")
    if view.expected.sharp:
        return failed("libsharp is not installed", "installed", "preflight_sharp", "install DOCA-OFED or HPC-X")
    return skipped("SHARP is not installed, and not asked for")
