"""Every rule is in the registry once, is made in one place, and every finding is made by a rule of the registry."""

import ast
import functools
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import get_args

import pytest

from diagnostics.finding_rule import FindingRule
from diagnostics.pages import page_of
from diagnostics.rules import load_rules
from raybench.execution.incidents import incident
from raybench.finding_rules import fabric, incidents
from raybench.finding_rules.registry import all_rules, own_rules
from raybench.finding_rules.rule import MeasuredRule
from raybench.preflight.fabric import suspects

ROOT = Path(__file__).parents[2]
# Where a Finding is made: by a rule of the registry, and by a rule of logs, whose id the engine fills in.
MAKERS = {"diagnostics/finding_rule.py", "diagnostics/rules/base.py"}
BY_KIND = {*incidents.RULES, *fabric.RULES}  # looked up by the kind of an incident or of a suspect


# What makes a finding, or asks for a rule, has one of these in its text: the others are not parsed.
WORDS = re.compile(r"\bFinding\b|\bseverity\b|\bfinding_rules\b|\brule_named\b")


@functools.cache
def sources() -> tuple[tuple[str, ast.Module], ...]:
    files = (path for package in ("raybench", "diagnostics") for path in sorted((ROOT / package).rglob("*.py")))
    texts = ((str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in files)
    return tuple((name, ast.parse(text)) for name, text in texts if WORDS.search(text))


def makes_findings(tree: ast.Module) -> bool:
    """Whether it makes a Finding without a rule of the registry, or one as a dictionary."""
    nodes = list(ast.walk(tree))
    calls = (node for node in nodes if isinstance(node, ast.Call))
    made = any(
        isinstance(call.func, ast.Name) and call.func.id == "Finding" and _names_its_rule(call) for call in calls
    )
    dictionaries = (node for node in nodes if isinstance(node, ast.Dict))
    keys = ({key.value for key in one.keys if isinstance(key, ast.Constant)} for one in dictionaries)
    return made or any({"rule", "severity"} <= found for found in keys)


def _names_its_rule(call: ast.Call) -> bool:
    return any(keyword.arg == "rule" for keyword in call.keywords)


def rules_of(tree: ast.Module) -> set[str]:
    """Rules that a module makes findings of: constants of the registry that it imports, and ids that it asks for."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raybench.finding_rules."):
            found |= {alias.name for alias in node.names if alias.name.isupper()}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "rule_named":
            found |= {one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found


def constants() -> dict[str, MeasuredRule]:
    """Rules of the registry by the name of their constant."""
    return {
        name: value
        for path in (ROOT / "raybench" / "finding_rules").glob("*.py")
        for name, value in vars(__import__(f"raybench.finding_rules.{path.stem}", fromlist=["_"])).items()
        if isinstance(value, MeasuredRule) and name.isupper()
    }


def test_each_id_is_in_the_registry_once() -> None:
    assert [rule_id for rule_id, times in Counter(rule.id for rule in all_rules()).items() if times > 1] == []


def test_findings_are_made_by_rules_of_the_registry_only() -> None:
    made = {name for name, tree in sources() if makes_findings(tree)}
    assert made - {"diagnostics/findings.py"} == MAKERS  # which writes one as JSON


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ('Finding(rule="made-up", severity="info")', True),
        ('found = {"rule": "made-up", "severity": "info"}', True),
        ('SLOW_NODE.finding(severity="info")', False),
        ('row = {"rule": "tcp-fallback", "why": "x"}', False),
    ],
)
def test_a_finding_of_no_rule_would_be_seen(source: str, seen: bool) -> None:
    assert makes_findings(ast.parse(source)) is seen


def test_each_rule_of_a_run_has_one_place_that_makes_its_findings() -> None:
    places = defaultdict(set)
    for name, tree in sources():
        if not name.startswith("raybench/finding_rules/"):
            for rule in rules_of(tree) - {"RULES"}:
                places[rule].add(name)
    by_constant = {name for name, rule in constants().items() if rule not in BY_KIND}
    in_runs = {rule.id for rule in load_rules() if rule.run_actions}
    assert set(places) == by_constant | in_runs, "a rule that nothing makes, or that is in no table"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
    assert {rule.id for rule in own_rules()} == {rule.id for rule in constants().values()} | {
        rule.id for rule in BY_KIND
    }


def test_the_rules_of_incidents_and_suspects_are_their_kinds() -> None:
    kinds = set(get_args(incident.Kind))
    assert kinds == {rule.id for rule in incidents.RULES} | set(incidents.SHARED_WITH_LOGS)
    assert {f"fabric-{kind}" for kind in get_args(suspects.Kind)} == {rule.id for rule in fabric.RULES}
    in_runs = {rule.id for rule in load_rules() if rule.in_runs}
    assert in_runs == set(incidents.SHARED_WITH_LOGS) | {rule.id for rule in load_rules() if rule.run_actions}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_page_says_what_it_means_what_proves_it_and_what_to_do(rule: FindingRule) -> None:
    text = page_of(rule)
    for part in ("Symptom:", "Why", "Not when:", "Source:", "Severity:", "What to do:\n\n- "):
        assert part in text, part
    assert rule.severities
    assert rule.advice
