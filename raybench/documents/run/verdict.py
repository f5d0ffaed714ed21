"""How a run comes by its verdict: what it was judged by, what is missing of it, and the gravest finding. Pure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import field
from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.part import Part
from raybench.documents.plain import Json
from raybench.verdicts import Conclusion

if TYPE_CHECKING:
    from raybench.documents.run.benchmark import BenchmarkResult
    from raybench.documents.run.result import RunResult

OF_AN_END = frozenset({"peer-died", "run-failed", "job-cancelled"})  # what logs say of ranks that raybench ended
BASELINE = "baseline"  # the check that only a run with --baseline has: it was asked for
INTERRUPTED = "interrupted"  # the rule of the finding that a run was stopped by its user


class Check(Part, frozen=True, kw_only=True):
    """One thing that a run is judged by: ``data``, ``bandwidth``, ``pairs``, ``ranks``. ``text`` says so in words.

    ``undecided``: something is wrong with it, and it could not be judged what: the verdict is unknown. ``hosts``: the
    nodes that may be at fault then, the likeliest first, and ``rule``: by which finding one of them would be accused.
    """

    name: str = field(name="check")
    outcome: Literal["passed", "failed", "not judged"]
    text: str
    undecided: bool = False
    hosts: tuple[str, ...] = ()
    rule: str = ""

    def to_json(self) -> Json:
        """As in the schema."""
        undecided: Json = {"undecided": True} if self.undecided else {}
        undecided |= {"hosts": list(self.hosts), "rule": self.rule} if self.hosts else {}
        return self.with_unknown({"check": self.name, "outcome": self.outcome, "text": self.text, **undecided})


def conclude(
    *, wrong: Sequence[str], gaps: Sequence[str], findings: Sequence[Finding], checks: Sequence[Check]
) -> Conclusion:
    """The verdict of a document: wrong data, then what is missing, then the gravest finding, then what was judged.

    ``gaps``: why it is not complete, the cause first. A finding of what broke a run is a reason for its gap, so it is
    not counted as one of the cluster's own. A comparison that was asked for and could not be made leaves it unknown,
    and so do pairs of which some are slow where nobody can say because of whom.
    """
    if wrong:
        return Conclusion(verdict="critical", reason=_first_of([f"wrong data: {text}" for text in wrong]))
    critical = [_summary(one) for one in findings if one.severity == "critical"]
    if gaps:
        beside = [text for text in critical if text not in gaps]
        return Conclusion(verdict="incomplete", reason="; ".join([gaps[0], *([_first_of(beside)] if beside else [])]))
    warnings = [_summary(one) for one in findings if one.severity == "warning"]
    if critical:
        return Conclusion(verdict="critical", reason=_first_of([*critical, *warnings]))
    unanswered = [
        check.text for check in checks if check.undecided or (check.name == BASELINE and check.outcome == "not judged")
    ]
    if unanswered:
        return Conclusion(
            verdict="unknown", reason="; ".join([*unanswered, *([_first_of(warnings)] if warnings else [])])
        )
    if warnings:
        return Conclusion(verdict="warning", reason=_first_of(warnings))
    return _without_findings(checks)


def _without_findings(checks: Sequence[Check]) -> Conclusion:
    """``ok`` where anything was judged, else ``unknown``."""
    judged = [check.text for check in checks if check.outcome == "passed"]
    open_ = [check.text for check in checks if check.outcome == "not judged"]
    if not judged:
        return Conclusion(verdict="unknown", reason="; ".join(["nothing could be judged", *open_]))
    return Conclusion(verdict="ok", reason="; ".join([f"{', '.join(judged)}, no finding", *open_]))


def conclude_run(result: "RunResult") -> Conclusion:
    """The verdict of a run."""
    return conclude(
        wrong=result.wrong,
        gaps=[*_gaps(result), *result.problems, *_unfinished_isolation(result)],
        findings=(*result.findings, *_own_log_findings(result)),
        checks=all_checks(result),
    )


def _unfinished_isolation(result: "RunResult") -> list[str]:
    """That the suspects were to be measured again, and the user ended it."""
    isolation = result.isolation
    return [f"the isolation of its suspects: {isolation.stopped}"] if isolation and isolation.interrupted else []


def _own_log_findings(result: "RunResult") -> Iterator[Finding]:
    """What the logs say, without the end that raybench made of the ranks once something had broken the run."""
    ended = any(one.ended_the_run for one in result.findings)
    return (one for one in result.log_findings if not (ended and one.rule in OF_AN_END))


def all_checks(result: "RunResult") -> tuple[Check, ...]:
    """What a run is judged by: its data, what was compared, and what was asked for and cannot be measured here."""
    return (
        *(_of_one_machine(one) if result.cluster.emulated else one for one in _data_checks(result.benchmarks)),
        *result.checks,
        *_skipped(result.benchmarks),
        *_undecided_suspects(result),
    )


def _of_one_machine(check: Check) -> Check:
    """Of emulated nodes, which share processors, a rank that took longer for a while leaves nothing open."""
    return replace(check, undecided=False) if check.undecided else check


def _undecided_suspects(result: "RunResult") -> Iterator[Check]:
    """Whether those whom the run accuses are at fault was asked for, and could not be told."""
    for one in result.isolation.suspects if result.isolation else ():
        if one.outcome == "unknown":
            text = f"whether {one.name} is at fault is not known: {one.reason}"
            yield Check(name="isolation", outcome="not judged", text=text, undecided=True)


def _data_checks(benchmarks: Sequence["BenchmarkResult"]) -> Iterator[Check]:
    """Whether the data was verified, then what points of workloads say beside it, each once."""
    verified = [point.verified for benchmark in benchmarks for point in benchmark.points if point.samples_seconds]
    points = [point for benchmark in benchmarks for point in benchmark.workload if point.is_verifiable]
    verified += [point.verified for point in points if point.failed is None]
    good = sum(one is True for one in verified)
    if False in verified:
        yield Check(name="data", outcome="failed", text="wrong data")
    elif good:
        part = "" if good == len(verified) else f" in {good} of {len(verified)} points"
        yield Check(name="data", outcome="passed", text=f"data verified{part}")
    elif verified:
        yield Check(name="data", outcome="not judged", text="data not checked")
    further = {check.text: check for one in benchmarks for check in _of_points(one)}
    yield from further.values()


def _of_points(benchmark: "BenchmarkResult") -> Iterator[Check]:
    for point in benchmark.workload:
        yield from point.checks(complete=benchmark.status == "complete")


def _skipped(benchmarks: Sequence["BenchmarkResult"]) -> Iterator[Check]:
    for one in benchmarks:
        if one.status == "skipped":
            yield Check(name=one.name, outcome="not judged", text=f"{one.name} was skipped: {one.reason}")


def _gaps(result: "RunResult") -> list[str]:
    """Why the run is not complete: what broke it, then what is missing of which benchmark."""
    missing = [one for one in result.benchmarks if one.status in ("partial", "failed") and not one.wrong]
    if result.status == "complete" and not missing:
        return []
    broke = [one for one in result.findings if one.ended_the_run]
    if any(one.rule == INTERRUPTED for one in broke):
        return [_stopped(result, broke[0])]
    skipped = [one for one in result.benchmarks if one.status == "skipped"]
    return [
        *map(_summary, broke),
        *(f"{one.name}: {one.reason or one.status}" for one in missing),
        *(f"{one.name} was skipped: {one.reason}" for one in skipped),
    ] or ["nothing was measured" if not result.benchmarks else f"the run is {result.status}"]


def _stopped(result: "RunResult", finding: Finding) -> str:
    kept = sum(len(one.points) + len(one.workload) for one in result.benchmarks)
    return f"{_summary(finding)}; " + (f"{kept} measured point{'s' * (kept > 1)} kept" if kept else "nothing measured")


def _summary(finding: Finding) -> str:
    return finding.summary or finding.rule


def _first_of(texts: Sequence[str]) -> str:
    more = len(texts) - 1
    return texts[0] + (f" (and {more} more finding{'s' * (more > 1)})" if more else "")
