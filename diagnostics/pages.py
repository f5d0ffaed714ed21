"""The pages of the rules: for ``--explain`` and for docs/findings.md, both from the rules themselves."""

import json
from functools import cache
from pathlib import Path

from diagnostics.judging.recommendations import recommend
from diagnostics.rules import load_rules, rule_named
from diagnostics.rules.base import Rule

SAMPLES = Path(__file__).parent / "rules" / "samples.json"  # written by tests/diagnostics/samples.py
_HEADER = """# What the diagnosis can find

Generated from the rules in `diagnostics/rules` by `python -m diagnostics.pages`; do not edit.
`raybench diagnose --explain RULE` prints one page. Ids are stable. A missing log line is never evidence:
where a log cannot tell, the diagnosis says so.
"""


def page(rule_id: str) -> str:
    """The page of one rule. Raises UnknownRuleError."""
    return _page(rule_named(rule_id))


def findings_document() -> str:
    """docs/findings.md: a table of all rules, then their pages."""
    rows = [f"| [{rule.id}](#{rule.id}) | {rule.title} | {rule.severity} |" for rule in load_rules()]
    table = "\n".join(["| id | finding | severity |", "|---|---|---|", *rows])
    return "\n\n".join([_HEADER.rstrip(), table, *(_page(rule).rstrip() for rule in load_rules())]) + "\n"


def rule_list() -> str:
    """One line a rule."""
    width = max(len(rule.id) for rule in load_rules())
    return "".join(f"{rule.id.ljust(width)}  {rule.title}\n" for rule in load_rules())


def _page(rule: Rule) -> str:
    title, _, rest = rule.page.partition("\n")
    parts = [f"## {rule.id}", title.strip(), rest.strip(), f"Severity: {rule.severity}."]
    if "Severity:" in rest:
        parts.pop()
    if lines := _samples().get(rule.id):
        parts += ["Lines that it rests on, by release of NCCL where that is known:", _sample_lines(lines)]
    return "\n\n".join([*parts, "What to do:", _advice(rule)]) + "\n"


@cache
def _samples() -> dict[str, list[tuple[str, str]]]:
    read: dict[str, list[tuple[str, str]]] = json.loads(SAMPLES.read_text(encoding="utf-8"))
    return read


def _sample_lines(lines: list[tuple[str, str]]) -> str:
    width = max(len(releases) for releases, _ in lines)
    return "\n".join(f"    {releases.ljust(width)}  {text}" if width else f"    {text}" for releases, text in lines)


def _advice(rule: Rule) -> str:
    blocks = []
    for action in recommend(rule.actions, frozenset()):
        link = f" See <{action.link}>." if action.link else ""
        commands = "".join(f"\n      {command}" for command in action.commands)
        blocks.append(f"- {action.text}{link}" + (f"\n{commands}" if commands else ""))
    return "\n\n".join(blocks)


if __name__ == "__main__":
    import sys

    sys.stdout.write(findings_document())
