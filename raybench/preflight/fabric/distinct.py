"""Hosts that are two, and not one under two names: a host measured against itself says nothing of a fabric. Pure."""

from collections.abc import Sequence

from raybench.preflight.fabric.ends import End
from raybench.preflight.fabric.rails import HostProblem

_LEAVE_ONE = "leave one of the two names in the inventory"
_OWN_ADDRESS = "give each of the two an address of its own: fabric_address or fabric_interface"


def distinct_ends(ends: Sequence[End]) -> tuple[list[End], list[HostProblem]]:
    """The hosts that can be measured with each other, and why the others cannot.

    Of a host under several names the first takes part. Of different hosts that give the same address none does: what
    is sent to it may stay on the sender. Containers of one machine with networks of their own are hosts of their own.
    """
    names: dict[str, str] = {}
    problems: list[HostProblem] = []
    kept: list[End] = []
    for end in ends:
        first = names.setdefault(end.network_id, end.name) if end.network_id else end.name
        if first == end.name:
            kept.append(end)
        else:
            text = f"it is the same host as {first}, under another name: one boot, one network"
            problems.append(HostProblem(host=end.name, text=text, advice=_LEAVE_ONE))
    return _with_own_address(kept, problems)


def _with_own_address(ends: Sequence[End], problems: list[HostProblem]) -> tuple[list[End], list[HostProblem]]:
    owners: dict[str | None, list[str]] = {}
    for end in ends:
        owners.setdefault(end.address, []).append(end.name)
    for end in ends:
        other = next((name for name in owners[end.address] if name != end.name), None)
        if other is not None:
            text = f"its address {end.address} is also that of {other}: a test could stay on one host"
            advice = _OWN_ADDRESS if end.network_id else f"{_OWN_ADDRESS}; if they are one host, {_LEAVE_ONE}"
            problems.append(HostProblem(host=end.name, text=text, advice=advice))
    return [end for end in ends if len(owners[end.address]) == 1], problems


def distinct_nics(ends: Sequence[End]) -> tuple[list[End], list[HostProblem]]:
    """The hosts without those that use the RDMA NIC of another: containers of one machine may share its NICs."""
    owners: dict[tuple[str, str], str] = {}
    kept: list[End] = []
    problems: list[HostProblem] = []
    for end in ends:
        ids = [(end.boot_id, gid.gid) for port in end.verbs for gid in port.gids] if end.boot_id else []
        first = next((owners[one] for one in ids if one in owners), None)
        if first is None:
            owners.update(dict.fromkeys(ids, end.name))
            kept.append(end)
        else:
            text = f"its RDMA NICs are those of {first}: both are containers of one machine"
            problems.append(HostProblem(host=end.name, text=text, advice="measure with one of the two"))
    return kept, problems
