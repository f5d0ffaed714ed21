"""The MTU of an interface: now, and over boots in the files of whatever sets the interface up."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from .errors import HostError
from .host import Host
from .plan import ItemPlan, Setting, edited_file, every, own_file, skip
from .rdma import rdma_interfaces
from .resources.kernel import ValueResource
from .value import all_named, whole

_ITEM = "network_mtu.mtu"
_INTERFACES = ("/etc/network/interfaces", "/etc/network/interfaces.d/*")


class NetplanError(HostError):
    """A file of netplan cannot be read, so that nobody can say which interfaces it sets up."""


def plan_mtu(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``bytes`` (0 leaves all as it is) for ``interfaces``, or for all ports that do RoCE where none is listed."""
    size = whole(options["bytes"], "network_mtu_bytes", range(65536))
    listed = all_named("interface", options["interfaces"], "network_mtu_interfaces")
    if size == 0:
        return skip("network_mtu_bytes is 0: every interface keeps its MTU")
    interfaces = listed or sorted(rdma_interfaces(host))
    if not interfaces:
        return skip("no Ethernet port with an RDMA device, and network_mtu_interfaces lists none")
    plan = ItemPlan()
    for interface in interfaces:
        if not host.exists(f"/sys/class/net/{interface}/mtu"):
            plan.notes.append(f"{interface}: this host has no such interface")
            continue
        least, most = mtu_range(host, interface)
        if not least <= size <= most:
            return ItemPlan(problem=f"{interface} takes an MTU from {least} to {most}, not {size}: nothing was changed")
        plan.settings += _kept(host, interface, size, interfaces, plan.notes)
        plan.settings.append(Setting(ValueResource(f"/sys/class/net/{interface}/mtu"), every(str(size))))
    if not plan.settings:
        plan.skipped = "; ".join(plan.notes)
    plan.pending.append(f"MTU {size}: the switch ports and every other host must carry it too")
    return plan


def mtu_range(host: Host, interface: str) -> tuple[int, int]:
    """Least and most that the driver takes, as ``ip -d -j link`` tells; 68 to 65535 where it does not."""
    try:
        facts = json.loads(host.run("ip", "-d", "-j", "link", "show", "dev", interface).out or "[{}]")[0]
    except (ValueError, IndexError):
        facts = {}
    return facts.get("min_mtu") or 68, facts.get("max_mtu") or 65535


def _kept(host: Host, interface: str, size: int, interfaces: list[str], notes: list[str]) -> list[Setting]:
    """Settings that keep the MTU over boots; none, with a note, where it is not known what sets the interface up."""
    try:
        for how in (_netplan, _ifupdown, _ifcfg, _network_manager):
            settings = how(host, interface, size)
            if settings is not None:
                return settings
    except NetplanError as error:
        notes.append(f"{interface}: whether netplan sets it up is not known, {error}, so the MTU lasts until the next "
                     "boot")  # fmt: skip
        return []
    file = _network_file(host, interface)
    if file:
        name = file.rsplit("/", 1)[1]
        others = sorted(set(_set_up_by(host, file)) - set(interfaces))
        if not others:
            path = f"/etc/systemd/network/{name}.d/90-raybench-mtu.conf"
            return [own_file(_ITEM, path, f"[Link]\nMTUBytes={size}\n")]
        more = f"{interface}: {name} sets up {', '.join(others)} too, so the MTU lasts until the next boot"
        notes.append(f"{more}; give it a .network file of its own, or list the others in network_mtu_interfaces")
        return []
    notes.append(f"{interface}: no netplan, ifupdown, NetworkManager or systemd-networkd sets it up here, so the MTU "
                 "lasts until the next boot")  # fmt: skip
    return []


def _netplan(host: Host, interface: str, size: int) -> list[Setting] | None:
    """A file of ours that netplan merges with the others, under the name by which they call the interface.

    None where netplan does not set it up. Raises NetplanError where a file cannot be read.
    """
    files = [name for name in host.glob("/etc/netplan/*.yaml") if "raybench" not in name]
    address = host.word(f"/sys/class/net/{interface}/address")
    for name in files:
        text = host.text(name)
        if text is None:
            raise NetplanError(f"{name} cannot be read")
        try:
            section = netplan_section(text, interface, address)
        except NetplanError as error:
            raise NetplanError(f"{name}: {error}") from None
        if section is not None:
            group, key = section
            body = f"network:\n  version: 2\n  {group}:\n    {json.dumps(key)}:\n      mtu: {size}\n"
            path = f"/etc/netplan/99-raybench-{interface}.yaml"
            return [own_file(_ITEM, path, body, mode=0o600)]
    return None


def netplan_section(text: str, interface: str, address: str) -> tuple[str, str] | None:
    """Group (``ethernets``) and name under which a file of netplan defines an interface, or None.

    By its own name, by ``set-name``, or by the address in ``match``. Raises NetplanError for a file that netplan would
    refuse too, and where this Python lacks PyYAML, which netplan brings to the system's own.
    """
    for group, entries in _netplan_groups(text).items():
        if not isinstance(entries, dict):
            continue
        for key, entry in entries.items():
            facts = entry if isinstance(entry, dict) else {}
            match = facts.get("match") or {}
            if not isinstance(match, dict):
                raise NetplanError(f"match of {key} is not a mapping")
            named = key == interface and not match
            if (
                named
                or facts.get("set-name") == interface
                or str(match.get("macaddress", "")).lower() == address.lower() != ""
            ):
                return group, key
    return None


def _netplan_groups(text: str) -> dict[str, Any]:
    """What stands below ``network``; an empty file defines nothing."""
    try:
        import yaml  # on hosts with netplan
    except ImportError:
        raise NetplanError(f"{sys.executable} has no PyYAML (package python3-yaml)") from None
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise NetplanError(f"it is no YAML ({' '.join(str(error).split())[:120]})") from None
    network = (document.get("network") or {}) if isinstance(document, dict) else None
    if not isinstance(network, dict):
        raise NetplanError("it has no mapping 'network'")
    return network


def _ifupdown(host: Host, interface: str, size: int) -> list[Setting] | None:
    for pattern in _INTERFACES:
        for name in host.glob(pattern):
            if with_interfaces_mtu(host.text(name) or "", interface, size) is not None:
                return [edited_file(name, lambda text: with_interfaces_mtu(text, interface, size) or text)]
    return None


def with_interfaces_mtu(text: str, interface: str, size: int) -> str | None:
    """/etc/network/interfaces with that MTU in the first inet stanza of the interface; None where it has none.

    ``mtu`` is an option of the methods static and manual; with dhcp the link is told in ``post-up``.
    """
    rows = text.splitlines(keepends=True)
    stanza = rf"iface\s+{re.escape(interface)}\s+inet\s+(\w+)"
    for number, row in enumerate(rows):
        found = re.match(stanza, row.strip())
        if not found:
            continue
        end = next((n for n in range(number + 1, len(rows)) if _begins(rows[n])), len(rows))
        for inner in range(number + 1, end):
            if re.match(r"\s*mtu\s+\d+\s*$", rows[inner]):
                rows[inner] = re.sub(r"\d+", str(size), rows[inner])
                return "".join(rows)
        told = f"    post-up ip link set dev {interface} mtu "
        inner_lines = [n for n in range(number + 1, end) if rows[n].startswith(told)]
        if inner_lines:
            rows[inner_lines[0]] = f"{told}{size}\n"
            return "".join(rows)
        if not row.endswith("\n"):
            rows[number] = row + "\n"
        rows.insert(number + 1, f"    mtu {size}\n" if found[1] in ("static", "manual") else f"{told}{size}\n")
        return "".join(rows)
    return None


def _begins(row: str) -> bool:
    return bool(
        re.match(r"(iface|auto|allow-\w+|mapping|source|source-directory|no-auto-down|no-scripts)\b", row.strip())
    )


def _ifcfg(host: Host, interface: str, size: int) -> list[Setting] | None:
    name = f"/etc/sysconfig/network-scripts/ifcfg-{interface}"
    return [edited_file(name, lambda text: with_ifcfg_mtu(text, size))] if host.exists(name) else None


def with_ifcfg_mtu(text: str, size: int) -> str:
    """An ifcfg file with ``MTU=`` set: in its place, or at the end."""
    if re.search(r"^MTU=.*$", text, re.MULTILINE):
        return re.sub(r"^MTU=.*$", f"MTU={size}", text, flags=re.MULTILINE)
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}MTU={size}\n"


def _network_manager(host: Host, interface: str, size: int) -> list[Setting] | None:
    """A default for connections that set no MTU themselves (NetworkManager.conf, section connection)."""
    state = host.run("nmcli", "-t", "-f", "GENERAL.STATE", "device", "show", interface)
    if state.status or not state.out.strip() or "(unmanaged)" in state.out:
        return None
    body = f"[connection-raybench-{interface}]\nmatch-device=interface-name:{interface}\nethernet.mtu={size}\n"
    return [own_file(_ITEM, f"/etc/NetworkManager/conf.d/90-raybench-{interface}.conf", body)]


def _network_file(host: Host, interface: str) -> str | None:
    """The .network file that systemd-networkd says it applied to a link: a drop-in beside it keeps the MTU."""
    index = host.word(f"/sys/class/net/{interface}/ifindex")
    found = re.search(r"^NETWORK_FILE=(\S+)$", host.text(f"/run/systemd/netif/links/{index}") or "", re.MULTILINE)
    return found[1] if found else None


def _set_up_by(host: Host, file: str) -> list[str]:
    """Every interface that this file was applied to: one that matches a driver is for all its ports."""
    names = [path.split("/")[4] for path in host.glob("/sys/class/net/*/ifindex")]
    return [name for name in names if _network_file(host, name) == file]
