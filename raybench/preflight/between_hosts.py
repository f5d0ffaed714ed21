"""What only several hosts together show: logins slower than the others', and ports that are not reached."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from raybench.documents.preflight import CheckResult
from raybench.preflight.clock_offsets import RoundTrip
from raybench.preflight.host_view import HostView

_SLOW_LOGIN_SECONDS = 5.0


def login_results(trips: Mapping[str, RoundTrip | None], noise: Mapping[str, str]) -> dict[str, CheckResult]:
    """How long each login takes beyond the others', and whether the shell prints something into what programs say.

    The times hold the control node's own share, which grows with the hosts that it logs in to at once: a host is only
    slow against the median of all.
    """
    seconds = {host: trip.login_seconds for host, trip in trips.items() if trip is not None}
    usual = statistics.median_low(seconds.values()) if len(seconds) > 1 else 0.0
    return {host: _login(seconds.get(host), usual, noise.get(host, "")) for host in trips}


def _login(seconds: float | None, usual: float, noise: str) -> CheckResult:
    name = "host-login"
    expected = f"nothing is printed, and at most {_SLOW_LOGIN_SECONDS:g} s more than the others"
    told = "" if seconds is None else f"{seconds:.1f} s to log in, start Python and answer"
    if noise:
        return CheckResult(
            check=name,
            verdict="warn",
            seen=f"the login shell prints {noise!r}",
            expected=expected,
            basis="scp, rsync and Ansible's modules take it for part of what they asked for, and fail",
            advice="in ~/.bashrc and /etc/profile.d, print only where there is a terminal: [ -t 1 ] && ...",
        )
    if seconds is None:
        return CheckResult(
            check=name, verdict="unknown", seen="the times of its login are not known", expected=expected
        )
    if seconds - usual <= _SLOW_LOGIN_SECONDS:
        return CheckResult(check=name, verdict="pass", seen=told, expected=expected)
    return CheckResult(
        check=name,
        verdict="warn",
        seen=f"{told}{f'; the median of the hosts is {usual:.1f} s' if usual else ''}",
        expected=expected,
        basis="every step of a playbook, and of a launcher by ssh, waits so long",
        advice="time ssh HOST true; look at ~/.bashrc, /etc/profile.d, UseDNS in sshd_config and PAM's session modules",
    )


def identity_results(hosts: Mapping[str, HostView]) -> dict[str, CheckResult]:
    """Hosts that call themselves the same, or have the same address on the interface of their default route."""
    names: dict[str, list[str]] = {}
    addresses: dict[str, list[str]] = {}
    for host, view in hosts.items():
        names.setdefault(str(view.facts.get("hostname") or ""), []).append(host)
        addresses.setdefault(_main_address(view), []).append(host)
    return {
        host: _identity(
            host, (str(view.facts.get("hostname") or ""), names), (_main_address(view), addresses), alone=len(hosts) < 2
        )
        for host, view in hosts.items()
    }


def _main_address(view: HostView) -> str:
    interface = view.readings.get("default_interface", {}).get("value")
    others = [address for name, address in sorted(view.interfaces.items()) if not address.startswith("169.254.")]
    return view.interfaces.get(str(interface), "") or (others[0] if others else "")


def _identity(
    host: str, name: tuple[str, Mapping[str, list[str]]], address: tuple[str, Mapping[str, list[str]]], *, alone: bool
) -> CheckResult:
    check, expected = "host-identity", "a name and an address of its own"
    twins = [one for one in name[1][name[0]] if one != host and name[0]]
    neighbours = [one for one in address[1][address[0]] if one != host and address[0]]
    if alone:
        return CheckResult(check=check, verdict="skipped", seen="no other host to compare with")
    if not twins and not neighbours:
        return CheckResult(
            check=check, verdict="pass", seen=f"{name[0]}, {address[0] or 'no address'}", expected=expected
        )
    parts = [f"{', '.join(twins)} also has the hostname {name[0]}"] * bool(twins)
    parts += [f"{', '.join(neighbours)} also has the address {address[0]}"] * bool(neighbours)
    same = set(twins) & set(neighbours)
    return CheckResult(
        check=check,
        verdict="fail" if twins and not same else "warn",
        seen="; ".join(parts),
        expected=expected,
        basis="Ray, NCCL and logs tell hosts apart by name and address",
        advice="is it one machine under two names of the inventory? Leave one out"
        if same
        else "hostnamectl set-hostname on one of them"
        if twins
        else "an address conflict, or each behind a translation of its own: compare ip addr and arping; "
        "preflight_address names what others reach",
    )


def port_results(
    reached: Mapping[str, Sequence[Mapping[str, Any]]],
    listening: Mapping[str, Mapping[str, str]],
    hosts: Sequence[str],
    not_tried_again: Collection[str] = (),
) -> dict[str, CheckResult]:
    """Whether each host reaches the ports of others. ``listening`` says of each host which ports were open on it.

    Somebody always listens, the probe or who had the port before, so silence and refusal both mean that something
    between the hosts stands in the way; but who had the port before may have ended since, and then it is refused.
    Of hosts ``not_tried_again`` that says nothing: they may have tried before the others listened.
    """
    return {host: _ports(reached.get(host), listening, once=host in not_tried_again) for host in hosts}


def _ports(
    attempts: Sequence[Mapping[str, Any]] | None, listening: Mapping[str, Mapping[str, str]], *, once: bool
) -> CheckResult:
    name = "host-ports"
    if once:
        return _tried_once(name, [one for one in attempts or () if one["answer"] != "connected"])
    if not attempts:
        return CheckResult(check=name, verdict="skipped", seen="no other host was tried")
    closed, unclear, fine = [], [], []
    for attempt in attempts:
        target = f"{attempt['host']}:{attempt['port']}"
        state = listening.get(attempt["host"], {}).get(str(attempt["port"]))
        if attempt["answer"] == "connected":
            fine.append(target)
        elif state == "in use" and attempt["answer"] == "refused":
            unclear.append(f"{target} refused: who had it before the probe has let it go")
        elif state in {"listening", "in use"} and not str(attempt["answer"]).startswith("name "):
            closed.append(f"{target} {attempt['answer']}")
        else:
            unclear.append(f"{target} {attempt['answer']}")
    expected = "Ray's port and the rendezvous port answer"
    if closed:
        return CheckResult(
            check=name,
            verdict="fail",
            seen=f"not reached: {', '.join(closed[:6])}",
            expected=expected,
            basis="a listener was open there",
            advice="open these ports between the hosts (firewall, security group), and check that the address in the "
            "inventory is the one of the cluster's network",
        )
    if unclear:
        return CheckResult(
            check=name,
            verdict="unknown",
            seen=f"not tried with success, and no listener known there: {', '.join(unclear[:6])}",
            expected=expected,
            advice="preflight_address names the address that other hosts reach a host at",
        )
    return CheckResult(check=name, verdict="pass", seen=f"{len(fine)} of {len(fine)} answer", expected=expected)


def _tried_once(name: str, silent: Sequence[Mapping[str, Any]]) -> CheckResult:
    """Not all ports answered while the host was probed, and the second try, which decides, gave nothing."""
    told = ", ".join(f"{one['host']}:{one['port']} {one['answer']}" for one in silent[:6])
    return CheckResult(
        check=name,
        verdict="unknown",
        seen=f"some ports did not answer while it was probed, and were not tried again{': ' if told else ''}{told}",
        expected="Ray's port and the rendezvous port answer",
        advice="run preflight again: it was ended, or lost the host, before the second try",
    )
