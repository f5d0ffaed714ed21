"""The preflight whose verdicts are acted on: read, and not older than may be acted on."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from raybench.documents.loading import document_file
from raybench.documents.part import read_as
from raybench.documents.preflight import PreflightReport
from raybench.errors import UsageError

_MOST_AHEAD_SECONDS = 300.0  # clocks of two machines


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOptions:
    """How verdicts are acted on.

    ``most_drained``: how many nodes raybench may have drained at a time, as ``12`` or ``10%`` of the scheduler's nodes;
    ``force``: any number. ``max_age_seconds``: an older report is not applied. ``resume_degraded``: nodes that are
    degraded are given back, too. ``by_hostname``: hosts may say which node they are.
    """

    apply: bool = False
    force: bool = False
    most_drained: str = "10%"
    max_age_seconds: float = 3600.0
    resume_degraded: bool = False
    by_hostname: bool = False


def read_report(path: Path) -> PreflightReport:
    """The report in a file or in a preflight's folder. Raises DocumentError, a UsageError."""
    return read_as(PreflightReport, document_file(path) if not path.is_dir() else path / "preflight.json", "the report")


def check_age(report: PreflightReport, most_seconds: float, now: datetime | None = None) -> None:
    """Raises UsageError for a report that is too old to act on, or from the future."""
    seconds = ((now or datetime.now(UTC)) - finished_at(report)).total_seconds()
    if seconds > most_seconds:
        raise UsageError(
            f"the report is {seconds / 60:.0f} min old, and nodes may have changed since: run preflight again, or say "
            "--max-age"
        )
    if seconds < -_MOST_AHEAD_SECONDS:
        raise UsageError(f"the report is of {report.finished_at}, which is to come: compare the clocks of the machines")


def finished_at(report: PreflightReport) -> datetime:
    """When the hosts had been judged. Raises UsageError for a time that cannot be read."""
    try:
        found = datetime.fromisoformat(report.finished_at)
    except ValueError as error:
        raise UsageError(f"the report's finished_at {report.finished_at[:40]!r} is not a time") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
