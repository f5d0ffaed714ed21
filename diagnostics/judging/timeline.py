"""Findings of several files in the order of their time stamps, where the lines that they rest on carry them.

NCCL stamps warnings from 2.26.2 on (``[2026-01-02 03:04:05] host:...``), glog every line (``[E0102 03:04:05.678``),
kubectl and container runtimes write ISO 8601. A stamp in local time and one in UTC are never compared.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from diagnostics.events import Event
from diagnostics.findings import Finding

_HEAD_CHARACTERS = 120  # a stamp stands before the message, behind what a launcher puts in front
_STAMP = re.compile(
    r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"|(?P<local>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"|\[[EWIF](?P<glog>\d{3,4} \d\d:\d\d:\d\d\.\d{1,9})"
)


def stamp_of(text: str) -> tuple[str, str] | None:
    """(kind, time as text that sorts) of the first stamp in a line's head."""
    match = _STAMP.search(text[:_HEAD_CHARACTERS])
    if match is None or match.lastgroup is None:
        return None
    text = match[match.lastgroup].replace(",", ".")
    return match.lastgroup, text.zfill(len(text) + (text[3] == " "))  # PyTorch writes May the 13th as 513


def in_time_order(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with the ``sequence`` of those above info such that it follows their earliest stamps.

    Reading order stays where all rest on one file, and where one of them has no stamp or one of another kind.
    """
    faults = [finding for finding in findings if finding.severity != "info"]
    times = [_earliest(finding) for finding in faults]
    stamped = [time for time in times if time is not None]
    files = {evidence.file for finding in faults for evidence in finding.evidence}
    if len(files) < 2 or len(stamped) < len(faults) or len({kind for kind, _ in stamped}) > 1:
        return list(findings)
    order = sorted(range(len(faults)), key=lambda number: (stamped[number], faults[number].sequence))
    first = min(finding.sequence for finding in faults)  # several may rest on one line: each gets a place of its own
    timed = {id(faults[number]): sequence for sequence, number in enumerate(order, start=first)}
    return [replace(finding, sequence=timed.get(id(finding), finding.sequence)) for finding in findings]


def is_shown_before(first: Event, second: Event) -> bool:
    """Whether a log shows that a line was printed before another: by their times, else as lines of one rank.

    Where what several ranks printed stands in one file, one rank's may stand behind another's.
    """
    stamps = stamp_of(first.text), stamp_of(second.text)
    if (shown := _is_earlier(*stamps)) is not None:
        return shown
    speakers = first.origin.process or first.origin.rank, second.origin.process or second.origin.rank
    same = first.origin.file == second.origin.file and speakers[0] is not None and speakers[0] == speakers[1]
    return same and first.origin.line < second.origin.line


def behind_causes(findings: Sequence[Finding], victim_of: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """The findings, each behind those that it is a victim of, unless the log shows that it came first."""
    critical = {finding.rule: finding for finding in findings if finding.severity == "critical"}
    moved = []
    for finding in findings:
        causes = [critical[rule] for rule in victim_of.get(finding.rule, ()) if rule in critical]
        behind = [cause.sequence + 1 for cause in causes if not _came_first(finding, cause)]
        moved.append(replace(finding, sequence=max(finding.sequence, *behind)) if behind else finding)
    return moved


def _came_first(finding: Finding, cause: Finding) -> bool:
    if (shown := _is_earlier(_earliest(finding), _earliest(cause))) is not None:
        return shown
    return finding.sequence < cause.sequence and not set(finding.ranks).isdisjoint(cause.ranks)


def _is_earlier(first: tuple[str, str] | None, second: tuple[str, str] | None) -> bool | None:
    """Whether a stamp is before another; None where they cannot be compared: glog's have no year."""
    if first is None or second is None or ("iso" in (first[0], second[0]) and first[0] != second[0]):
        return None
    texts = [_without_year(kind, text) if first[0] != second[0] else text for kind, text in (first, second)]
    return None if {text[:2] for text in texts} == {"01", "12"} else texts[0] < texts[1]


def _without_year(kind: str, text: str) -> str:
    """``0102 03:04:05`` of either kind of local time."""
    return text[:13] if kind == "glog" else f"{text[5:7]}{text[8:10]} {text[11:19]}"


def _earliest(finding: Finding) -> tuple[str, str] | None:
    stamps = [stamp_of(evidence.text) for evidence in finding.evidence]
    known = [stamp for stamp in stamps if stamp is not None]
    one_kind = len({kind for kind, _ in known}) == 1
    return min(known) if known and one_kind and len(known) == len(stamps) else None
