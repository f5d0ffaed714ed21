"""What only several hosts together show: clocks that are apart, and ports that one host does not reach on another."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from raybench.preflight.verdict import CheckResult

_LATENCY_SECONDS = 30.0  # how long a probe may take to start on a host that is busy
_FEW_HOSTS = 3


def clock_results(offsets: Mapping[str, float | None], limit_seconds: Mapping[str, float]) -> dict[str, CheckResult]:
    """How far each host's clock is from the others'.

    ``offsets`` is the host's clock when its probe began, less the control node's when it was sent; the time to get
    there is in it. From three hosts on, their median is the reference, and such times cancel; below that, the control
    node's clock is.
    """
    known = [value for value in offsets.values() if value is not None]
    many = len(known) >= _FEW_HOSTS
    reference = statistics.median(known) if many else 0.0
    return {host: _clock(value, reference, limit_seconds[host], many=many) for host, value in offsets.items()}


def _clock(offset: float | None, reference: float, limit: float, *, many: bool) -> CheckResult:
    name = "host-clock-spread"
    if offset is None:
        return CheckResult(check=name, verdict="unknown", seen="the probe gave no time")
    apart = offset - reference
    than = "the median of the hosts" if many else "the control node"
    seen = f"{apart:+.1f} s from {than}"
    expected = f"within {limit:g} s"
    latest = limit if many else limit + _LATENCY_SECONDS
    if -limit <= apart <= latest:
        return CheckResult(check=name, verdict="pass", seen=seen, expected=expected)
    if many and 0 < apart <= limit + _LATENCY_SECONDS / 3:
        return CheckResult(
            check=name,
            verdict="warn",
            seen=seen,
            expected=expected,
            basis="its clock is ahead, or its probe began late",
            advice="run preflight again; see host-clock",
        )
    return CheckResult(
        check=name,
        verdict="fail",
        seen=seen,
        expected=expected,
        basis="logs of hosts cannot be ordered, certificates and tokens expire too early or late",
        advice="systemctl enable --now chrony (chronyd on RHEL), chronyc makestep; check the hardware clock",
    )


def port_results(
    reached: Mapping[str, Sequence[Mapping[str, Any]]], listening: Mapping[str, Mapping[str, str]], hosts: Sequence[str]
) -> dict[str, CheckResult]:
    """Whether each host reaches the ports of others. ``listening`` says of each host which ports were open on it.

    Somebody always listens, the probe or who had the port before, so silence and refusal both mean that something
    between the hosts stands in the way; but who had the port before may have ended since, and then it is refused.
    """
    return {host: _ports(reached.get(host), listening) for host in hosts}


def _ports(attempts: Sequence[Mapping[str, Any]] | None, listening: Mapping[str, Mapping[str, str]]) -> CheckResult:
    name = "host-ports"
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
