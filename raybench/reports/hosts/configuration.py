"""What configuring hosts did, as text: hosts that fared alike on one line, then what is left for a person to do."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from raybench.documents.configuration import Configuration, HostConfiguration, ItemOutcome
from raybench.reports.text import printable
from raybench.unreachable import reason_lines

_MARKS = {"changed": "changed", "right": "right", "skipped": "skipped", "conflict": "LEFT", "failed": "FAILED"}
_LEFT: tuple[tuple[Callable[[ItemOutcome], tuple[str, ...]], str], ...] = (
    (attrgetter("reboot"), "Needs a reboot, which raybench leaves to you"),
    (attrgetter("pending"), "In force later"),
    (attrgetter("conflicts"), "Left alone"),
    (attrgetter("advice"), "Advice"),
    (attrgetter("notes"), "Notes"),
)


def configuration_lines(report: Configuration, *, diff: bool = False) -> Iterator[str]:
    """Lines for a terminal. Nothing that a host said can send a control character."""
    for line in _lines(report, diff=diff):
        yield printable(line)


def _lines(report: Configuration, *, diff: bool) -> Iterator[str]:
    hosts = report.hosts
    for item in dict.fromkeys(one.item for host in hosts for one in host.items):
        yield from _item_lines(item, hosts)
    if diff:
        yield from _diff_lines(hosts)
    silent = [(host.name, host.unreachable) for host in hosts if host.unreachable is not None]
    yield from (f"{'' if line[0] == ' ' else 'MISSING':8} {line}" for line in reason_lines(silent))
    for texts_of, title in _LEFT:
        texts = _by_text(hosts, texts_of)
        if texts:
            yield f"{title}:"
            yield from (f"  {text} [{_names(names, len(hosts))}]" for text, names in texts.items())
    yield _last_line(report)


def _item_lines(item: str, hosts: Sequence[HostConfiguration]) -> Iterator[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for outcome in host.items:
            if outcome.item == item:
                alike.setdefault((outcome.verdict, outcome.summary), []).append(host.name)
    for (verdict, how), names in alike.items():
        yield f"{_MARKS[verdict]:8} {item} [{_names(names, len(hosts))}]{': ' if how else ''}{how}"


def _diff_lines(hosts: Sequence[HostConfiguration]) -> Iterator[str]:
    alike: dict[tuple[str, str, str], list[str]] = {}
    for host in hosts:
        for edit in (edit for outcome in host.items for edit in outcome.edits):
            alike.setdefault(edit, []).append(host.name)
    for (header, before, after), names in alike.items():
        yield f"--- {header} [{_names(names, len(hosts))}]"
        changes = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
        yield from (f"  {line}" for line in list(changes)[2:])


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


def _last_line(report: Configuration) -> str:
    changed = sum(any(item.changes for item in host.items) for host in report.hosts)
    verb = {
        ("configure", False): "changed",
        ("configure", True): "would change",
        ("rollback", False): "rolled back",
        ("rollback", True): "would roll back",
    }[report.action, report.check]
    error = f"; {_one_line(report.error)}" if report.error else ""
    return f"# {verb} {changed} of {len(report.hosts)} hosts{error}"
