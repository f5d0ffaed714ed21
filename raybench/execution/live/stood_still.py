"""The finding of a rank that stood still for a time, or again and again."""

from diagnostics.findings import Finding
from raybench.finding_rules.live import RANK_STALLED

RULE, SEVERITY = RANK_STALLED.id, RANK_STALLED.severities[0]


def stood_still(rank: int, node: str, summary: str, since: float, until: float | None) -> Finding:
    """``since`` and ``until`` are seconds after the run's start; None where it did to the end."""
    end = f" to {until:.1f} s" if until is not None else " s on"
    return RANK_STALLED.finding(
        confidence="certain",
        summary=summary,
        explanation=f"From {since:.1f}{end} after the start of the run; the other ranks waited for "
        "it, and figures of that time are not the cluster's.",
        ranks=(rank,),
        hosts=(node,),
        recommendations=RANK_STALLED.advise(),
    )
