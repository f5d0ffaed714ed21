"""Replaces host names and addresses in a diagnosis, the same name by the same stand-in throughout."""

import re
from dataclasses import replace
from pathlib import PurePath

from diagnostics.findings import Diagnosis, Evidence, Finding, RankRow

_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:(?=[0-9A-Fa-f:]{0,38}::)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}"
    r"|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7})"
    r"(?:%\w+)?(?![\w:])"
)
_PREFIX_HOST = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]*)(?=:\d+:\d+ ?\[)")
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)
_KEPT = frozenset({"0.0.0.0", "127.0.0.1", "::", "::1"})  # noqa: S104 - not an address to listen on


class Redactor:
    """Gives each name its stand-in: ``host-1``, ``ip-1``. One for a whole diagnosis."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self._stand_ins: dict[str, str] = {}
        for host in sorted(hosts):
            self._stand_in(host, "host")

    def text(self, text: str) -> str:
        """The text with every known host, prefixed host and address replaced."""
        text = _PREFIX_HOST.sub(lambda match: self._stand_in(match[1], "host"), text)
        text = _MAC.sub(lambda match: self._stand_in(match[0], "mac"), text)
        text = _IPV4.sub(lambda match: self._stand_in(match[0], "ip"), text)
        text = _IPV6.sub(lambda match: self._stand_in(match[0], "ip"), text)
        for host in sorted(
            (name for name, new in self._stand_ins.items() if new.startswith("host-")), key=len, reverse=True
        ):
            text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", self._stand_ins[host], text)
        return text

    def _stand_in(self, name: str, kind: str) -> str:
        if name in _KEPT or (name.startswith(("host-", "ip-")) and name in self._stand_ins.values()):
            return name
        if name not in self._stand_ins:
            number = 1 + sum(new.startswith(f"{kind}-") for new in self._stand_ins.values())
            self._stand_ins[name] = f"{kind}-{number}"
        return self._stand_ins[name]


def redact_diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without names of machines. File names keep their last part only, itself redacted."""
    hosts = {row.host for row in diagnosis.ranks if row.host}
    hosts.update(host for finding in diagnosis.findings for host in finding.hosts)
    redactor = Redactor(tuple(host for host in hosts if host))
    findings = tuple(_finding(finding, redactor) for finding in diagnosis.findings)
    return replace(
        diagnosis,
        explanation=redactor.text(diagnosis.explanation),
        ranks=tuple(_row(row, redactor) for row in diagnosis.ranks),
        findings=findings,
        notes=tuple(_note(note, redactor) for note in diagnosis.notes),
    )


def _finding(finding: Finding, redactor: Redactor) -> Finding:
    return replace(
        finding,
        summary=redactor.text(finding.summary),
        explanation=redactor.text(finding.explanation),
        hosts=tuple(redactor.text(host) for host in finding.hosts),
        evidence=tuple(_evidence(evidence, redactor) for evidence in finding.evidence),
        victims=tuple(_evidence(evidence, redactor) for evidence in finding.victims),
    )


def _evidence(evidence: Evidence, redactor: Redactor) -> Evidence:
    return replace(evidence, file=_file(evidence.file, redactor), text=redactor.text(evidence.text))


def _row(row: RankRow, redactor: Redactor) -> RankRow:
    return replace(row, host=redactor.text(row.host) if row.host else None)


def _file(file: str, redactor: Redactor) -> str:
    name = PurePath(file).name
    parts = re.split(r"([._])", name)  # nccl.<host>.<pid>.log: the host stands between dots
    return redactor.text("".join(redactor.text(part) for part in parts))


def _note(note: str, redactor: Redactor) -> str:
    file, separator, rest = note.partition(": ")
    return f"{_file(file, redactor)}{separator}{redactor.text(rest)}"
