"""Findings of several files in the order of their time stamps, where the lines that they rest on carry them.

NCCL stamps warnings from 2.26.2 on (``[2026-01-02 03:04:05] host:...``), glog every line (``[E0102 03:04:05.678``),
kubectl and container runtimes write ISO 8601. A stamp in local time and one in UTC are never compared.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from diagnostics.findings import Finding

_HEAD_CHARACTERS = 120  # a stamp stands before the message, behind what a launcher puts in front
_STAMP = re.compile(
    r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"|(?P<local>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"|\[[EWIF](?P<glog>\d{4} \d\d:\d\d:\d\d\.\d{1,9})"
)


def stamp_of(text: str) -> tuple[str, str] | None:
    """(kind, time as text that sorts) of the first stamp in a line's head."""
    match = _STAMP.search(text[:_HEAD_CHARACTERS])
    if match is None or match.lastgroup is None:
        return None
    return match.lastgroup, match[match.lastgroup].replace(",", ".")


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


def _earliest(finding: Finding) -> tuple[str, str] | None:
    stamps = [stamp_of(evidence.text) for evidence in finding.evidence]
    known = [stamp for stamp in stamps if stamp is not None]
    one_kind = len({kind for kind, _ in known}) == 1
    return min(known) if known and one_kind and len(known) == len(stamps) else None
