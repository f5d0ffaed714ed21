"""The report of a fabric test: pairs, suspects and hosts, as its document. Pure.

Tests, hosts and suspects have preflight's verdicts: pass, warn, fail, error
(could not be tested). The verdict of the whole, and its exit code, follow from them: see raybench/verdicts.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from raybench.documents.fabric import (
    FabricEnd,
    FabricHost,
    FabricPort,
    FabricProblem,
    FabricRail,
    FabricReport,
    FabricRounds,
    FabricSuspect,
    FabricTest,
)
from raybench.preflight.fabric.counters import Growth
from raybench.preflight.fabric.evidence import PairVerdict, standing
from raybench.preflight.fabric.judgement import Judged, RailJudgement
from raybench.preflight.fabric.measurements import advice_for
from raybench.preflight.fabric.rails import HostProblem, Rail
from raybench.preflight.fabric.schedule import Fabric
from raybench.preflight.fabric.settings import FabricSettings
from raybench.preflight.fabric.suspects import Suspect, suspects
from raybench.unreachable import advice_on, brief_reason
from raybench.verdicts import Conclusion, RunStatus, TestVerdict, Verdict

_WORDS: tuple[tuple[str, Verdict], ...] = (("fail", "critical"), ("error", "incomplete"), ("warn", "warning"))
_VERDICT: Mapping[PairVerdict, TestVerdict] = {
    PairVerdict.GOOD: "pass",
    PairVerdict.SLOW: "fail",
    PairVerdict.FAILED: "error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a report says of its run beside the measurements. Rounds are those that were run."""

    run_id: str
    started_at: str
    finished_at: str
    scan_rounds: int
    confirm_rounds: int
    unreachable: Mapping[str, str]  # host -> why
    lost: Mapping[str, str]  # hosts that took part at first -> what happened


def report(fabric: Fabric, settings: FabricSettings, rails: Sequence[RailJudgement], facts: RunFacts) -> FabricReport:
    """The whole report."""
    ranked = suspects(fabric, settings, rails)
    index = {name: number for number, name in enumerate(fabric.names)}
    pairs = tuple(test for rail in rails for test in _pairs(rail, settings, index))
    hosts = tuple(_host(name, fabric, facts, ranked) for name in _all_names(fabric, facts))
    partial = _is_partial(fabric, rails, facts)
    return _report(
        settings,
        facts,
        _conclusion(pairs, hosts, ranked, partial=partial),
        status="partial" if partial else "complete",
        tool=fabric.tool,
        emulated=any(rail.emulated for rail in rails),
        hosts=hosts,
        rails=tuple(map(_rail, rails)),
        pairs=pairs,
        suspects=tuple(_suspect(number, one) for number, one in enumerate(ranked, start=1)),
        notes=tuple(fabric.notes),
    )


def empty_report(
    settings: FabricSettings, facts: RunFacts, problem: str, problems: Sequence[HostProblem] = ()
) -> FabricReport:
    """The report of a run that could measure nothing, saying why."""
    hosts = [
        FabricHost(name=name, verdict="error", problems=tuple(_problem(one) for one in problems if one.host == name))
        for name in dict.fromkeys(problem.host for problem in problems)
    ]
    hosts += [_gone(name, why) for name, why in {**facts.unreachable, **facts.lost}.items()]
    return _report(
        settings,
        facts,
        Conclusion(verdict="incomplete", reason=problem),
        status="failed",
        tool=settings.tool,
        hosts=tuple(hosts),
        notes=(problem,),
    )


def _report(
    settings: FabricSettings,
    facts: RunFacts,
    conclusion: Conclusion,
    *,
    status: RunStatus,
    tool: str,
    hosts: tuple[FabricHost, ...],
    notes: tuple[str, ...],
    emulated: bool = False,
    rails: tuple[FabricRail, ...] = (),
    pairs: tuple[FabricTest, ...] = (),
    suspects: tuple[FabricSuspect, ...] = (),
) -> FabricReport:
    return FabricReport(
        run_id=facts.run_id,
        status=status,
        verdict=conclusion.verdict,
        verdict_reason=conclusion.reason,
        started_at=facts.started_at,
        finished_at=facts.finished_at,
        tool=tool,
        unit="us" if settings.is_latency else "Gb/s",
        scope=settings.scope,
        emulated=emulated,
        rounds=FabricRounds(scan=facts.scan_rounds, confirm=facts.confirm_rounds),
        settings={name: getattr(settings, name) for name in settings.__slots__},
        hosts=hosts,
        rails=rails,
        pairs=pairs,
        suspects=suspects,
        notes=notes,
    )


def _all_names(fabric: Fabric, facts: RunFacts) -> tuple[str, ...]:
    others = [problem.host for problem in fabric.problems]
    return tuple(dict.fromkeys([*fabric.names, *others, *facts.unreachable, *facts.lost]))


def _pairs(rail: RailJudgement, settings: FabricSettings, index: Mapping[str, int]) -> Iterator[FabricTest]:
    """Every test. Slow once and good when repeated, or slow as the whole rail is, is a warning and no failure."""
    now = standing(rail.evidence)
    counted = now.persistent.keys() - set(now.doubtful)
    below = {id(one.measurement) for one in rail.below}
    for one in rail.judged:
        test = _pair(rail, one, settings)
        ends = sorted((index[one.measurement.source], index[one.measurement.destination]))
        if one.outcome is PairVerdict.SLOW and (ends[0], ends[1]) not in counted:
            test = replace(test, verdict="warn")
        elif one.outcome is PairVerdict.GOOD and id(one.measurement) in below:
            expected = "what the links carry; most of this rail does not reach it"
            test = replace(test, verdict="warn", expected=expected)
        yield test


def _pair(rail: RailJudgement, one: Judged, settings: FabricSettings) -> FabricTest:
    found = one.measurement
    ports = rail.rail.ports
    test = FabricTest(
        source=FabricEnd(host=found.source, device=ports[found.source].name),
        destination=FabricEnd(host=found.destination, device=ports[found.destination].name),
        rail=found.rail,
        round=found.round,
        value=found.value,
        limit=one.limit,
        typical=one.typical,
        expected_gbit_per_s=one.expected.gbit_per_s,
        verdict=_VERDICT[one.outcome],
        seen=_seen(one, settings),
        expected=one.reason or "as others",
        basis=one.expected.basis,
        advice=advice_for(one.reason) if one.outcome is PairVerdict.FAILED else "",
        notes=found.notes,
        counters={
            side: {growth.name: growth.by for growth in growths}
            for side, growths in (("source", found.source_growth), ("destination", found.destination_growth))
            if growths
        },
    )
    lossy = [growth for growth in (*found.source_growth, *found.destination_growth) if growth.weight == "fault"]
    return _with_faults(test, lossy) if lossy and one.outcome is PairVerdict.GOOD else test


def _with_faults(test: FabricTest, lossy: Sequence[Growth]) -> FabricTest:
    """A good figure while counters of link faults grew."""
    grown = ", ".join(f"{growth.name} +{growth.by}" for growth in lossy)
    return replace(
        test,
        verdict="warn",
        expected="counters of link faults that do not grow during a test",
        advice=f"clean or change cable and transceiver, and watch the counters: {grown}",
    )


def _seen(one: Judged, settings: FabricSettings) -> str:
    value = one.measurement.value
    if value is None:
        return one.measurement.problem or "no figure"
    return f"{value:.4g} {'us' if settings.is_latency else 'Gb/s'}"


def _host(name: str, fabric: Fabric, facts: RunFacts, ranked: Sequence[Suspect]) -> FabricHost:
    if name in facts.unreachable:
        return _gone(name, facts.unreachable[name])
    problems = [_problem(problem) for problem in fabric.problems if problem.host == name]
    if name in facts.lost:
        advice = "see whether the host is up"
        problems.append(FabricProblem(seen=facts.lost[name], advice=advice, device=None, fault=False))
    end = next((end for end in fabric.ends if end.name == name), None)
    taking_part = name in fabric.names
    place = fabric.names.index(name) if taking_part else -1
    return FabricHost(
        name=name,
        verdict=_host_verdict(name, problems, ranked, taking_part=taking_part),
        address=end.address if end else None,
        leaf=fabric.leaf_names[fabric.leaf_of[place]] if taking_part and fabric.leaf_of else None,
        ports=tuple(_port(rail, name) for rail in fabric.rails if name in rail.ports),
        tool_version=end.tools[fabric.tool].version if end and fabric.tool in end.tools else None,
        problems=tuple(problems),
    )


def _host_verdict(
    name: str, problems: Sequence[FabricProblem], ranked: Sequence[Suspect], *, taking_part: bool
) -> TestVerdict:
    named = [one for one in ranked if one.kind in {"host", "device"} and one.hosts == (name,) and one.confirmed]
    if any(problem.fault for problem in problems) or any(one.outcome is PairVerdict.SLOW for one in named):
        return "fail"
    if problems or named or not taking_part:
        return "error"
    # slow with some, and whose fault that is could not be determined
    return "warn" if any(name in one.hosts and one.kind in {"open", "common"} for one in ranked) else "pass"


def _port(rail: Rail, host: str) -> FabricPort:
    port = rail.ports[host]
    return FabricPort(rail=rail.name, device=port.name, rate=port.rate_text, state=port.state, driver=port.driver)


def _gone(name: str, why: str) -> FabricHost:
    advice = advice_on(why, name) or "see whether the host is up and ssh reaches it"
    problem = FabricProblem(seen=brief_reason(why, name), advice=advice, device=None, fault=False)
    return FabricHost(name=name, verdict="error", reachable=False, problems=(problem,))


def _problem(problem: HostProblem) -> FabricProblem:
    return FabricProblem(seen=problem.text, advice=problem.advice, device=problem.device, fault=problem.fault)


def _rail(rail: RailJudgement) -> FabricRail:
    values = [one.measurement.value for one in rail.judged if one.measurement.value is not None]
    return FabricRail(
        name=rail.rail.name,
        devices=tuple(sorted({port.name for port in rail.rail.ports.values()})),
        hosts=len(rail.rail.ports),
        tests=len(rail.judged),
        slow=sum(one.outcome is PairVerdict.SLOW for one in rail.judged),
        failed=sum(one.outcome is PairVerdict.FAILED for one in rail.judged),
        least=min(values, default=None),
        most=max(values, default=None),
        emulated=rail.emulated,
    )


def _suspect(number: int, one: Suspect) -> FabricSuspect:
    return FabricSuspect(
        rank=number,
        check=f"fabric-{one.kind}",
        kind=one.kind,
        hosts=one.hosts,
        rails=one.rails,
        confirmed=one.confirmed,
        verdict=_suspect_verdict(one),
        summary=one.summary,
        seen=one.seen,
        expected=one.expected,
        basis=one.basis,
        advice=one.advice,
    )


def _suspect_verdict(one: Suspect) -> TestVerdict:
    """fail for whatever is slow and stayed slow, also where it could not be determined whose fault it is."""
    if one.outcome is PairVerdict.FAILED:
        return "error"
    return "warn" if one.kind == "passed" or one.doubtful else "fail"


def _conclusion(
    pairs: Sequence[FabricTest], hosts: Sequence[FabricHost], ranked: Sequence[Suspect], *, partial: bool
) -> Conclusion:
    """What is broken comes first, then what could not be tested, then what is worth a look."""
    found: dict[str, list[str]] = {}
    for verdict, reason in _verdicts(hosts, ranked):
        found.setdefault(verdict, []).append(reason)
    for verdict, reason in _unexplained(pairs):
        found.setdefault(verdict, [reason])
    for check, verdict in _WORDS:
        if check in found:
            more = f" (and {len(found[check]) - 1} more)" if len(found[check]) > 1 else ""
            return Conclusion(verdict=verdict, reason=found[check][0] + more)
    if partial:
        return Conclusion(verdict="incomplete", reason="not everything that was asked for was tested")
    if not pairs:
        return Conclusion(verdict="unknown", reason="no test was made")
    judged = sum(bool(pair.limit) for pair in pairs)
    if not judged:
        return Conclusion(verdict="unknown", reason="no other hosts and no link rate to compare the figures with")
    open_ = f"; {len(pairs) - judged} could not be compared" if judged < len(pairs) else ""
    return Conclusion(verdict="ok", reason=f"{judged} tests between {len(hosts)} hosts, none slow{open_}")


def _verdicts(hosts: Sequence[FabricHost], ranked: Sequence[Suspect]) -> Iterator[tuple[str, str]]:
    """Verdict and reason of suspects and of hosts."""
    yield from ((_suspect_verdict(one), one.summary) for one in ranked)
    for host in hosts:
        yield from ((problem.verdict, f"host {host.name}: {problem.seen}") for problem in host.problems)


def _unexplained(pairs: Sequence[FabricTest]) -> Iterator[tuple[str, str]]:
    """Verdict and reason of tests, for where neither a suspect nor a host has the same verdict."""
    for verdict, what in (("fail", "are slow"), ("error", "gave no figure"), ("warn", "are worth a look")):
        tests = [pair for pair in pairs if pair.verdict == verdict]
        if tests:
            yield verdict, f"{len(tests)} of {len(pairs)} tests {what}: {tests[0].advice or tests[0].seen}"


def _is_partial(fabric: Fabric, rails: Sequence[RailJudgement], facts: RunFacts) -> bool:
    """Whether something that was asked for was not measured. A port that is down is a finding, not a gap."""
    failed = any(one.outcome is PairVerdict.FAILED for rail in rails for one in rail.judged)
    excluded = {problem.host for problem in fabric.problems} - set(fabric.names)
    return bool(failed or excluded or facts.unreachable or facts.lost)
