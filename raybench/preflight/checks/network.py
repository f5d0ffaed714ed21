"""Network interfaces and the firewall."""

import fnmatch
import re

from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned


def mtu(view: HostView) -> Judgement:
    """MTU of interfaces with an address. Without an expected value it is only compared between hosts, see drift."""
    sizes = view.mtus
    chosen = view.expected.mtu_interfaces
    names = {*view.interfaces, *view.rdma_interfaces} if chosen else set(view.interfaces)
    own = {name: sizes[name] for name in sorted(names) if name in sizes and (not chosen or _named(name, chosen))}
    if not own and chosen:
        return skipped(f"no interface here is called {', '.join(chosen)}")
    if not own:
        return unknown("no interface with an address was found")
    seen = ", ".join(f"{name} {size}" for name, size in sorted(own.items()))
    wanted = view.expected.mtu
    if wanted is None:
        return passed(seen, "the same on all hosts")
    wrong = {name: size for name, size in own.items() if size != wanted}
    if not wrong:
        return passed(seen, str(wanted))
    name = min(wrong)
    advice = f"ip link set {name} mtu {wanted}, kept in netplan or NetworkManager; or raybench configure --tags mtu"
    basis = "preflight_mtu; a packet that is too long for one hop is dropped"
    return failed(", ".join(f"{name} {size}" for name, size in wrong.items()), str(wanted), basis, advice)


def _named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def firewall(view: HostView) -> Judgement:
    """Whether incoming connections are dropped by default. Ports that are really closed show in host-ports."""
    active = view.readings.get("firewalld", {}).get("text", "").strip() == "active"
    policies = _dropping(view)
    if active or policies:
        seen = ", ".join([*(["firewalld is active"] if active else []), *policies])
        advice = "open the ports of Ray, rendezvous and NCCL's sockets between the hosts, or trust their network"
        return warned(seen, "open between the hosts", "NCCL and gloo choose ports as they go", advice)
    statuses = {view.status(name) for name in ("nft", "iptables")}
    if statuses == {"missing"}:
        return skipped("neither nftables nor iptables is installed")
    if "ok" not in statuses:
        return unknown("the rules could not be read", "run preflight as root (become: true)")
    return passed("nothing is dropped by default", "open between the hosts")


def _dropping(view: HostView) -> list[str]:
    found = []
    for name in ("iptables", "nft"):
        try:
            text = view.text(name)
        except UnavailableError:
            continue
        if re.search(r"^:INPUT (DROP|REJECT)", text, re.MULTILINE):
            found.append(f"{name}: INPUT drops by default")
        if re.search(r"hook input .*policy drop", text):
            found.append(f"{name}: the input hook drops by default")
        if re.search(r"^-A INPUT -j (DROP|REJECT)", text, re.MULTILINE):
            found.append(f"{name}: INPUT ends in a rule that refuses the rest")
    return found
