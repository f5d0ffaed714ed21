"""The pages of the rules: for ``--explain`` and for docs/findings.md, both from the rules themselves."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from diagnostics.finding_rule import FindingRule

SAMPLES = Path(__file__).parent / "rules" / "samples.json"  # written by tests/diagnostics/samples.py


def page_of(rule: FindingRule) -> str:
    """The page of a rule: what it means, what proves it, and what to do."""
    title, _, rest = rule.page.partition("\n")
    parts = [f"## {rule.id}", title.strip(), rest.strip(), f"Severity: {rule.severity}."]
    if "Severity:" in rest:
        parts.pop()
    if lines := _samples().get(rule.id):
        parts += ["Lines that it rests on, by release of NCCL where that is known:", _sample_lines(lines)]
    return "\n\n".join([*parts, "What to do:", _advice(rule)]) + "\n"


def table_of(rules: Iterable[FindingRule]) -> str:
    """A Markdown table of rules, each with a link to its page."""
    rows = [f"| [{rule.id}](#{rule.id}) | {rule.title} | {rule.severity} |" for rule in rules]
    return "\n".join(["| id | finding | severity |", "|---|---|---|", *rows])


def list_of(rules: Iterable[FindingRule]) -> str:
    """One line a rule."""
    listed = tuple(rules)
    width = max(len(rule.id) for rule in listed)
    return "".join(f"{rule.id.ljust(width)}  {rule.title}\n" for rule in listed)


@cache
def _samples() -> dict[str, list[tuple[str, str]]]:
    read: dict[str, list[tuple[str, str]]] = json.loads(SAMPLES.read_text(encoding="utf-8"))
    return read


def _sample_lines(lines: list[tuple[str, str]]) -> str:
    width = max(len(releases) for releases, _ in lines)
    return "\n".join(f"    {releases.ljust(width)}  {text}" if width else f"    {text}" for releases, text in lines)


def _advice(rule: FindingRule) -> str:
    blocks = []
    for action in rule.advice:
        link = f" See <{action.link}>." if action.link else ""
        commands = "".join(f"\n      {command}" for command in action.commands)
        blocks.append(f"- {action.text}{link}" + (f"\n{commands}" if commands else ""))
    return "\n\n".join(blocks)
