"""Several jobs to one answer: the worst verdict, what they agree on, and the findings of each under its name."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from diagnostics.findings import SEVERITY_ORDER, Diagnosis, LineCounts, Verdict

_WORST_FIRST: tuple[Verdict, ...] = ("critical", "warning", "unknown", "ok")
_Fact = TypeVar("_Fact", bound=Hashable)


def overall(jobs: Sequence[tuple[str, Diagnosis]]) -> Diagnosis:
    """The diagnosis of several jobs, given by name, at least one."""
    named = [_named(name, diagnosis) for name, diagnosis in jobs]
    verdict = min((job.verdict for job in named), key=_WORST_FIRST.index)
    findings = sorted(
        (finding for job in named for finding in job.findings), key=lambda finding: SEVERITY_ORDER[finding.severity]
    )
    return Diagnosis(
        verdict=verdict,
        explanation=_explain(verdict, named),
        network=_agreed((job.network for job in named), "mixed"),
        gdr=_agreed((job.gdr for job in named), None),
        tcp_fallback=True if any(job.tcp_fallback for job in named) else _agreed((j.tcp_fallback for j in named), None),
        nccl_versions=tuple(sorted({version for job in named for version in job.nccl_versions})),
        world_size=_agreed((job.world_size for job in named), None),
        nodes=_agreed((job.nodes for job in named), None),
        ranks=(),
        missing_ranks=(),
        findings=tuple(findings),
        rules_clear=tuple(rule for rule in named[0].rules_clear if all(rule in job.rules_clear for job in named)),
        rules_cannot_tell=tuple(
            replace(unsure, why=f"{job.job}: {unsure.why}") for job in named for unsure in job.rules_cannot_tell
        ),
        lines=_lines([job.lines for job in named]),
        counters=_counters([job.counters for job in named]),
        notes=tuple(note for job in named for note in job.notes),
        jobs=tuple(named),
    )


def _named(name: str, diagnosis: Diagnosis) -> Diagnosis:
    return replace(diagnosis, job=name, findings=tuple(replace(finding, job=name) for finding in diagnosis.findings))


def _agreed(facts: Iterable[_Fact], otherwise: _Fact) -> _Fact:
    """What all say; ``otherwise`` where they differ."""
    said = set(facts)
    return said.pop() if len(said) == 1 else otherwise


def _explain(verdict: Verdict, jobs: Sequence[Diagnosis]) -> str:
    if verdict == "ok":
        return f"No problem is shown by the logs of {len(jobs)} jobs."
    bad = [job for job in jobs if job.verdict == verdict]
    have = "has" if len(bad) == 1 else "have"
    kinds = {"critical": f"{have} a critical finding", "warning": f"{have} a warning", "unknown": "cannot be judged"}
    return f"{len(bad)} of {len(jobs)} jobs {kinds[verdict]}. {bad[0].job}: {bad[0].explanation}"


def _lines(counts: Sequence[LineCounts]) -> LineCounts:
    return LineCounts(
        read=sum(count.read for count in counts),
        nccl=sum(count.nccl for count in counts),
        unreadable=sum(count.unreadable for count in counts),
    )


def _counters(counters: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Only what can be added up: the rest belongs to a job."""
    added = {name: sum(int(str(one.get(name, 0))) for one in counters) for name in ("files", "flight_records")}
    return {**added, "jobs": len(counters), "nccl_lines_estimated": False}
