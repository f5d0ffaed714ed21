"""Several ports in one subnet: each answers for its own address only, and takes packets that its sibling would."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from .host import Host
from .parameters import parameter_plan
from .plan import ItemPlan, skip
from .rdma import rdma_interfaces
from .value import all_named


def plan_rails(host: Host, options: dict[str, Any]) -> ItemPlan:
    """arp_ignore 1, arp_announce 2, rp_filter 2 for ports that share a subnet; ports on subnets of their own need none.

    Linux answers ARP for any of its addresses on any port otherwise, and RDMA then sends to the wrong one (kernel's
    ip-sysctl; AMD's and IBM's guides for RoCE with several ports).
    """
    listed = all_named("interface", options["interfaces"], "network_mtu_interfaces")
    interfaces = listed or sorted(rdma_interfaces(host))
    together = sharing(addresses(host, interfaces))
    if not together:
        return skip("no two RoCE ports share a subnet")
    wanted = {}
    for interface in together:
        if "." not in interface:
            wanted[f"net.ipv4.conf.{interface}.arp_ignore"] = "1"
            wanted[f"net.ipv4.conf.{interface}.arp_announce"] = "2"
            wanted[f"net.ipv4.conf.{interface}.rp_filter"] = "2"
    return parameter_plan(host, "network_mtu.rails", wanted)


def addresses(host: Host, interfaces: list[str]) -> dict[str, list[str]]:
    """IPv4 networks (``10.0.0.0/24``) that an interface has an address in, by interface."""
    try:
        links = json.loads(host.run("ip", "-j", "-4", "addr", "show").out or "[]")
    except ValueError:
        return {}
    found = {}
    for link in links:
        if link.get("ifname") in interfaces:
            pairs = [f"{each['local']}/{each['prefixlen']}" for each in link.get("addr_info", [])]
            found[link["ifname"]] = [str(ipaddress.ip_interface(pair).network) for pair in pairs]
    return found


def sharing(networks: dict[str, list[str]]) -> list[str]:
    """Interfaces that have a network in common with another one."""
    return sorted(
        name
        for name, own in networks.items()
        if any(set(own) & set(others) for other, others in networks.items() if other != name)
    )
