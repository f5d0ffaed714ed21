"""A study as its result file holds it: the plan, the order, every trial, the answer. Pure.

Schema ``raybench.study-result/1``: keys are added, never renamed or removed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from raybench.performance_model.cost import Price
from raybench.studies.costs import COSTED_SAMPLES, Costing
from raybench.studies.design import Study
from raybench.studies.network import answer_network
from raybench.studies.outcome import Outcome
from raybench.studies.scaling import answer_scaling
from raybench.studies.strategy import answer_strategy
from raybench.studies.sweep import answer_sweep
from raybench.studies.trial_findings import grave_text, grave_trials
from raybench.verdicts import Conclusion, Verdict

SCHEMA = "raybench.study-result/1"
_UNDECIDED = ("inconclusive", "no verdict")
_LEAST_REPEATS = 3
_MOST_TOLD = 3


class Answer(Protocol):
    """What the trials of a kind of study say. ``problems`` make the command end with 1, ``remarks`` do not."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with what was compared."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know."""

    def to_json(self) -> dict[str, Any]:
        """As in the result file."""


_ANSWERS: dict[str, Callable[[Study, Sequence[Outcome], Costing], Answer]] = {
    "network": answer_network,
    "scaling": answer_scaling,
    "strategy": answer_strategy,
    "batch-size": answer_sweep,
    "model-size": answer_sweep,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """A study and what came of it. ``stopped``: somebody ended it before its last trial."""

    study_id: str
    study: Study
    outcomes: tuple[Outcome, ...]
    answer: Answer
    stopped: bool = False

    @property
    def broken(self) -> tuple[Outcome, ...]:
        """Trials that doing them again may answer."""
        return tuple(outcome for outcome in self.outcomes if not outcome.answered and not self._skipped(outcome))

    def _skipped(self, outcome: Outcome) -> bool:
        """Whether the trial was left out since its variant is known not to fit."""
        fitting = {other.trial.variant for other in self.outcomes if other.does_not_fit}
        return outcome.status == "missing" and outcome.trial.variant in fitting

    @property
    def status(self) -> str:
        """``complete``, ``partial``, or ``failed`` where no trial measured anything."""
        if not any(outcome.measured for outcome in self.outcomes):
            return "failed"
        return "partial" if self.broken else "complete"

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes the command end with 1."""
        wrong = [outcome.trial.folder for outcome in self.outcomes if outcome.wrong]
        found = f"wrong results in {', '.join(wrong)}: their figures mean nothing, and are in no comparison"
        return (*((found,) if wrong else ()), *self.answer.problems)

    @property
    def conclusion(self) -> Conclusion:
        """The verdict: a problem, missing trials, the gravest trial, then the answer where it is certain."""
        if self.problems:
            return Conclusion(verdict="critical", reason=self.problems[0])
        grave = grave_trials(self.study, self.outcomes)
        beside = grave_text(grave, len(self.outcomes)) if grave else ""
        if self.broken or self.status == "failed":
            told = f"; {beside}" if grave and grave[0].gravity == "critical" else ""
            return Conclusion(verdict="incomplete", reason=f"{self._gap()}{told}")
        answer, sure = headline(self.study.kind, self.answer.to_json())
        if grave:
            return Conclusion(verdict=grave[0].gravity, reason=f"{beside}; {answer}")
        verdicts: dict[bool | None, Verdict] = {True: "ok", False: "warning", None: "unknown"}
        return Conclusion(verdict=verdicts[sure], reason=answer)

    def _gap(self) -> str:
        complete = sum(outcome.status == "complete" for outcome in self.outcomes)
        kept = ", their results kept; --resume does the rest" if complete else ""
        why = "stopped by you" if self.stopped else self._first_reason()
        return f"{why}; {complete} of {len(self.outcomes)} trials complete{kept}"

    def _first_reason(self) -> str:
        told = next((one for one in self.outcomes if one.reason), None)
        return f"trial {told.trial.folder}: {told.reason}" if told else "trials are missing"

    @property
    def exit_code(self) -> int:
        """That of the verdict."""
        return self.conclusion.exit_code

    def to_json(self) -> dict[str, Any]:
        """The whole result."""
        measured = [outcome for outcome in self.outcomes if outcome.measured]
        started = sorted(outcome.started_at for outcome in self.outcomes if outcome.started_at)
        return {
            "schema": SCHEMA,
            "study_id": self.study_id,
            "kind": self.study.kind,
            "status": self.status,
            "verdict": self.conclusion.verdict,
            "verdict_reason": self.conclusion.reason,
            "stopped": self.stopped,
            "emulated": any(outcome.emulated for outcome in measured) if measured else None,
            "started_at": started[0] if started else None,
            "workload": list(self.study.workload),
            "repeats": self.study.repeats,
            "seed": self.study.seed,
            "order": self.study.order(),
            "settings": dict(self.study.settings),
            "variants": [
                {"name": one.name, "arguments": list(one.arguments), "facts": dict(one.facts)}
                for one in self.study.variants
            ],
            "environment": {"versions": dict(measured[-1].versions) if measured else {}},
            "problems": list(self.problems),
            "remarks": [*_remarks(self.study, self.outcomes, stopped=self.stopped), *self.answer.remarks],
            "answer": self.answer.to_json(),
            "trials": [outcome.to_json() for outcome in self.outcomes],
        }


def result_of(
    study_id: str, study: Study, outcomes: Sequence[Outcome], *, price: Price | None = None, stopped: bool = False
) -> StudyResult:
    """Analyse the trials."""
    costing = Costing(price=price, epoch_samples=study.settings.get("epoch_samples") or COSTED_SAMPLES)
    answer = _ANSWERS[study.kind](study, outcomes, costing)
    return StudyResult(study_id=study_id, study=study, outcomes=tuple(outcomes), answer=answer, stopped=stopped)


def headline(kind: str, answer: Mapping[str, Any]) -> tuple[str, bool | None]:
    """The answer in a line, and whether it is certain; None where there is nothing to compare."""
    if kind == "network":
        said = [f"{one['network']} {one['verdict']}" for one in answer["speedups"]]
        if all(one["verdict"].startswith("no verdict") for one in answer["speedups"]):
            return "; ".join(said) or "nothing can be compared", None
        return "; ".join(said), not any(one["verdict"].startswith(_UNDECIDED) for one in answer["speedups"])
    if kind == "scaling":
        said = [f"{mode['mode']} scaling: {mode['advice'][0]}" for mode in answer["modes"] if mode["advice"]]
        return (
            ("; ".join(said), not any("likely" in one for one in said)) if said else ("nothing can be compared", None)
        )
    if answer["recommended"] is None:
        return answer["why"], None
    sure = bool(answer.get("certain", "likely only" not in answer["why"]))
    return f"{'' if sure else 'likely '}use {answer['recommended']}: {answer['why']}", sure


def _remarks(study: Study, outcomes: Sequence[Outcome], *, stopped: bool = False) -> list[str]:
    remarks = []
    measured = [outcome for outcome in outcomes if outcome.measured]
    unfit = {outcome.trial.variant for outcome in outcomes if outcome.does_not_fit}
    remarks += [f"{name} does not fit into memory" for name in unfit]
    broken = [one for one in outcomes if one.status != "complete" and one.trial.variant not in unfit]
    if stopped:  # whoever stopped it knows why they are not complete
        broken = [one for one in broken if one.reason and "stopped by you" not in one.reason]
    remarks += [
        f"trial {one.trial.folder} is {one.status}: {one.reason or 'it was not begun'}" for one in broken[:_MOST_TOLD]
    ]
    if len(broken) > _MOST_TOLD:
        remarks.append(f"{len(broken) - _MOST_TOLD} more trials are not complete")
    if study.repeats < _LEAST_REPEATS:
        remarks.append(
            f"fewer than {_LEAST_REPEATS} repeats: no useful interval; --resume with --repeats 5 goes on from here"
        )
    differing = _differing([outcome.versions for outcome in measured])
    if differing:
        remarks.append(f"trials were done with different versions of {', '.join(differing)}: they may not compare")
    if study.kind != "scaling" and len({frozenset(outcome.nodes) for outcome in measured}) > 1:
        remarks.append("trials were done on different nodes: differences may be the nodes'")
    return remarks


def _differing(versions: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for one in versions for name in one)
    return [name for name in names if len({one.get(name) for one in versions}) > 1]
