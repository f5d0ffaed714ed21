"""Hosts for the tests of checks: readings as the probe returns them, without a probe."""

from collections.abc import Mapping
from typing import Any

from raybench.documents.preflight import CheckResult
from raybench.preflight.checks import CHECKS, evaluate
from raybench.preflight.expectations import PREFIX, read_expectations
from raybench.preflight.host_view import HostView


def facts(readings: Mapping[str, Any], **expectations: object) -> dict[str, Any]:
    """What a probe that ran as root returned. A text stands for a program that ended well."""
    return {
        "schema": "raybench.probe/1",
        "hostname": "gpu-01",
        "clock": 1_000_000.0,
        "seconds": 1.0,
        "uid": 0,
        "expectations": {PREFIX + name: value for name, value in expectations.items()},
        "readings": {name: _reading(value) for name, value in readings.items()},
    }


def _reading(value: Any) -> Any:
    return {"status": "ok", "text": value} if isinstance(value, str) else value


def host(readings: Mapping[str, Any], **expectations: object) -> HostView:
    """A host with these readings, of which the inventory expects this."""
    expected, problems = read_expectations(facts({}, **expectations)["expectations"])
    assert not problems
    return HostView(facts(readings), expected)


def value(content: object) -> dict[str, object]:
    """A reading that the probe made itself."""
    return {"status": "ok", "value": content}


def files(**groups: Mapping[str, str | None]) -> dict[str, Any]:
    """Readings of files by group."""
    return {name: {"status": "ok", "values": dict(content)} for name, content in groups.items()}


def result(name: str, view: HostView) -> CheckResult:
    """The result of one check."""
    (check,) = [check for check in CHECKS if check.name == name]
    (found,) = evaluate(view, [check])
    return found


def verdict(name: str, readings: Mapping[str, Any], **expectations: object) -> str:
    """The verdict of one check on a host with these readings."""
    return result(name, host(readings, **expectations)).verdict
