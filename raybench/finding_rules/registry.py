"""The table of all rules, and its pages: for ``raybench diagnose --explain`` and docs/findings.md.

``python -m raybench.finding_rules.registry > docs/findings.md`` writes the document.
"""

from collections.abc import Sequence

from diagnostics.agent.rules import live_rules
from diagnostics.finding_rule import FindingRule
from diagnostics.pages import list_of, page_of, table_of
from diagnostics.rules import load_rules
from raybench.errors import UsageError, nearest
from raybench.finding_rules import (
    bandwidth,
    fabric,
    incidents,
    isolation,
    live,
    nodes,
    peers,
    ports,
    preflight,
    samples,
    workloads,
)

_HEADER = """# What raybench can find

Generated from the rules in `diagnostics/rules`, `diagnostics/agent/rules` and `raybench/finding_rules` by
`python -m raybench.finding_rules.registry`; do not edit. `raybench diagnose --explain RULE` prints one page. Ids are
stable. A missing log line is never evidence: where a log cannot tell, the diagnosis says so."""
_OWN = (bandwidth, peers, isolation, workloads, samples, nodes, incidents, live, fabric, ports, preflight)


def own_rules() -> tuple[FindingRule, ...]:
    """The rules of what raybench itself measures."""
    return tuple(rule for module in _OWN for rule in module.RULES)


def all_rules() -> tuple[FindingRule, ...]:
    """Every rule, those of logs first."""
    return (*load_rules(), *own_rules(), *live_rules())


def page(rule_id: str) -> str:
    """The page of one rule. Raises UsageError for a rule that there is not."""
    rules = {rule.id: rule for rule in all_rules()}
    if rule_id in rules:
        return page_of(rules[rule_id])
    near = nearest(rule_id, rules)
    meant = f": did you mean '{near[0]}'?" if near else ";"
    raise UsageError(f"there is no rule '{rule_id}'{meant} `raybench diagnose --list-rules` shows them all")


def rule_list() -> str:
    """One line a rule."""
    return list_of(all_rules())


def findings_document() -> str:
    """docs/findings.md: tables of all rules, then their pages."""
    return (
        "\n\n".join(
            [
                _HEADER,
                "## In logs\n\nFound by `raybench diagnose`, and after each run in its logs.",
                table_of(load_rules()),
                "## In runs, trainings and fabrics\n\nFound by `raybench` itself, without any log.",
                table_of(own_rules()),
                "## On a node, while it works\n\nFound by the agent, beside each run and by `raybench agent`.",
                table_of(live_rules()),
                *_pages(all_rules()),
            ]
        )
        + "\n"
    )


def _pages(rules: Sequence[FindingRule]) -> list[str]:
    return [page_of(rule).rstrip() for rule in rules]


if __name__ == "__main__":
    import sys

    sys.stdout.write(findings_document())
