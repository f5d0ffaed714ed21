"""A study as its result file holds it (``raybench.study-result/1``, ``study.json``): plan, order, trials, answer.

Keys are added, never renamed or removed.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import field

from raybench.documents.part import FieldwiseDocument, FieldwisePart, take
from raybench.documents.plain import Json
from raybench.documents.run.same_loss import LossAgreement
from raybench.documents.study.plan import Kind, Settings, Variant
from raybench.documents.study.table import TRIAL_COLUMNS, AnyAnswer, answer_columns, answer_rows, trial_rows
from raybench.documents.study.trial import TrialResult
from raybench.documents.table import dataframe
from raybench.verdicts import Conclusion, RunStatus, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

Status = RunStatus
_ANSWERS = {
    "batch-size": "sweep",
    "model-size": "sweep",
    "communication": "strategy",
    "precision": "strategy",
}  # else the kind itself
_NO_VERDICT = "it was written before studies had a verdict; 'raybench study show' on its folder makes one"


class Environment(FieldwisePart, frozen=True, kw_only=True):
    """Versions of the trial that was measured last."""

    versions: Mapping[str, str] = field(default_factory=dict)


class StudyResult(FieldwiseDocument, frozen=True, kw_only=True):
    """A study and what came of it. ``stopped``: somebody ended it before its last trial.

    ``emulated`` is None where nothing was measured. ``problems`` make the command end with 1, ``remarks`` are what a
    reader must know, ``losses`` are of variants that train the same thing. ``recorded_verdict`` is None of a study that
    was written before studies had one.
    """

    study_id: str
    kind: Kind
    status: Status
    recorded_verdict: Verdict | None = field(default=None, name="verdict")
    recorded_reason: str | None = field(default=None, name="verdict_reason")
    stopped: bool
    emulated: bool | None
    started_at: str | None
    workload: tuple[str, ...]
    repeats: int
    seed: int
    order: tuple[tuple[str, ...], ...]
    settings: Settings
    variants: tuple[Variant, ...]
    environment: Environment
    problems: tuple[str, ...]
    remarks: tuple[str, ...]
    losses: tuple[LossAgreement, ...] = ()
    answer: AnyAnswer
    trials: tuple[TrialResult, ...]
    SCHEMA: ClassVar[str] = "raybench.study-result/1"

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The answer is marked with the kind of study. Raises DamageError for a kind that is none."""
        kind, answer = take(content, "kind", of=Kind), content.get("answer")
        if not isinstance(answer, dict) or kind is None:
            return content  # the conversion says what it should be
        return content | {"answer": answer | {"+kind": _ANSWERS.get(kind, kind)}}

    @property
    def conclusion(self) -> Conclusion:
        """The verdict and its reason. Of a study that has none nothing is fine."""
        if self.recorded_verdict is not None:
            return Conclusion(verdict=self.recorded_verdict, reason=self.recorded_reason or "")
        if self.problems:
            return Conclusion(verdict="critical", reason=self.problems[0])
        return Conclusion(verdict="unknown" if self.status == "complete" else "incomplete", reason=_NO_VERDICT)

    @property
    def exit_code(self) -> int:
        """That of the verdict."""
        return self.conclusion.exit_code

    def to_dataframe(self, of: Literal["rows", "trials"] = "rows") -> "DataFrame":
        """A row of the answer's table, or a row a figure of a trial (docs/api.md). Raises MissingLibraryError."""
        if of == "trials":
            return dataframe(trial_rows(self.trials), TRIAL_COLUMNS)
        return dataframe(answer_rows(self.answer), answer_columns(self.answer))

    @property
    def broken(self) -> tuple[TrialResult, ...]:
        """Trials that doing them again may answer."""
        return broken_trials(self.trials)


def broken_trials(trials: Sequence[TrialResult]) -> tuple[TrialResult, ...]:
    """Trials that doing them again may answer: not those left out since their variant is known not to fit."""
    unfit = {one.trial.variant for one in trials if one.does_not_fit}
    return tuple(
        one for one in trials if not one.answered and not (one.status == "missing" and one.trial.variant in unfit)
    )
