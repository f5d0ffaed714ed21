"""Which finding follows from which: lowered beside a rule that says more, folded under or set below its cause."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from diagnostics.findings import SEVERITY_ORDER, Evidence, Finding

MAX_VICTIMS = 20
_LEVELS: Mapping[str, int] = {
    "": 0,
    "fold": 2,
    "lower": 2,
    "after": 3,
    "last": 4,
}  # what follows from what stands before
_OWN = 1  # what NCCL says of a rank's own side is before what it says of others that are gone
_ABOUT_THE_LOG = frozenset({"log-too-quiet", "log-truncated"})


def lower_explained(findings: Sequence[Finding], explained_by: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """Findings at info where a rule that says more of the same is as severe; that one gets their lines."""
    faults = {finding.rule: finding for finding in findings if finding.severity != "info"}
    lowered: list[Finding] = []
    victims: dict[str, tuple[Evidence, ...]] = {}
    for finding in findings:
        causes = (faults[rule] for rule in explained_by.get(finding.rule, ()) if rule in faults)
        cause = next((fault.rule for fault in causes if _explains(fault, finding)), None)
        if cause is None or finding.severity == "info":
            lowered.append(finding)
            continue
        victims[cause] = victims.get(cause, ()) + finding.evidence
        note = f"Explained by {cause}. "
        lowered.append(replace(finding, severity="info", explanation=note + finding.explanation))
    return [_with_victims(finding, victims.get(finding.rule, ())) for finding in lowered]


def _explains(fault: Finding, finding: Finding) -> bool:
    """Whether a fault is at least as severe as a finding, and was seen before it."""
    if finding.own:
        return False
    as_severe = SEVERITY_ORDER[fault.severity] <= SEVERITY_ORDER[finding.severity]
    return as_severe and fault.sequence <= finding.sequence


def _with_victims(finding: Finding, lines: Sequence[Evidence]) -> Finding:
    """The finding with these lines under it, without those that it quotes already."""
    own = {(evidence.file, evidence.line) for evidence in (*finding.evidence, *finding.victims)}
    fresh = {(one.file, one.line): one for one in lines if (one.file, one.line) not in own}  # two may rest on one line
    return replace(finding, victims=(*finding.victims, *fresh.values())[:MAX_VICTIMS])


def fold_consequences(
    findings: Sequence[Finding], consequences: Mapping[str, str], slow: frozenset[str] = frozenset()
) -> list[Finding]:
    """Findings, the worst and first on top, with consequences listed under, or set below, the first critical cause.

    ``consequences`` maps rules to ``fold``, ``lower``, ``after`` or ``last``. What makes a run ``slow`` is no cause of
    its failure, and stands below it.
    """

    def fails(finding: Finding) -> bool:
        return finding.severity == "critical" and (finding.blocks or finding.rule not in slow)

    failures = [finding for finding in findings if fails(finding)]
    if failures:
        level = min(_level(finding, consequences) for finding in failures)
        causes = [finding for finding in failures if _level(finding, consequences) == level]
        findings = _under(min(causes, key=lambda finding: finding.sequence), level, findings, consequences)
    return sorted(
        findings,
        key=lambda finding: (
            SEVERITY_ORDER[finding.severity],
            not fails(finding),
            finding.rule in _ABOUT_THE_LOG,
            finding.severity == "warning" and finding.rule in slow,  # a slow path is below what may have made it
            finding.sequence,
        ),
    )


def _level(finding: Finding, consequences: Mapping[str, str]) -> int:
    level = _LEVELS[consequences.get(finding.rule, "")]
    return min(level, _OWN) if finding.own else level


def _under(first: Finding, level: int, findings: Sequence[Finding], consequences: Mapping[str, str]) -> list[Finding]:
    """The findings with those that follow from ``first``, whose level is given, listed under it or set below it."""
    kinds = {finding.rule: consequences.get(finding.rule, "") for finding in findings}
    folded = [one for one in findings if kinds[one.rule] in ("fold", "last") and _level(one, consequences) > level]
    lines = tuple(evidence for victim in folded for evidence in victim.evidence)
    result = []
    for finding in findings:
        if finding is first:
            result.append(_with_victims(finding, lines))
        elif finding not in folded and _level(finding, consequences) > level:
            note = f"A consequence of {first.rule}, most likely. "
            result.append(replace(finding, severity="info", explanation=note + finding.explanation))
        elif finding not in folded:
            result.append(finding)
    return result
