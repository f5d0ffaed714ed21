"""Findings for tests, from as little of their JSON as a test is about."""

from typing import Any

from diagnostics.findings import Finding
from raybench.documents.part import part_of


def found(**content: Any) -> Finding:
    """A finding as a document has it."""
    return part_of(Finding, {"rule": "slow-node", "severity": "warning", "summary": "node b is slow"} | content, "it")
