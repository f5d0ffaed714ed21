"""Every case of every rule: ``cases/<rule>/<case>/{input.log,expected.json}``.

``expected.json``: ``fires`` (is the folder's rule among the findings), its ``severity``, a part of its ``summary``
and what is ``unsaid`` in it; ``verdict`` and its ``network``, ``gdr``, ``tcp_fallback``; ``also`` and ``never`` (other
rules); ``cannot_tell``; ``one_critical``; ``top`` (the folder's rule is the first finding); ``provenance`` of the log.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.judging import judgement
from diagnostics.rules import RULE_IDS, load_rules
from diagnostics.rules.base import Outcome

CASES = sorted(Path(__file__).parent.glob("cases/*/*/input.log"))


@pytest.mark.parametrize("log", CASES, ids=lambda log: f"{log.parts[-3]}/{log.parts[-2]}")
def test_case(log: Path) -> None:
    expected = json.loads((log.parent / "expected.json").read_text())
    rule = log.parts[-3]
    diagnosis = diagnose_paths([log])
    findings = {finding.rule: finding for finding in diagnosis.findings}
    assert (rule in findings) is expected["fires"], [finding.summary for finding in diagnosis.findings]
    if expected["fires"]:
        assert findings[rule].severity == expected.get("severity", findings[rule].severity)
        assert expected.get("summary", "") in findings[rule].summary
        assert "unsaid" not in expected or expected["unsaid"] not in findings[rule].summary
        assert findings[rule].evidence, "a finding quotes the lines it rests on"
        assert findings[rule].recommendations
    for key in ("network", "gdr", "tcp_fallback", "verdict"):
        if key in expected:
            assert getattr(diagnosis, key) == expected[key], key
    assert set(expected.get("also", ())) <= set(findings)
    assert not set(expected.get("never", ())) & set(findings)
    assert set(expected.get("cannot_tell", ())) <= {unsure.rule for unsure in diagnosis.rules_cannot_tell}
    if expected.get("top"):
        assert diagnosis.findings[0].rule == rule
    if expected.get("one_critical"):
        assert [finding.severity for finding in diagnosis.findings].count("critical") == 1
    assert not [unsure for unsure in diagnosis.rules_cannot_tell if "error in the rule" in unsure.why]


@pytest.mark.parametrize("rule", RULE_IDS)
def test_rule_has_a_case_that_fires_and_a_near_miss(rule: str) -> None:
    folder = Path(__file__).parent / "cases" / rule
    answers = {json.loads((log.parent / "expected.json").read_text())["fires"] for log in folder.glob("*/input.log")}
    assert True in answers, f"add a log in which it fires: tests/diagnostics/cases/{rule}/CASE/input.log, expected.json"
    assert False in answers, f"add a near miss: tests/diagnostics/cases/{rule}/CASE/input.log, expected.json"


def test_every_case_has_a_log_and_what_is_expected_of_it() -> None:
    folders = [path for path in Path(__file__).parent.glob("cases/*/*") if path.is_dir()]
    lacking = [
        str(folder / name)
        for folder in folders
        for name in ("input.log", "expected.json")
        if not (folder / name).is_file()
    ]
    assert lacking == []


def test_every_folder_of_cases_is_a_rule() -> None:
    assert {log.parts[-3] for log in CASES} <= set(RULE_IDS)


def test_where_a_rule_breaks_a_log_is_not_shown_to_be_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Outcome:
        raise IndexError("no such member")

    logs = [log for log in CASES if json.loads((log.parent / "expected.json").read_text()).get("verdict") == "ok"]
    assert diagnose_paths(logs[:1]).verdict == "ok"
    rules = [replace(rule, check=broken) if rule.id == "straggler" else rule for rule in load_rules()]
    monkeypatch.setattr(judgement, "load_rules", lambda: rules)
    diagnosis = diagnose_paths(logs[:1])
    assert diagnosis.verdict == "unknown"
    assert "the rule straggler could not be asked: error in the rule: IndexError" in diagnosis.explanation
