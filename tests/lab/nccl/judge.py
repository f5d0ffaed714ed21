"""What ``raybench diagnose`` says of a scenario's log, against what it must say."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from raybench.cli.diagnose import command

from .scenario import UNASKED, Scenario, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The document of a diagnosis, and the exit status of the command."""

    document: dict[str, Any]
    exit_code: int

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings above info, the first on top."""
        return [finding for finding in self.document["findings"] if finding["severity"] != "info"]


def diagnose(log: Path) -> Said:
    """Run ``raybench diagnose LOG --format json``."""
    result = CliRunner().invoke(command, [str(log), "--format", "json"])
    if result.exit_code not in (0, 1, 3):
        raise AssertionError(f"raybench diagnose ended with {result.exit_code}: {result.output}")
    return Said(document=json.loads(result.stdout), exit_code=result.exit_code)


def shows_fault(scenario: Scenario, log: str) -> bool:
    """Whether the log has what proves that the fault struck."""
    return re.search(scenario.proof, log) is not None


def differences(verdict: Verdict, said: Said) -> list[str]:
    """What is wrong with what was said; empty where all of it is right."""
    rules = [finding["rule"] for finding in said.findings]
    every = {finding["rule"] for finding in said.document["findings"]}
    wrong = [f"{rule} is not found" for rule in verdict.also if rule not in every]
    wrong += [f"{rule} must not be said" for rule in verdict.never if rule in rules]
    wrong += [f"{rule} must not be said at info" for rule in verdict.silent if rule in every]
    if (rules[0] if rules else None) != verdict.top:
        wrong.append(f"on top is {rules[0] if rules else 'nothing'}, not {verdict.top or 'nothing'}; all: {rules}")
    elif rules and verdict.says not in said.findings[0]["summary"]:
        wrong.append(f"'{verdict.says}' is not in '{said.findings[0]['summary']}'")
    for key in ("network", "gdr", "tcp_fallback"):
        asked = getattr(verdict, key)
        if asked != UNASKED and said.document[key] != asked:
            wrong.append(f"{key} is {said.document[key]}, not {asked}")
    if said.exit_code != verdict.exit_code:
        wrong.append(f"exit status {said.exit_code}, not {verdict.exit_code}")
    return wrong
