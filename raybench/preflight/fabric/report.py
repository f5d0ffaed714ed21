"""The report of a fabric test: pairs, suspects and hosts, as JSON of schema ``raybench.fabric/1``. Pure.

Keys are added, never renamed or removed. Verdicts are preflight's: pass, warn, fail, error (could not be tested).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.preflight.fabric.evidence import Outcome
from raybench.preflight.fabric.judgement import Judged, RailJudgement
from raybench.preflight.fabric.measurements import advice_for
from raybench.preflight.fabric.rails import HostProblem
from raybench.preflight.fabric.schedule import Fabric
from raybench.preflight.fabric.settings import FabricSettings
from raybench.preflight.fabric.suspects import Suspect, suspects

SCHEMA = "raybench.fabric/1"
Json = dict[str, Any]
_VERDICT = {Outcome.GOOD: "pass", Outcome.SLOW: "fail", Outcome.FAILED: "error"}


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


def report(fabric: Fabric, settings: FabricSettings, rails: Sequence[RailJudgement], facts: RunFacts) -> Json:
    """The whole report."""
    ranked = suspects(fabric, settings, rails)
    pairs = [_pair(rail, one, settings) for rail in rails for one in rail.judged]
    hosts = [_host(name, fabric, facts, ranked) for name in _all_names(fabric, facts)]
    return {
        "schema": SCHEMA,
        "run_id": facts.run_id,
        "status": "partial" if _is_partial(fabric, rails, facts) else "complete",
        "verdict": _verdict(pairs, hosts, ranked),
        "started_at": facts.started_at,
        "finished_at": facts.finished_at,
        "tool": fabric.tool,
        "unit": "us" if settings.is_latency else "Gb/s",
        "scope": settings.scope,
        "emulated": any(rail.emulated for rail in rails),
        "rounds": {"scan": facts.scan_rounds, "confirm": facts.confirm_rounds},
        "settings": {name: getattr(settings, name) for name in settings.__slots__},
        "hosts": hosts,
        "rails": [_rail(rail) for rail in rails],
        "pairs": pairs,
        "suspects": [_suspect(number, one) for number, one in enumerate(ranked, start=1)],
        "notes": list(fabric.notes),
    }


def empty_report(settings: FabricSettings, facts: RunFacts, problem: str, problems: Sequence[HostProblem] = ()) -> Json:
    """The report of a run that could measure nothing, saying why."""
    hosts = [
        {
            "name": name,
            "verdict": "error",
            "problems": [_problem_json(problem) for problem in problems if problem.host == name],
        }
        for name in dict.fromkeys(problem.host for problem in problems)
    ]
    hosts += [_gone(name, why) for name, why in {**facts.unreachable, **facts.lost}.items()]
    return {
        "schema": SCHEMA,
        "run_id": facts.run_id,
        "status": "failed",
        "verdict": "error",
        "started_at": facts.started_at,
        "finished_at": facts.finished_at,
        "tool": settings.tool,
        "unit": "us" if settings.is_latency else "Gb/s",
        "scope": settings.scope,
        "emulated": False,
        "rounds": {"scan": 0, "confirm": 0},
        "settings": {name: getattr(settings, name) for name in settings.__slots__},
        "hosts": hosts,
        "rails": [],
        "pairs": [],
        "suspects": [],
        "notes": [problem],
    }


def _all_names(fabric: Fabric, facts: RunFacts) -> tuple[str, ...]:
    others = [problem.host for problem in fabric.problems]
    return tuple(dict.fromkeys([*fabric.names, *others, *facts.unreachable, *facts.lost]))


def _pair(rail: RailJudgement, one: Judged, settings: FabricSettings) -> Json:
    found = one.measurement
    ports = rail.rail.ports
    entry: Json = {
        "check": "fabric-pair",
        "source": {"host": found.source, "device": ports[found.source].name},
        "destination": {"host": found.destination, "device": ports[found.destination].name},
        "rail": found.rail,
        "round": found.round,
        "value": found.value,
        "limit": one.limit,
        "typical": one.typical,
        "expected_gbit_per_s": one.expected.gbit_per_s,
        "verdict": _VERDICT[one.outcome],
        "seen": _seen(one, settings),
        "expected": one.reason or "as others",
        "basis": one.expected.basis,
        "advice": advice_for(one.reason) if one.outcome is Outcome.FAILED else "",
        "notes": list(found.notes),
        "counters": {
            side: {growth.name: growth.by for growth in growths}
            for side, growths in (("source", found.source_growth), ("destination", found.destination_growth))
            if growths
        },
    }
    lossy = [growth for growth in (*found.source_growth, *found.destination_growth) if growth.weight == "fault"]
    if lossy and one.outcome is Outcome.GOOD:
        entry["verdict"] = "warn"
        entry["expected"] = "counters of link faults that do not grow during a test"
        entry["advice"] = "clean or change cable and transceiver, and watch the counters: " + ", ".join(
            f"{growth.name} +{growth.by}" for growth in lossy
        )
    return entry


def _seen(one: Judged, settings: FabricSettings) -> str:
    value = one.measurement.value
    if value is None:
        return one.measurement.problem or "no figure"
    return f"{value:.4g} {'us' if settings.is_latency else 'Gb/s'}"


def _host(name: str, fabric: Fabric, facts: RunFacts, ranked: Sequence[Suspect]) -> Json:
    if name in facts.unreachable:
        return _gone(name, facts.unreachable[name])
    problems = [_problem_json(problem) for problem in fabric.problems if problem.host == name]
    if name in facts.lost:
        problems.append(
            {"seen": facts.lost[name], "advice": "see whether the host is up", "device": None, "fault": False}
        )
    named = [one for one in ranked if one.kind in {"host", "device"} and one.hosts == (name,) and one.confirmed]
    taking_part = name in fabric.names
    failing = any(problem["fault"] for problem in problems) or any(one.outcome is Outcome.SLOW for one in named)
    end = next((end for end in fabric.ends if end.name == name), None)
    place = fabric.names.index(name) if taking_part else -1
    return {
        "name": name,
        "verdict": "fail" if failing else "error" if problems or named or not taking_part else "pass",
        "address": end.address if end else None,
        "leaf": fabric.leaf_names[fabric.leaf_of[place]] if taking_part and fabric.leaf_of else None,
        "ports": [
            {
                "rail": rail.name,
                "device": rail.ports[name].name,
                "rate": rail.ports[name].rate_text,
                "state": rail.ports[name].state,
                "driver": rail.ports[name].driver,
            }
            for rail in fabric.rails
            if name in rail.ports
        ],
        "tool_version": end.tools[fabric.tool].version if end and fabric.tool in end.tools else None,
        "problems": problems,
    }


def _gone(name: str, why: str) -> Json:
    problem = {"seen": why, "advice": "see whether the host is up and ssh reaches it", "device": None, "fault": False}
    return {"name": name, "verdict": "error", "reachable": False, "ports": [], "problems": [problem]}


def _problem_json(problem: HostProblem) -> Json:
    return {"seen": problem.text, "advice": problem.advice, "device": problem.device, "fault": problem.fault}


def _rail(rail: RailJudgement) -> Json:
    values = [one.measurement.value for one in rail.judged if one.measurement.value is not None]
    return {
        "name": rail.rail.name,
        "devices": sorted({port.name for port in rail.rail.ports.values()}),
        "hosts": len(rail.rail.ports),
        "tests": len(rail.judged),
        "slow": sum(one.outcome is Outcome.SLOW for one in rail.judged),
        "failed": sum(one.outcome is Outcome.FAILED for one in rail.judged),
        "least": min(values, default=None),
        "most": max(values, default=None),
        "emulated": rail.emulated,
    }


def _suspect(number: int, one: Suspect) -> Json:
    return {
        "rank": number,
        "check": f"fabric-{one.kind}",
        "kind": one.kind,
        "hosts": list(one.hosts),
        "rails": list(one.rails),
        "confirmed": one.confirmed,
        "verdict": _suspect_verdict(one),
        "summary": one.summary,
        "seen": one.seen,
        "expected": one.expected,
        "basis": one.basis,
        "advice": one.advice,
    }


def _suspect_verdict(one: Suspect) -> str:
    if one.outcome is Outcome.FAILED:
        return "error"
    return "fail" if one.confirmed else "warn"


def _verdict(pairs: Sequence[Json], hosts: Sequence[Json], ranked: Sequence[Suspect]) -> str:
    """fail where something is confirmed or broken, error where something could not be tested, else warn or pass."""
    found = set(_verdicts(pairs, hosts, ranked))
    return next((verdict for verdict in ("fail", "error", "warn") if verdict in found), "pass")


def _verdicts(pairs: Sequence[Json], hosts: Sequence[Json], ranked: Sequence[Suspect]) -> Iterator[str]:
    yield from (host["verdict"] for host in hosts)
    yield from (_suspect_verdict(one) for one in ranked)
    yield from (pair["verdict"] for pair in pairs if pair["verdict"] in {"warn", "error"})
    if pairs and all(pair["verdict"] in {"fail", "error"} for pair in pairs):
        yield "fail" if any(pair["verdict"] == "fail" for pair in pairs) else "error"


def _is_partial(fabric: Fabric, rails: Sequence[RailJudgement], facts: RunFacts) -> bool:
    """Whether something that was asked for was not measured. A port that is down is a finding, not a gap."""
    failed = any(one.outcome is Outcome.FAILED for rail in rails for one in rail.judged)
    excluded = {problem.host for problem in fabric.problems} - set(fabric.names)
    return bool(failed or excluded or facts.unreachable or facts.lost)
