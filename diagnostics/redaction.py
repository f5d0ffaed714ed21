"""Replaces what identifies a site in a diagnosis, such as names and addresses, each by one stand-in throughout."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from diagnostics.findings import CannotTell, Diagnosis, Evidence, Finding, RankRow
from diagnostics.identifying import KINDS
from diagnostics.known_words import is_known

_PATTERN = re.compile("|".join(f"(?P<{kind}{number}>{text})" for number, (kind, text) in enumerate(KINDS)))
_KEY = re.compile(r"(?i:bearer|basic) |[\w-]*[\"']?(?:=|: ?)[\"']?")  # what names a secret
_ADDRESS = re.compile(r"[\d.]+|[0-9A-Fa-f:%]*:[\w:%.]*")
_KEPT = frozenset({"0.0.0.0", "127.0.0.1", "::", "::1", "localhost"})  # noqa: S104 - not an address to listen on
_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9]*")
# what a file may be called without saying whose it is
_FILE_WORDS = frozenset(
    {
        "bz2", "csv", "debug", "dump", "err", "error", "gid", "guid", "gz", "host", "ip", "job", "json",
        "launcher", "log", "logs", "mac", "main", "name", "nccl", "node", "old", "out", "output", "path",
        "pickle", "pkl", "pod", "python", "rank", "rccl", "run", "slurm", "stderr", "stdin", "stdout",
        "text", "torch", "trace", "train", "txt", "user", "worker", "xz", "zst",
    }
)  # fmt: skip
_WORD = re.compile(r"\w+(?:-+\w+)*(?P<list>\[\d+[,-][\d,-]+\])?")
_SOURCE = re.compile(r"\.(?:cc|cpp|cuh?|c|hpp|h)\b")
_IDENTIFIER = re.compile(r"(?=.*[a-z_][A-Z_])[A-Za-z_]+")  # no host is written so
_BUS = ("busId ", "CUDA device ", "device at ")
_PLACE_OF_BUS = re.compile(r".*\d\[[0-9a-f]{4,8}\]")  # "157[b2000]", a rank and the bus of its GPU
_LEVEL = re.compile(r"[IWEF]\d{3}")  # of a logger, with the month and the day: "[W112 01:48:44"
_HEAD_OF_NAME = 2  # a shorter host name is replaced only where its place shows what it is


class Redactor:
    """Gives each name its stand-in: ``host-1``, ``ip-1``. One for a whole diagnosis, or for all of one log."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._known: re.Pattern[str] | None = None

    def learn(self, hosts: set[str]) -> None:
        """Take up the names of hosts, in order of their names."""
        for host in sorted(hosts):
            self.host(host)

    def host(self, name: str) -> str:
        """The stand-in of a host, which may be known by its address only."""
        return self.text(name) if _ADDRESS.fullmatch(name) else self._stand_in(name, "host")

    def name(self, word: str) -> str:
        """The stand-in of a word in the name of a file."""
        return self._stand_in(word, "name")

    def text(self, text: str) -> str:
        """The text without hosts, addresses and words that may be of the site. Not for a text that it gave."""
        return self._replaced(text, self._without_unknown_words)

    def places(self, text: str) -> str:
        """The text without known hosts, and without what its place or its form shows to be a name or an address."""
        return self._replaced(text, str)

    def _replaced(self, text: str, between: Callable[[str], str]) -> str:
        parts, end = list[str](), 0
        for match in (self._known or self._compiled()).finditer(text):
            parts += (between(text[end : match.start()]), self._replacement(match))
            end = match.end()
        return "".join((*parts, between(text[end:])))

    def _without_unknown_words(self, text: str) -> str:
        return _WORD.sub(self._word, text)

    def _word(self, match: re.Match[str]) -> str:
        """A word as it is where it says nothing of a site; or its place shows that it is no name."""
        word = match[0].removesuffix(match["list"] or "")
        if match["list"] and not is_known(word):
            return self.name(match[0])
        return match[0] if is_known(word) or _says_what_it_is(match) else self.name(word)

    def _replacement(self, match: re.Match[str]) -> str:
        kind = (match.lastgroup or "known").rstrip("0123456789")
        if kind == "secret":  # without a number: who sees two reports must not see that they hold the same one
            named = _KEY.match(match[0])
            return f"{named[0] if named else ''}secret"
        return self._stand_in(match[0], "host" if kind == "known" else kind)

    def _compiled(self) -> re.Pattern[str]:
        """The places that show a name, then the names that are known, with their domain; the longest first."""
        names = {name.split(".")[0] for name, new in self._stand_ins.items() if new.startswith("host-")}
        plain = sorted((n for n in names if len(n) >= _HEAD_OF_NAME and not n.isdigit()), key=lambda n: (-len(n), n))
        known = rf"|(?<![A-Za-z0-9])(?P<known>{'|'.join(map(re.escape, plain))})(?![A-Za-z0-9])" if plain else ""
        self._known = re.compile(_PATTERN.pattern + known)
        return self._known

    def _stand_in(self, name: str, kind: str) -> str:
        if kind == "host":
            name = name.split(".", maxsplit=1)[0]  # as NCCL cuts it
        if name in _KEPT:
            return name
        if name not in self._stand_ins:
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            self._stand_ins[name] = f"{kind}-{self._numbers[kind]}"
            self._known = None if kind == "host" else self._known
        return self._stand_ins[name]


def _says_what_it_is(match: re.Match[str]) -> bool:
    """Whether the place shows an identifier of a program, ``c10d::Work``, ``run_all(``, ``in train_step``, or a bus."""
    word, text = match[0], match.string
    if text.endswith(_BUS, 0, match.start()) or _SOURCE.match(text, match.end()):
        return True
    if _PLACE_OF_BUS.fullmatch(text, max(0, match.start() - 3), match.end() + 1) or _is_level(match):
        return True
    if word.startswith("lib") and text.startswith(".so", match.end()):
        return True
    before, after = text[max(0, match.start() - 5) : match.start()], text[match.end() : match.end() + 2]
    if before.endswith("::") or after == "::":
        return "-" not in word
    return (after[:1] == "(" and _IDENTIFIER.fullmatch(word) is not None) or (
        before.endswith(", in ") and "-" not in word
    )


def _is_level(match: re.Match[str]) -> bool:
    """Whether a word is the level and the date of a line of PyTorch's logger."""
    text, end = match.string, match.end()
    return bool(_LEVEL.fullmatch(match[0])) and text[end : end + 1] == " " and text[end + 3 : end + 4] == ":"


def redact_diagnosis(diagnosis: Diagnosis, redactor: Redactor | None = None) -> Diagnosis:
    """The diagnosis without names of machines. File names keep their last part only, itself redacted.

    The same ``redactor`` for the diagnoses of a growing log keeps the stand-ins the same.
    """
    redactor = redactor or Redactor()
    hosts = {row.host for row in diagnosis.ranks if row.host}
    hosts.update(host for finding in diagnosis.findings for host in finding.hosts)
    hosts.update(row.host for job in diagnosis.jobs for row in job.ranks if row.host)  # jobs are named after some
    redactor.learn(hosts)
    for finding in diagnosis.findings:  # a file may be named after a host that only a later line shows
        for evidence in (*finding.evidence, *finding.victims):
            redactor.text(evidence.text)
    redactor.text(diagnosis.explanation)  # may name a host before it quotes the line that shows it
    return replace(
        diagnosis,
        explanation=_explanation(diagnosis, redactor),
        not_shown=redactor.text(diagnosis.not_shown),
        ranks=tuple(_row(row, redactor) for row in diagnosis.ranks),
        findings=tuple(_finding(finding, redactor) for finding in diagnosis.findings),
        rules_cannot_tell=tuple(
            CannotTell(rule=unsure.rule, why=_why(unsure.why, diagnosis, redactor))
            for unsure in diagnosis.rules_cannot_tell
        ),
        notes=tuple(_note(note, redactor) for note in diagnosis.notes),
        job=_file(diagnosis.job, redactor) if diagnosis.job else "",
        jobs=tuple(redact_diagnosis(job, redactor) for job in diagnosis.jobs),
    )


def _explanation(diagnosis: Diagnosis, redactor: Redactor) -> str:
    """The reason of a verdict, which names the job that it is about."""
    for job in sorted((one.job for one in diagnosis.jobs), key=len, reverse=True):
        before, named, after = diagnosis.explanation.partition(f" {job}: ")
        if named:
            return f"{redactor.text(before)} {_file(job, redactor)}: {redactor.text(after)}"
    return redactor.text(diagnosis.explanation)


def _why(why: str, diagnosis: Diagnosis, redactor: Redactor) -> str:
    """Why a rule cannot tell; of several jobs it begins with the one that it is about."""
    for job in sorted((one.job for one in diagnosis.jobs), key=len, reverse=True):
        if why.startswith(f"{job}: "):
            return f"{_file(job, redactor)}: {redactor.text(why[len(job) + 2 :])}"
    return redactor.text(why)


def _finding(finding: Finding, redactor: Redactor) -> Finding:
    return replace(
        finding,
        summary=redactor.text(finding.summary),
        explanation=redactor.text(finding.explanation),
        hosts=tuple(redactor.host(host) for host in finding.hosts),
        evidence=tuple(_evidence(evidence, redactor) for evidence in finding.evidence),
        victims=tuple(_evidence(evidence, redactor) for evidence in finding.victims),
        job=_file(finding.job, redactor) if finding.job else "",
    )


def _evidence(evidence: Evidence, redactor: Redactor) -> Evidence:
    return replace(evidence, file=_file(evidence.file, redactor), text=redactor.text(evidence.text))


def _row(row: RankRow, redactor: Redactor) -> RankRow:
    return replace(row, host=redactor.host(row.host) if row.host else None)


def _file(file: str, redactor: Redactor) -> str:
    """The last part of a path: ``nccl-<host>-10.0.0.1.log``, ``<host>.123.log``."""
    name = PurePath(file).name
    parts = re.split(r"((?:\d{1,3}\.){3}\d{1,3})", name)  # an address ends before ".log", and one may follow "-"
    return "".join(_without_names(redactor.places(part), redactor) for part in parts)


def _without_names(text: str, redactor: Redactor) -> str:
    """A part of a file's name without words that may be the name of a job or a user."""
    return _TOKEN.sub(lambda match: match[0] if _says_nothing(match[0]) else redactor.name(match[0]), text)


def _says_nothing(word: str) -> bool:
    return word.lower().rstrip("0123456789") in _FILE_WORDS or len(word) == 1


def _note(note: str, redactor: Redactor) -> str:
    file, separator, rest = note.partition(": ")
    return f"{_file(file, redactor)}{separator}{redactor.text(rest)}"
