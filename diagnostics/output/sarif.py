"""SARIF 2.1.0, as code-scanning services read it: one result a finding, one location a quoted line.

Where the log does not show the job working, and what could not be read, is said by notifications of the invocation: a
document without results is not one of a job that works.
"""

import json
from typing import Any

from diagnostics.findings import Diagnosis, Evidence, Finding
from diagnostics.rules import rule_named

_LEVEL = {"critical": "error", "warning": "warning", "info": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(diagnosis: Diagnosis) -> str:
    """The whole document."""
    ids = list(dict.fromkeys(finding.rule for finding in diagnosis.findings))
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "raybench diagnose", "rules": [_rule(rule_id) for rule_id in ids]}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notifications(diagnosis)}],
                "results": [_result(finding, ids.index(finding.rule)) for finding in diagnosis.findings],
                "properties": {
                    "verdict": diagnosis.verdict,
                    "network": diagnosis.network,
                    "gdr": diagnosis.gdr,
                    "tcp_fallback": diagnosis.tcp_fallback,
                },
            }
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _notifications(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """What is left open, of each job by its name, and notes on the reading."""
    jobs = diagnosis.jobs or (diagnosis,)
    told = [
        f"{one.job + ': ' if one.job else ''}unknown: {one.explanation}" for one in jobs if one.verdict == "unknown"
    ]
    told += [note for one in (diagnosis, *diagnosis.jobs) for note in one.notes]
    return [{"level": "warning", "message": {"text": text}} for text in dict.fromkeys(told)]


def _rule(rule_id: str) -> dict[str, Any]:
    rule = rule_named(rule_id)
    return {"id": rule.id, "shortDescription": {"text": rule.title}, "fullDescription": {"text": rule.page}}


def _result(finding: Finding, index: int) -> dict[str, Any]:
    advice = " ".join(action.text for action in finding.recommendations)
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVEL[finding.severity],
        "message": {"text": f"{finding.summary}. {finding.explanation} {advice}".strip()},
        "locations": [_location(evidence) for evidence in finding.evidence],
        "relatedLocations": [_location(evidence) for evidence in finding.victims],
        "properties": {
            "confidence": finding.confidence,
            **({"job": finding.job} if finding.job else {}),
            "ranks": list(finding.ranks),
            "hosts": list(finding.hosts),
        },
    }


def _location(evidence: Evidence) -> dict[str, Any]:
    region = {"startLine": max(evidence.line, 1), "snippet": {"text": evidence.text}}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(evidence.file)}, "region": region}}


def _uri(file: str) -> str:
    from urllib.parse import quote  # 10 ms that only this format pays

    return quote("stdin" if file == "-" else file, safe="/._-")
