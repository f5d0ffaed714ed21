"""What is wrong with a study's complete trials by their findings: it is as grave as its gravest trial. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from diagnostics.findings import Finding
from raybench.documents.study.plan import Study, Variant
from raybench.documents.study.trial import TrialResult

Gravity = Literal["critical", "unknown", "warning"]
_GRAVEST_FIRST: tuple[Gravity, ...] = ("critical", "unknown", "warning")

# By variable: findings that only say that it is set. Where a variant sets it, that is what the study is to measure.
_PLANNED: Mapping[str, frozenset[str]] = {
    "NCCL_IB_DISABLE": frozenset({"rdma-disabled-by-env"}),
    "NCCL_NET": frozenset({"rdma-disabled-by-env"}),
    "NCCL_NET_GDR_LEVEL": frozenset({"gdr-level-lowered", "gdr-missing"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GraveTrial:
    """A complete trial whose run does not end in ``ok``, and the first of the findings that make it so."""

    folder: str
    gravity: Gravity
    finding: str

    @property
    def text(self) -> str:
        """``trial 003-ddp: rank 2 (node1) works at 0.55 of the others' speed``."""
        return f"trial {self.folder}: {self.finding}"


def grave_trials(study: Study, outcomes: Sequence[TrialResult]) -> tuple[GraveTrial, ...]:
    """The complete trials in which something is wrong or nothing could be judged, the gravest first."""
    found = [
        grave
        for outcome in outcomes
        if outcome.status == "complete" and (grave := _grave(outcome, study.variant(outcome.trial.variant)))
    ]
    return tuple(sorted(found, key=lambda one: _GRAVEST_FIRST.index(one.gravity)))


def grave_text(trials: Sequence[GraveTrial], total: int) -> str:
    """The gravest trial with its finding, and how many more there are."""
    more = len(trials) - 1
    return trials[0].text + (f" ({more + 1} of {total} trials have findings)" if more else "")


def _grave(outcome: TrialResult, variant: Variant) -> GraveTrial | None:
    planned = frozenset().union(*(rules for name, rules in _PLANNED.items() if name in _variables(variant)))
    findings = [one for one in outcome.findings if one.rule not in planned]
    for gravity in _GRAVEST_FIRST:
        said = [_summary(one) for one in findings if one.severity == gravity]
        if not said and outcome.verdict == gravity and (gravity == "unknown" or not outcome.findings):
            said = [outcome.verdict_reason or f"its verdict is {gravity}"]
        if said:
            return GraveTrial(folder=outcome.trial.folder, gravity=gravity, finding=said[0])
    return None


def _variables(variant: Variant) -> Iterator[str]:
    """Names of the environment variables that the variant's command sets."""
    for before, word in zip(variant.arguments, variant.arguments[1:], strict=False):
        if before == "--env":
            yield word.partition("=")[0]


def _summary(finding: Finding) -> str:
    return finding.summary or finding.rule or "a finding without a summary"
