"""The report of a preflight: every host with every check, what hosts differ in, and one verdict.

A host that was not reached is in it like the others, with the reason.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from raybench.documents.preflight import CheckResult, DriftEntry, PreflightHost, PreflightReport, summary_of
from raybench.preflight.attributes import attributes_of, product_group
from raybench.preflight.between_hosts import identity_results, login_results, port_results
from raybench.preflight.checks import Check, evaluate, selected
from raybench.preflight.clock_offsets import RoundTrip, clock_results
from raybench.preflight.drift import Difference, differences, drift_results
from raybench.preflight.expectations import read_expectations, unknown_variables
from raybench.preflight.host_view import HostView
from raybench.preflight.login import advice_for
from raybench.preflight.node_tests.answer import NodeTests
from raybench.preflight.node_tests.judgement import judge
from raybench.preflight.node_tests.plan import ALWAYS, CONCERN, NAMES, chosen_checks
from raybench.preflight.node_verdict import node_verdict
from raybench.preflight.nvlink_domains import domain_results
from raybench.preflight.probe_answer import BOOT_ID, boot_id_of
from raybench.preflight.rdma_peers import peer_results
from raybench.unreachable import advice_on
from raybench.verdicts import worst

_MOST_REASON = 600
# Judged over all hosts, after their own checks; the concern is what stands before the dash, as with those.
OVER_ALL = ("host-reachable", "host-expectations", "host-login", "host-identity", "host-clock-spread", "host-ports",
            "rdma-peers", "drift-domain", "drift-hardware", "drift-system", "drift-versions", "drift-network",
            "drift-limits")  # fmt: skip
# Of those, what needs a second host: a port has peers on its own host, too.
BETWEEN_HOSTS = ("drift", "host-clock-spread", "host-identity", "host-login", "host-ports")
# What --only and --skip may name beside the checks of single hosts.
BEYOND = frozenset({*OVER_ALL, *NAMES, "drift", CONCERN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What came back from a host: ``facts`` of its probe, or the ``reason`` why there are none.

    ``sent_at`` and ``received_at`` are the control node's clock; ``noise`` is what the login shell printed beside the
    answer. ``reached`` is what came of trying others' ports; ``not_tried_again`` where some did not answer while it was
    probed, when others may not have listened yet, and the second try gave nothing. ``tested`` is what came of its
    active tests; None where there were none.
    """

    host: str
    facts: Mapping[str, Any] | None = None
    reason: str = ""
    unreachable: bool = False
    sent_at: float | None = None
    received_at: float | None = None
    noise: str = ""
    reached: Sequence[Mapping[str, Any]] = ()
    not_tried_again: bool = False
    tested: NodeTests | None = None


def view_of(facts: Mapping[str, Any]) -> HostView:
    """The host of a probe, with what the inventory expects of it."""
    expected, _ = read_expectations(facts.get("expectations", {}))
    return HostView(facts, expected)


def build_report(
    gathered: Sequence[Gathered],
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    level: int = 1,
    finished_at: float,
) -> PreflightReport:
    """Judge all hosts; the run began when the first probe was sent.

    ``level`` is that of the active tests that were asked for. ``only`` and ``skip`` are names of checks or concerns.
    Raises ValueError on an unknown one.
    """
    over_all = [name for name in OVER_ALL if _chosen(name, only, skip)]
    checks = _own_checks(only, skip)
    views = {one.host: view_of(one.facts) for one in gathered if one.facts is not None}
    groups = {host: product_group(view) for host, view in views.items()}
    ignored = {name for view in views.values() for name in view.expected.drift_ignored}
    found = differences({host: attributes_of(view) for host, view in views.items()}, groups, tuple(sorted(ignored)))
    shared = _over_all(gathered, views, groups, found)
    tests = _test_results(gathered, groups, only, skip, level)
    asked = _tests_asked_for(only, skip, level)
    over_all += [result.check for results in tests.values() for result in results]
    hosts = tuple(
        _with_node(
            _host_entry(
                one,
                views.get(one.host),
                checks,
                [*shared.get(one.host, []), *tests.get(one.host, [])],
                over_all,
                groups,
            ),
            skip,
            asked,
        )
        for one in gathered
    )
    compared = any(name.startswith("drift") for name in over_all)
    return PreflightReport(
        verdict=worst(host.verdict for host in hosts),
        status="complete" if all(host.reached for host in hosts) else "partial",
        started_at=_iso(min((one.sent_at for one in gathered if one.sent_at is not None), default=finished_at)),
        finished_at=_iso(finished_at),
        summary=summary_of(hosts),
        hosts=hosts,
        drift=tuple(map(_difference_entry, found)) if compared else (),
        level=level,
    )


def _test_results(
    gathered: Sequence[Gathered], groups: Mapping[str, str], only: Sequence[str], skip: Sequence[str], level: int
) -> dict[str, list[CheckResult]]:
    """The checks of active tests, of each host that was reached; nothing where none were asked for."""
    checks = chosen_checks(level, only, skip)
    not_begun = NodeTests(problem="its tests were not begun")
    tests = {one.host: one.tested or not_begun for one in gathered if one.facts is not None}
    if not checks:
        return {}
    results = judge(tests, groups, checks)
    return {
        host: [one for one in found if one.check not in ALWAYS or one.check not in skip]
        for host, found in results.items()
    }


def _tests_asked_for(only: Sequence[str], skip: Sequence[str], level: int) -> tuple[str, ...]:
    """The checks of active tests that a host must have; empty where none were asked for."""
    chosen = tuple(one.name for one in chosen_checks(level, only, skip))
    return (*ALWAYS, *chosen) if chosen else ()


def _own_checks(only: Sequence[str], skip: Sequence[str]) -> tuple[Check, ...]:
    """Checks of single hosts: names that stand for something over all hosts alone are not among them."""
    wanted = [name for name in only if name not in BEYOND]
    checks = selected(wanted, [name for name in skip if name not in BEYOND])
    return () if only and not wanted else checks


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _chosen(name: str, only: Sequence[str], skip: Sequence[str]) -> bool:
    if name == "host-reachable":
        return True
    both = {name, name.partition("-")[0]}
    return (not only or bool(both & set(only))) and not both & set(skip)


def _over_all(
    gathered: Sequence[Gathered], views: Mapping[str, HostView], groups: Mapping[str, str], found: Sequence[Difference]
) -> dict[str, list[CheckResult]]:
    trips = {one.host: _round_trip(one) for one in gathered if one.host in views}
    clocks = clock_results(trips, {host: view.expected.clock_spread_fail_seconds for host, view in views.items()})
    logins = login_results(trips, {one.host: one.noise for one in gathered})
    identities = identity_results(views)
    domains = domain_results(views)
    peers = peer_results(views, groups)
    listening = {host: view.readings.get("listening", {}).get("value") or {} for host, view in views.items()}
    reached = {one.host: one.reached for one in gathered}
    open_hosts = {one.host for one in gathered if one.not_tried_again}
    ports = port_results(reached, listening, list(views), open_hosts)
    sizes = Counter(groups.values())
    return {
        host: [
            *_expectation_problems(view),
            logins[host],
            identities[host],
            clocks[host],
            ports[host],
            domains[host],
            peers[host],
            *drift_results(host, [one for one in found if one.group == groups[host]], compared=sizes[groups[host]] > 1),
        ]
        for host, view in views.items()
    }


def _round_trip(one: Gathered) -> RoundTrip | None:
    facts = one.facts or {}
    if one.sent_at is None or one.received_at is None or facts.get("clock") is None:
        return None
    return RoundTrip(
        sent_at=one.sent_at,
        received_at=one.received_at,
        host_clock=float(facts["clock"]),
        host_seconds=float(facts.get("seconds") or 0.0),
    )


def _expectation_problems(view: HostView) -> list[CheckResult]:
    given = view.facts.get("expectations", {})
    _, problems = read_expectations(given)
    unread = unknown_variables(given)
    if not problems and unread:
        return [
            CheckResult(
                check="host-expectations",
                verdict="warn",
                seen=f"no such variable: {', '.join(unread)}",
                expected="variables of the role's README",
                basis="preflight reads no such variable, so what it says is not checked",
                advice="correct its name in the inventory; the README of the role preflight lists them",
            )
        ]
    if not problems:
        return []
    return [
        CheckResult(
            check="host-expectations",
            verdict="error",
            seen="; ".join(problems),
            expected="values of the types in the role's README",
            advice="correct the inventory; the default was used instead",
        )
    ]


def _boot_id(facts: Mapping[str, Any]) -> str:
    """As a kernel writes it, else empty."""
    found = boot_id_of(facts)
    return found if BOOT_ID.fullmatch(found) else ""


def _host_entry(
    one: Gathered,
    view: HostView | None,
    checks: Sequence[Check],
    shared: Sequence[CheckResult],
    over_all: Sequence[str],
    groups: Mapping[str, str],
) -> PreflightHost:
    if view is None:
        results = [_absent(one)]
    else:
        reachable = CheckResult(check="host-reachable", verdict="pass", seen="answered", expected="answers")
        results = [reachable, *evaluate(view, checks), *shared]
    ran = {check.name for check in checks} | set(over_all)
    results = [result for result in results if result.check in ran]
    return PreflightHost(
        host=one.host,
        hostname=view.facts.get("hostname") if view else None,
        verdict=worst(result.verdict for result in results),
        reached=view is not None,
        reason=one.reason,
        group=groups.get(one.host, ""),
        probe_seconds=view.facts.get("seconds") if view else None,
        checks=tuple(results),
        tests=one.tested.figures if one.tested is not None else (),
        boot_id=_boot_id(one.facts or {}),
    )


def _with_node(host: PreflightHost, skip: Sequence[str], asked: Sequence[str]) -> PreflightHost:
    return replace(host, node=node_verdict(host.host, host.checks, skip=skip, tests=asked))


def reason_of(said: str) -> str:
    """Why a host gave no answer, from what Ansible said of it: on one line, without what it puts before each reason."""
    return " ".join(said.split()).removeprefix("Task failed: ")[:_MOST_REASON] or "the probe gave no answer"


_UNREACHABLE_ADVICE = (
    "check power, network and sshd of the host, its address and user in the inventory, and its key in known_hosts"
)
_BROKEN_ADVICE = "read the reason; the host needs Python 3.8 or newer, and ansible_python_interpreter may name it"


def _absent(one: Gathered) -> CheckResult:
    unknown = _UNREACHABLE_ADVICE if one.unreachable else _BROKEN_ADVICE
    return CheckResult(
        check="host-reachable",
        verdict="fail" if one.unreachable else "error",
        seen=one.reason or "no answer",
        expected="answers, and runs the probe",
        basis="Ansible",
        advice=advice_for(one.reason) or advice_on(one.reason, one.host) or unknown,
    )


def _difference_entry(one: Difference) -> DriftEntry:
    return DriftEntry(
        attribute=one.attribute,
        kind=one.kind,
        group=one.group,
        verdict=one.verdict,
        majority=one.majority,
        odd_hosts=one.odd,
        values=one.values,
    )
