"""Files for monitoring and CI, written whole or not at all."""

from pathlib import Path

from raybench.documents.preflight import PreflightReport
from raybench.errors import IncompleteRunError, UsageError
from raybench.nodes.intent import Policy, intents_of
from raybench.nodes.junit import junit
from raybench.nodes.prometheus import exposition
from raybench.whole_file import write_whole

_READABLE = 0o644  # the collector runs as another user


def prometheus_text(report: PreflightReport) -> str:
    """The text of a report for Prometheus. Raises UsageError for a report of before nodes had states."""
    intents_of(report, Policy())
    return exposition(report)


def junit_text(report: PreflightReport) -> str:
    """The report as JUnit XML. Raises UsageError for a report of before nodes had states."""
    intents_of(report, Policy())
    return junit(report)


def check_prometheus_name(path: Path) -> None:
    """Raises UsageError for a file that the collector would not read."""
    if path.suffix != ".prom":
        raise UsageError(f"{path} does not end in .prom: the textfile collector reads no other file")


def write_prometheus(report: PreflightReport, path: Path) -> None:
    """Put the text into the collector's folder, readable for all. Raises UsageError, IncompleteRunError."""
    check_prometheus_name(path)
    write_file(path, prometheus_text(report), mode=_READABLE)


def write_file(path: Path, text: str, *, mode: int | None = None) -> None:
    """Put a text into the place of a file, all at once. Raises IncompleteRunError."""
    try:
        write_whole(path, text)
        if mode is not None:
            path.chmod(mode)
    except OSError as error:
        raise IncompleteRunError(f"{path} cannot be written: {error.strerror or error}") from error
