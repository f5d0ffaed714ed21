"""The result of a study from its plan and its trials: status, problems, remarks, the answer and the verdict. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from raybench.documents.price import Price
from raybench.documents.run.same_loss import LossAgreement
from raybench.documents.study.plan import Study
from raybench.documents.study.result import Environment, Status, StudyResult, broken_trials
from raybench.documents.study.table import AnyAnswer
from raybench.documents.study.trial import TrialResult
from raybench.studies.communication import answer_communication
from raybench.studies.costs import Costing
from raybench.studies.network import answer_network
from raybench.studies.precision import answer_precision
from raybench.studies.same_losses import loss_agreements
from raybench.studies.scaling import answer_scaling
from raybench.studies.strategy import answer_strategy
from raybench.studies.sweep import answer_sweep
from raybench.studies.trial_findings import grave_text, grave_trials
from raybench.verdicts import Conclusion, Verdict

_LEAST_REPEATS = 3
_MOST_TOLD = 3

_ANSWERS: dict[str, Callable[[Study, Sequence[TrialResult], Costing], AnyAnswer]] = {
    "network": answer_network,
    "scaling": answer_scaling,
    "strategy": answer_strategy,
    "communication": answer_communication,
    "precision": answer_precision,
    "batch-size": answer_sweep,
    "model-size": answer_sweep,
}


def result_of(
    study_id: str, study: Study, trials: Sequence[TrialResult], *, price: Price | None = None, stopped: bool = False
) -> StudyResult:
    """Analyse the trials."""
    settings = study.settings
    costing = Costing(
        price=price,
        epoch_samples=settings.costed_samples,
        deadline_seconds=settings.deadline_seconds,
        budget=settings.budget,
    )
    answer = _ANSWERS[study.kind](study, trials, costing)
    losses = loss_agreements(study, trials)
    apart = [one.text for one in losses if one.verdict == "different"]
    problems = (*_wrong(trials), *answer.problems, *apart)
    status = _status(trials)
    conclusion = _conclusion(study, trials, answer, problems, stopped=stopped)
    measured = [one for one in trials if one.measured]
    return StudyResult(
        study_id=study_id,
        kind=study.kind,
        status=status,
        recorded_verdict=conclusion.verdict,
        recorded_reason=conclusion.reason,
        stopped=stopped,
        emulated=any(one.emulated for one in measured) if measured else None,
        started_at=min((one.started_at for one in trials if one.started_at), default=None),
        workload=study.workload,
        repeats=study.repeats,
        seed=study.seed,
        order=tuple(map(tuple, study.order())),
        settings=study.settings,
        variants=study.variants,
        environment=Environment(versions=measured[-1].versions if measured else {}),
        problems=problems,
        remarks=(*_remarks(study, trials, stopped=stopped), *answer.remarks, *_drifted(losses)),
        losses=losses,
        answer=answer,
        trials=tuple(trials),
    )


def _drifted(losses: Sequence[LossAgreement]) -> Iterator[str]:
    return (one.text for one in losses if one.verdict == "unknown")


def _wrong(trials: Sequence[TrialResult]) -> tuple[str, ...]:
    wrong = [one.trial.folder for one in trials if one.wrong]
    found = f"wrong results in {', '.join(wrong)}: their figures mean nothing, and are in no comparison"
    return (found,) if wrong else ()


def _status(trials: Sequence[TrialResult]) -> Status:
    """``failed`` where no trial measured anything."""
    if not any(one.measured for one in trials):
        return "failed"
    return "partial" if broken_trials(trials) else "complete"


def _conclusion(
    study: Study, trials: Sequence[TrialResult], answer: AnyAnswer, problems: Sequence[str], *, stopped: bool
) -> Conclusion:
    """The verdict: a problem, missing trials, the gravest trial, then the answer where it is certain."""
    if problems:
        return Conclusion(verdict="critical", reason=problems[0])
    grave = grave_trials(study, trials)
    beside = grave_text(grave, len(trials)) if grave else ""
    if _status(trials) != "complete":
        told = f"; {beside}" if grave and grave[0].gravity == "critical" else ""
        return Conclusion(verdict="incomplete", reason=f"{_gap(trials, stopped=stopped)}{told}")
    said, certain = answer.headline
    if grave:
        return Conclusion(verdict=grave[0].gravity, reason=f"{beside}; {said}")
    verdicts: dict[bool | None, Verdict] = {True: "ok", False: "warning", None: "unknown"}
    return Conclusion(verdict=verdicts[certain], reason=said)


def _gap(trials: Sequence[TrialResult], *, stopped: bool) -> str:
    complete = sum(one.status == "complete" for one in trials)
    kept = ", their results kept; --resume does the rest" if complete else ""
    why = "stopped by you" if stopped else _first_reason(trials)
    return f"{why}; {complete} of {len(trials)} trials complete{kept}"


def _first_reason(trials: Sequence[TrialResult]) -> str:
    told = next((one for one in trials if one.reason), None)
    return f"trial {told.trial.folder}: {told.reason}" if told else "trials are missing"


def _remarks(study: Study, outcomes: Sequence[TrialResult], *, stopped: bool = False) -> list[str]:
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
