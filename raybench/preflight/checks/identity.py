"""What a host takes itself for: its name, and the address that the name stands for."""

import ipaddress

from raybench.preflight.host_view import HostView
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

_BASIS = "gloo listens at the address that the hostname resolves to, unless GLOO_SOCKET_IFNAME names an interface"


def own_name(view: HostView) -> Judgement:
    """gloo, MPI and many launchers ask for the address of the own name and tell it to the other hosts."""
    found = view.value("own_name")
    name, stands_for = str(found["name"]), [str(address) for address in found["addresses"]]
    expected = f"{name} resolves to an address that other hosts reach"
    own = set(view.interfaces.values())
    seen = f"{name} is {', '.join(stands_for) or 'not known to this host'}"
    advice = f"in /etc/hosts, let {name} stand for {_best(view) or 'the address of this host on its network'}"
    if not own - {"127.0.0.1"}:
        return skipped(f"{seen}; the host has no address that others could reach")
    if not stands_for:
        return warned(seen, expected, _BASIS, advice)
    addresses = [ipaddress.ip_address(address) for address in stands_for]
    reachable = [one for one in addresses if not one.is_loopback]
    if not reachable:
        return warned(f"{seen}, which no other host reaches", expected, _BASIS, advice)
    foreign = [str(one) for one in reachable if one.version == 4 and str(one) not in _all(view)]
    if foreign and not {str(one) for one in reachable} & _all(view):
        return failed(f"{seen}, which is not an address of this host", expected, _BASIS, advice)
    if foreign:
        return warned(f"{seen}; {' and '.join(foreign)} is not an address of this host", expected, _BASIS, advice)
    return passed(seen, expected)


def _all(view: HostView) -> set[str]:
    found: dict[str, str] = view.readings.get("addresses", {}).get("value") or {}
    return set(found.values())


def _best(view: HostView) -> str:
    interface = view.readings.get("default_interface", {}).get("value")
    return view.interfaces.get(str(interface), "")
