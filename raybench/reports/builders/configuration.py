"""What configuring hosts did: hosts that fared alike on one line, then what is left for a person to do. Pure."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from raybench.documents.configuration import Configuration, HostConfiguration, ItemOutcome
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Note, Notes, Preformatted, Report
from raybench.unreachable import reason_lines

_MARKS = {"changed": "changed", "right": "right", "skipped": "skipped", "conflict": "LEFT", "failed": "FAILED"}
_TONES = {"conflict": "warn", "failed": "bad", "skipped": "soft"}
_LEFT: tuple[tuple[Callable[[ItemOutcome], tuple[str, ...]], str], ...] = (
    (attrgetter("reboot"), "Needs a reboot, which raybench leaves to you"),
    (attrgetter("pending"), "In force later"),
    (attrgetter("conflicts"), "Left alone"),
    (attrgetter("advice"), "Advice"),
    (attrgetter("notes"), "Notes"),
)


def configuration_report(report: Configuration, asked: Asked) -> Report:
    """The report; ``asked.diff`` with each change of a file."""
    name = f"raybench {report.action}"
    items = dict.fromkeys(one.item for host in report.hosts for one in host.items)
    notes = (*(note for item in items for note in _item_notes(item, report.hosts)), *_left_notes(report.hosts))
    return Report(
        name=name,
        title=name,
        verdict=report.verdict,
        reason=_sum(report),
        lead="",
        when="",
        blocks=(*(_diff_blocks(report.hosts) if asked.diff else ()), *((Notes(items=notes),) if notes else ())),
    )


def _left_notes(hosts: Sequence[HostConfiguration]) -> Iterator[Note]:
    """Hosts that did not answer, and what is left for a person to do."""
    silent = [(host.name, host.unreachable) for host in hosts if host.unreachable is not None]
    for line in reason_lines(silent):
        yield Note(text=f"{'' if line[0] == ' ' else 'MISSING':8} {line}", tone="bad")
    for texts_of, title in _LEFT:
        texts = _by_text(hosts, texts_of)
        if texts:
            yield Note(text=f"{title}:")
        yield from (Note(text=f"  {text} [{_names(names, len(hosts))}]") for text, names in texts.items())


def _item_notes(item: str, hosts: Sequence[HostConfiguration]) -> Iterator[Note]:
    alike: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for outcome in host.items:
            if outcome.item == item:
                alike.setdefault((outcome.verdict, outcome.summary), []).append(host.name)
    for (verdict, how), names in alike.items():
        text = f"{_MARKS[verdict]:8} {item} [{_names(names, len(hosts))}]{': ' if how else ''}{how}"
        yield Note(text=text, tone=_TONES.get(verdict, ""))


def _diff_blocks(hosts: Sequence[HostConfiguration]) -> Iterator[Block]:
    alike: dict[tuple[str, str, str], list[str]] = {}
    for host in hosts:
        for edit in (edit for outcome in host.items for edit in outcome.edits):
            alike.setdefault(edit, []).append(host.name)
    for (header, before, after), names in alike.items():
        yield Preformatted(text=f"--- {header} [{_names(names, len(hosts))}]")
        changes = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
        yield from (Preformatted(text=f"  {line}") for line in list(changes)[2:])


def _by_text(
    hosts: Sequence[HostConfiguration], texts_of: Callable[[ItemOutcome], tuple[str, ...]]
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host in hosts:
        for text in dict.fromkeys(text for outcome in host.items for text in texts_of(outcome)):
            found.setdefault(_one_line(text), []).append(host.name)
    return found


def _names(names: list[str], of: int) -> str:
    if len(names) == of and of > 1:
        return f"all {of} hosts"
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _sum(report: Configuration) -> str:
    changed = sum(any(item.changes for item in host.items) for host in report.hosts)
    verb = {
        ("configure", False): "changed",
        ("configure", True): "would change",
        ("rollback", False): "rolled back",
        ("rollback", True): "would roll back",
    }[report.action, report.check]
    return f"{verb} {changed} of {len(report.hosts)} hosts{''.join(f'; {part}' for part in _lacking(report))}"


def _lacking(report: Configuration) -> Iterator[str]:
    """What was not done."""
    for verdict, words in (("failed", "failed on"), ("conflict", "left alone on")):
        names = [host.name for host in report.hosts if any(item.verdict == verdict for item in host.items)]
        if names:
            yield f"{words} {_names(names, len(report.hosts))}"
    silent = [host.name for host in report.hosts if host.unreachable is not None]
    if silent:
        yield f"no answer of {_names(silent, len(report.hosts))}"
    if report.error:
        yield _one_line(report.error)
