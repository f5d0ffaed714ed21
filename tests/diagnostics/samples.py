"""Sample lines of each rule by release, for its page: ``python -m tests.diagnostics.samples`` writes them anew.

They are what the rules quote of the wordings in ``bodies`` and of the cases, so that no page shows a line that its rule
does not find.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diagnostics.engine import diagnose_paths
from diagnostics.facts import version_numbers
from diagnostics.findings import Diagnosis
from diagnostics.pages import SAMPLES
from diagnostics.rules import RULE_IDS
from tests.diagnostics.parsers.bodies import bodies
from tests.diagnostics.threads import diagnose

MAX_LINES = 5  # of a rule
MAX_CHARACTERS = 150
MAX_EVIDENCE = 2  # of a case
_CASES = Path(__file__).parent / "cases"
_BESIDE = frozenset({"run-failed", "unclassified-warning", "log-too-quiet", "log-truncated"})
_MARK = re.compile(r"^.*?CCL (?:INFO|WARN) ")
_SHAPE = re.compile(r"0x[0-9a-f]+|[\d.]+|\b\w*\d\w*\b")


@dataclass(slots=True)
class Wording:
    """One wording: its first sample, and the releases whose logs have it."""

    text: str
    releases: set[str] = field(default_factory=set)
    span: str = ""  # the releases whose sources have it, where that is known

    @property
    def label(self) -> str:
        """Where it was seen."""
        if self.span or not self.releases:
            return self.span
        ordered = sorted(self.releases, key=lambda release: version_numbers(release) or (0, 0, 0))
        return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def samples() -> dict[str, list[list[str]]]:
    """Rule to pairs of releases and line, those of known releases first."""
    found: dict[str, dict[str, Wording]] = defaultdict(dict)
    for rule, text, span in _of_wordings():
        found[rule].setdefault(_shape(text), Wording(text, span=span))
    for rule, text, release in _of_cases():
        wording = found[rule].setdefault(_shape(text), Wording(text))
        wording.releases |= {release} if release else set()
    return {rule: _chosen(list(found[rule].values())) for rule in RULE_IDS if found[rule]}


def _chosen(wordings: list[Wording]) -> list[list[str]]:
    first = sorted(wordings, key=lambda wording: not wording.label)[:MAX_LINES]
    return [[wording.label, wording.text] for wording in first]


def _of_wordings() -> Iterator[tuple[str, str, str]]:
    """Rule, line and releases of each wording that a rule quotes."""
    for body in bodies():
        diagnosis = diagnose(f"n1:4101:4141 [3] misc/socket.cc:50 NCCL WARN {body.text}\n")
        span = f"{body.first} to {body.last}" if body.last else f"{body.first} and newer"
        for finding in diagnosis.findings:
            if finding.rule not in _BESIDE and finding.evidence:
                yield finding.rule, _cut(body.text), span


def _of_cases() -> Iterator[tuple[str, str, str]]:
    """Rule, line and release (empty where the log does not tell) of what each case's rule quotes."""
    for log in sorted(_CASES.glob("*/*/input.log")):
        if json.loads((log.parent / "expected.json").read_text())["fires"]:
            diagnosis = diagnose_paths([log])
            release = _release(diagnosis)
            for text in _quoted(diagnosis, log.parts[-3]):
                yield log.parts[-3], _cut(_MARK.sub("", text)), release


def _quoted(diagnosis: Diagnosis, rule: str) -> list[str]:
    return [
        line.text for finding in diagnosis.findings if finding.rule == rule for line in finding.evidence[:MAX_EVIDENCE]
    ]


def _release(diagnosis: Diagnosis) -> str:
    numbers = version_numbers(diagnosis.nccl_versions[0]) if len(diagnosis.nccl_versions) == 1 else None
    return ".".join(map(str, numbers)) if numbers else ""


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def _shape(text: str) -> str:
    return _SHAPE.sub("", text)


def written() -> str:
    """The file's content."""
    return json.dumps(samples(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SAMPLES.write_text(written(), encoding="utf-8")
