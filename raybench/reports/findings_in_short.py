"""Findings that a report has room for: a few of each kind, and of the others their number and where they are. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.findings import Evidence, Finding
from raybench.reports.findings import headline
from raybench.reports.spans import ranks_in_short
from raybench.reports.text import counted, printable

MOST_OF_A_KIND = 5  # shown of findings of one rule and severity, where there are more than SAME_KIND of them
SAME_KIND = 8
MOST_FINDINGS = 200
MOST_EVIDENCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsView:
    """The findings that are shown, and a sentence on each kind of which there are more."""

    shown: tuple[Finding, ...]
    omitted: tuple[str, ...]


def findings_view(findings: Sequence[Finding]) -> FindingsView:
    """All of them where they are few; else the first of each kind, in their order."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for index, finding in enumerate(findings):
        kinds.setdefault((finding.severity, finding.rule), []).append(index)
    wanted = [index for kind in kinds.values() for index in _first(kind)]
    shown = set(sorted(wanted)[:MOST_FINDINGS])
    rest = ([findings[index] for index in kind if index not in shown] for kind in kinds.values())
    return FindingsView(
        shown=tuple(finding for index, finding in enumerate(findings) if index in shown),
        omitted=tuple(_omitted(kind) for kind in rest if kind),
    )


def _first(kind: Sequence[int]) -> Sequence[int]:
    return kind if len(kind) <= SAME_KIND else kind[:MOST_OF_A_KIND]


def _omitted(findings: Sequence[Finding]) -> str:
    """``1,995 more findings of memlock-limit (info), ranks 20, 24 and 1,993 more; such as "...": in result.json``."""
    first = findings[0]
    ranks = {rank for finding in findings for rank in finding.ranks}
    on = f", on {ranks_in_short(sorted(ranks))}" if ranks else ""
    name = printable(first.rule)
    return f"{counted(len(findings), 'more finding')} of {name}{on}, such as '{headline(first)}': in result.json"


def evidence_view(finding: Finding) -> tuple[tuple[Evidence, ...], str | None]:
    """Lines of evidence that are shown, and the sentence on the others."""
    more = len(finding.evidence) - MOST_EVIDENCE
    return finding.evidence[:MOST_EVIDENCE], f"{counted(more, 'further line')}: in diagnosis.json" if more > 0 else None
