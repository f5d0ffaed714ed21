"""What NCCL logs prove, read once or followed as they grow, and the exit code that this is worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from raybench.errors import UsageError

if TYPE_CHECKING:
    from diagnostics.findings import Diagnosis, Finding

FailOn = Literal["critical", "warning", "never"]
_FAILING = {"critical": ("critical",), "warning": ("critical", "warning"), "never": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedDiagnosis:
    """What logs prove, with names replaced where that was asked for. ``refusal``: why there is nothing to judge."""

    diagnosis: "Diagnosis"
    exit_code: int
    refusal: str = ""


def diagnose(paths: Sequence[str | Path], *, fail_on: FailOn = "warning", redact: bool = False) -> FinishedDiagnosis:
    """Diagnose files, folders, globs or ``-``. Raises UsageError where none of them can be read."""
    from diagnostics.engine import diagnose_paths
    from diagnostics.errors import UnreadableInputError

    try:
        diagnosis = diagnose_paths(paths)
    except UnreadableInputError as error:
        raise UsageError(str(error)) from error
    return _finished(diagnosis, fail_on, _shown(redact=redact))


def follow(
    paths: Sequence[str | Path],
    on_news: "Callable[[Diagnosis, Diagnosis], None]",
    *,
    waiting: Callable[[], None],
    fail_on: FailOn = "warning",
    redact: bool = False,
) -> FinishedDiagnosis:
    """Diagnose logs as they grow, until interrupted. ``waiting`` is called while there is nothing to read.

    ``on_news`` gets the diagnosis with its new findings only, then whole. Raises UsageError for standard input.
    """
    from dataclasses import replace

    from diagnostics.follow import follow as follow_logs

    if "-" in paths:
        raise UsageError("--follow reads files, not standard input")
    shown = _shown(redact=redact)  # one for all reports: a stand-in keeps its meaning

    def report(diagnosis: "Diagnosis", new: "Sequence[Finding]") -> None:
        on_news(shown(replace(diagnosis, findings=tuple(new))), shown(diagnosis))

    return _finished(follow_logs(paths, report, waiting=waiting), fail_on, shown)


def rule_page(rule: str | None) -> str:
    """The page of one rule, or the list of all. Raises UsageError for a rule that there is not."""
    from raybench.finding_rules.registry import page, rule_list

    return page(rule) if rule else rule_list()


def exit_code_of(diagnosis: "Diagnosis", fail_on: FailOn = "warning") -> int:
    """1 for a finding that is severe enough, 2 where there is nothing to judge, 3 where the logs do not tell, else 0.

    3 is also that of logs which were not read to their end.
    """
    if diagnosis.empty:
        return 2
    if any(finding.severity in _FAILING[fail_on] for finding in diagnosis.findings):
        return 1
    unknown = any(job.verdict == "unknown" or job.not_shown for job in diagnosis.jobs or (diagnosis,))
    return 3 if diagnosis.notes or unknown else 0


def _finished(diagnosis: "Diagnosis", fail_on: FailOn, shown: "Callable[[Diagnosis], Diagnosis]") -> FinishedDiagnosis:
    return FinishedDiagnosis(
        diagnosis=shown(diagnosis),
        exit_code=exit_code_of(diagnosis, fail_on),
        refusal=f"nothing to judge: {diagnosis.explanation}" if diagnosis.empty else "",
    )


def _shown(*, redact: bool) -> "Callable[[Diagnosis], Diagnosis]":
    """What a diagnosis is shown as: itself, or with stand-ins for names that keep their meaning from call to call."""
    if not redact:
        return lambda diagnosis: diagnosis
    from functools import partial

    from diagnostics.redaction import Redactor, redact_diagnosis

    return partial(redact_diagnosis, redactor=Redactor())
