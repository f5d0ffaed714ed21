"""What the figures of all hosts' tests mean: a result for each check of each host. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from raybench.documents.preflight import CheckResult, NodeFigure
from raybench.preflight.node_tests.answer import NodeTests
from raybench.preflight.node_tests.burn import STATE, judge_states
from raybench.preflight.node_tests.machine import Sharing, load_judgement, sharing_of
from raybench.preflight.node_tests.peers import Compared, Place, compared, peers_of
from raybench.preflight.node_tests.plan import LOAD, RUN, NodeCheck
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown
from raybench.stats import median
from raybench.verdicts import CheckVerdict, worst

_MOST_NAMED = 4
_GET_TORCH = (
    "raybench cluster up brings a Python with torch to the hosts; or name one that they have with preflight_python"
)
_SLOW_ADVICE = (
    "look for other processes, power and clock limits and temperatures on the node (raybench preflight); run it again, "
    "and drain the node if it stays slower"
)
_BROKEN_ADVICE = (
    "read the reason; look in dmesg for Xids and messages of the device's driver, drain the node, and reset or replace "
    "the device"
)
_WITHOUT_WAITING = frozenset({"processor"})
_SHARED_DEVICES = frozenset({"cpu", "disk"})  # that hosts on one machine have together
_STATUS: Mapping[str, CheckVerdict] = {
    "skipped": "skipped",
    "missing": "unknown",
    "warned": "warn",
    "failed": "fail",
    "broken": "error",
}
_WRONG_ADVICE = "drain the node: its results are wrong without an error; have the device that is named replaced"


def judge(
    tests: Mapping[str, NodeTests], groups: Mapping[str, str], checks: Sequence[NodeCheck]
) -> dict[str, list[CheckResult]]:
    """The results of each host. ``groups`` are those in which hosts are compared."""
    sharing = sharing_of(tests)
    found: dict[str, list[CheckResult]] = {
        host: [_run(one, sharing[host]), _as_result(LOAD, load_judgement(one, sharing[host]))]
        for host, one in tests.items()
    }
    states = judge_states(tests, groups)
    for check in checks:
        names = {check.figure, check.test}
        places = [(host, one) for host, tested in tests.items() for one in tested.figures if one.test in names]
        verdicts = _by_peers(places, groups, sharing)
        for host, tested in tests.items():
            if check.figure == STATE and host in states:
                found[host].append(_as_result(check.name, states[host]))
                continue
            own = [(one, verdicts.get(id(one))) for other, one in places if other == host]
            found[host].append(_result(check, tested, own))
    return found


def _run(one: NodeTests, sharing: Sharing) -> CheckResult:
    """Whether the tests of a host came to their end."""
    during = f" in the test {one.last}" if one.last else ""
    if one.problem == "timeout" and (sharing.emulated or not one.last):
        shared = f"its tests did not end in time{during}; it shares its machine with other nodes of this test"
        judged = unknown(
            shared if one.last else "its tests had not begun when their time was over",
            "look what the host does (raybench preflight), and whether its Python is on a slow file system; "
            "or give more time with preflight_test_seconds",
        )
    elif one.problem == "timeout":
        judged = failed(
            f"its tests did not end in time{during}",
            "the tests end within their limit",
            "the time limit of the plan",
            "look what hangs on the host (raybench preflight); or give more time with preflight_test_seconds",
        )
    elif one.problem:
        said = f": {one.errors.splitlines()[-1]}" if one.errors else ""
        judged = Judgement(
            verdict="error",
            seen=f"{one.problem}{during}{said}",
            expected="the tests end by themselves",
            advice="read the reason, look at the host's log, and run the tests again",
        )
    elif one.why_no_torch:
        judged = unknown(f"{one.why_no_torch}; tests that need it were not done", _GET_TORCH)
    else:
        judged = passed(f"{one.seconds:.0f} s by {one.python}, torch {one.stack or 'not needed'}")
    return _as_result(RUN, judged)


def _result(check: NodeCheck, tested: NodeTests, own: Sequence[tuple[NodeFigure, Compared | None]]) -> CheckResult:
    """A check of a host: the worst of its figures."""
    found = [(_verdict(one, by_peers), one, by_peers) for one, by_peers in own]
    measured = [item for item in found if item[0] != "skipped"]
    if not found:
        return _as_result(check.name, _absent(check, tested))
    if not measured:
        return _as_result(check.name, skipped(_named(dict.fromkeys(_why_skipped(*item[1:]) for item in found))))
    verdict = worst(one for one, _, _ in measured)
    worst_ones = [(one, by_peers) for own_verdict, one, by_peers in measured if own_verdict == verdict]
    wrong = [one for one, _ in worst_ones if one.wrong]
    if wrong:
        return _as_result(check.name, _wrong(wrong))
    first = worst_ones[0][1]
    return CheckResult(
        check=check.name,
        verdict=verdict,
        seen=_named(by_peers.seen if by_peers else _seen(one) for one, by_peers in worst_ones),
        expected=first.expected if first else "every element as it must be" if verdict == "pass" else "",
        basis=first.basis if first else "",
        advice=_advice(verdict, *worst_ones[0]),
    )


def _verdict(one: NodeFigure, by_peers: Compared | None) -> CheckVerdict:
    if one.wrong:
        return "fail"
    if one.status != "ok":
        return _STATUS[one.status]
    return by_peers.verdict if by_peers else "pass" if one.checked else "unknown"


def _seen(one: NodeFigure) -> str:
    if one.status != "ok":
        return f"{one.name}: {one.reason}" if one.name else one.reason
    if one.detail:
        return f"{one.name}: {one.detail}"
    return f"{one.name}: {one.checked} elements" if one.checked else f"{one.name}: nothing was compared"


def _why_skipped(one: NodeFigure, by_peers: Compared | None) -> str:
    return f"{by_peers.seen}; {by_peers.basis}" if by_peers else f"{one.name}: {one.reason}"


def _wrong(figures: Sequence[NodeFigure]) -> Judgement:
    return failed(
        _named(f"{one.name}: {one.wrong} of {one.checked} elements are wrong" for one in figures),
        "every element as it must be",
        "results that are known exactly, or that are the same each time",
        _WRONG_ADVICE,
    )


def _absent(check: NodeCheck, tested: NodeTests) -> Judgement:
    """No figure came of a test."""
    if tested.why_no_torch:
        return unknown(tested.why_no_torch, _GET_TORCH)
    why = f"the tests ended before: {tested.problem}" if tested.problem else "the host said nothing of it"
    return unknown(f"{check.title}: {why}")


def _advice(verdict: CheckVerdict, one: NodeFigure, by_peers: Compared | None) -> str:
    if verdict in {"fail", "warn"}:
        return _SLOW_ADVICE if by_peers else _BROKEN_ADVICE
    return _GET_TORCH if verdict == "unknown" and "torch" in one.reason else ""


def _named(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f"; and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return "; ".join(every[:_MOST_NAMED]) + more


def _by_peers(
    places: Sequence[Place], groups: Mapping[str, str], sharing: Mapping[str, Sharing]
) -> dict[int, Compared]:
    """The comparison of each figure that has samples, by its identity."""
    timed = [(host, one) for host, one in places if one.unit and one.status == "ok"]
    peers = peers_of(timed, groups)
    return {
        id(one): _compared(one, peers[index], sharing.get(host, Sharing())) for index, (host, one) in enumerate(timed)
    }


def _compared(one: NodeFigure, peers: Sequence[NodeFigure], sharing: Sharing) -> Compared:
    shared = one.device in _SHARED_DEVICES
    if shared and sharing.emulated and one.test not in _WITHOUT_WAITING:
        return Compared(
            verdict="skipped",
            seen=f"{one.name}: {median(one.samples):.3g} {one.unit}" if one.samples else one.name,
            basis=f"the node shares its {one.device} with other nodes of this test"
            + ("; test-processor is without waiting" if one.device == "cpu" else ""),
        )
    return compared(one, peers, emulated=sharing.emulated, not_its_own=sharing.not_its_own if shared else "")


def _as_result(check: str, judged: Judgement) -> CheckResult:
    return CheckResult(
        check=check,
        verdict=judged.verdict,
        seen=judged.seen,
        expected=judged.expected,
        basis=judged.basis,
        advice=judged.advice,
    )
