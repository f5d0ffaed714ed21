"""Samples that other tools took of a run's nodes become those of the run: joined, judged, kept beside its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.node_samples import FILE, NodeSamples
from raybench.documents.run.result import RunResult, result_file
from raybench.errors import MissingLibraryError, UsageError
from raybench.installation import install_advice
from raybench.services.show import kept_run
from raybench.timeline.importing.formats import format_of
from raybench.timeline.importing.nodes import imported_samples
from raybench.timeline.importing.sample import ImportedFileError, Sample, Told
from raybench.timeline.judging import RULES, with_samples
from raybench.verdicts import Verdict
from raybench.whole_file import write_whole

_MOST_BYTES = 256 * 2**20
_GRAVER: Mapping[Verdict, tuple[str, ...]] = {
    "critical": ("ok", "warning", "unknown"),
    "warning": ("ok",),
}  # verdicts that a finding makes worse


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """``node``: whose samples they are, where a file names no host. ``timezone``: that of times without one.

    ``begin`` and ``interval_seconds``: of files without times.
    """

    node: str | None = None
    timezone: str | None = None
    begin: str | None = None
    interval_seconds: float | None = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSamples:
    """The run as it is now. ``found``: what its samples show. ``omitted``: by file, what is no known series."""

    result: RunResult
    samples: NodeSamples
    found: tuple[Finding, ...]
    omitted: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1 where a finding of the samples is critical."""
        return int(any(one.severity == "critical" for one in self.found))


def import_samples(run: Path, files: Sequence[Path], options: ImportOptions) -> ImportedSamples:
    """Read the files, judge the run by them, keep both. Raises UsageError, with nothing written, where it cannot."""
    kept = kept_run(run)
    folder = result_file(run).parent
    if (folder / FILE).exists() and not options.overwrite:
        raise UsageError(f"{folder / FILE} is there already: --overwrite puts the new samples in its place")
    parsed = {str(path): _parsed(path, kept.result, options) for path in files}
    try:
        samples = imported_samples(kept.result, {name: samples for name, (samples, _) in parsed.items()})
    except ImportedFileError as error:
        raise ImportedFileError(f"{', '.join(parsed)}: {error}") from error
    joined = with_samples(kept.result, samples)
    found = tuple(one for one in joined.findings if one.rule in RULES)
    result = _concluded(joined, found)
    assert result.node_samples is not None
    remarks = _write(folder, run, result, kept.diagnosis)
    omitted = tuple(f"{name}: {', '.join(others)}" for name, (_, others) in parsed.items() if others)
    return ImportedSamples(result=result, samples=result.node_samples, found=found, omitted=omitted, remarks=remarks)


def _parsed(path: Path, result: RunResult, options: ImportOptions) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """The samples of a file, each with its host, and what it has beside them."""
    text, zone = _text(path), _zone(options.timezone)
    told = Told(
        zone=zone,
        begin=_begin(options.begin, zone),
        interval_seconds=options.interval_seconds,
        day=datetime.fromisoformat(result.started_at),
    )
    parsed = format_of(text, str(path)).parse(text, told, str(path))
    if options.node is None and all(one.host for one in parsed.samples):
        return parsed.samples, parsed.omitted
    node = _node(result, options.node, str(path))
    named = (one if one.host and options.node is None else replaced(one, host=node) for one in parsed.samples)
    return tuple(named), parsed.omitted


def _node(result: RunResult, node: str | None, where: str) -> str:
    names = [one.name for one in result.cluster.nodes]
    if node is None and len(names) == 1:
        return names[0]
    if node is None:
        raise UsageError(f"{where} does not say whose samples it has: give --node, one of {', '.join(names[:8])}")
    if node not in names:
        raise UsageError(f"--node {node} is not a node of the run; they are {', '.join(names[:8])}")
    return node


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} has more than {_MOST_BYTES // 2**20} MiB: give the time of the run only")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text: {error.reason} at byte {error.start}") from error


def _zone(name: str | None) -> tzinfo | None:
    """A zone by its name or offset. Raises UsageError for one that there is not."""
    if name is None:
        return None
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        if name[:1] in "+-":
            hours, _, minutes = name[1:].partition(":")
            return timezone(timedelta(hours=int(hours), minutes=int(minutes or 0)) * (-1 if name[0] == "-" else 1))
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError, OverflowError) as error:  # KeyError: ZoneInfoNotFoundError
        raise UsageError(f"--timezone {name} is none that is known: UTC, Europe/Berlin and +02:00 are") from error


def _begin(text: str | None, zone: tzinfo | None) -> datetime | None:
    if text is None:
        return None
    try:
        begin = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--begin {text} is not a time: 2026-11-23T02:00:12+00:00 is") from error
    if begin.tzinfo is None and zone is None:
        raise UsageError(f"--begin {text} has no zone: write it behind the time (+00:00), or give --timezone")
    return begin if begin.tzinfo is not None else begin.replace(tzinfo=zone)


def _concluded(result: RunResult, found: Sequence[Finding]) -> RunResult:
    """With the verdict that a graver finding of the samples gives it; else as it was."""
    for severity, better in _GRAVER.items():
        summaries = [one.summary for one in found if one.severity == severity]
        if summaries and result.conclusion.verdict in better:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            return replace(result, recorded_verdict=severity, recorded_reason=summaries[0] + more)
    conclusion = result.conclusion
    return replace(result, recorded_verdict=conclusion.verdict, recorded_reason=conclusion.reason)


def _write(folder: Path, run: Path, result: RunResult, diagnosis: Diagnosis | None) -> tuple[str, ...]:
    """The samples, then the result, then the report. Returns what could not be made."""
    from raybench.reports.html import write_html  # which brings jinja2

    assert result.node_samples is not None
    try:
        write_whole(folder / FILE, msgspec.json.encode(result.node_samples.to_json()))
        write_whole(result_file(run), msgspec.json.encode(result.to_json()))
        write_html(result, folder / "report.html", diagnosis)
    except MissingLibraryError:
        return (f"report.html is as it was: {install_advice('report')}",)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return ()
