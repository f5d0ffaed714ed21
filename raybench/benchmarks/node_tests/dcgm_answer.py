"""What ``dcgmi diag -j`` printed, as figures. Pure.

DCGM 2 and 3 have ``{"DCGM GPU Diagnostic": {"test_categories": [{"category", "tests": [{"name", "results":
[{"gpu_ids": "0,1", "status": "Pass", "warnings": ["..."]}]}]}]}}``, some of them ``gpu_id`` for ``gpu_ids`` and one
text for the list; DCGM 4 ``{"DCGM Diagnostic": ...}`` whose results have ``entity_group`` and ``entity_id``, warnings
``{"warning", "error_id", "error_severity"}``, and a ``test_summary`` for each test. Some have ``tests`` without
categories.

A word that none of them has is no pass. What DCGM calls a failure of a setting, such as persistence mode that is off,
is ``warned``: no GPU is at fault. Where it passed the deployment tests alone, and skipped all that use a GPU, as it
does on models that it does not know, the GPUs were not tested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from raybench.benchmarks.node_tests.plan import Figure

TEST = "dcgm-diag"
_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_STATUS = {
    "pass": "ok",
    "passed": "ok",
    "fail": "failed",
    "failed": "failed",
    "warn": "warned",
    "warning": "warned",
    "skip": "skipped",
    "skipped": "skipped",
}
_SETTINGS = ("Persistence Mode", "Environment Variables", "Graphics Processes", "Permissions and OS")
_NO_FAULT = frozenset({1, 5})  # dcgmErrorSeverity: monitor; config
_WITHOUT_GPU = frozenset({"Deployment", "Software", ""})
_MOST_FIGURES = 2000
_MOST_REASON = 300


def read_diag(said: str, status: int = 0) -> list[Figure]:
    """A figure for each result; one that says why there is none, where the output has another form.

    ``status`` is dcgmi's exit status.
    """
    root = _root(said)
    if root is None:
        return [Figure(TEST, "host", status="missing", reason=f"dcgmi diag said: {_short(said) or 'nothing'}")]
    figures = [one for _, one in zip(range(_MOST_FIGURES), _figures(root))]
    trouble = _text(root.get("runtime_error"))
    if trouble:
        figures.append(Figure(TEST, "host", status="missing", reason=f"DCGM could not go on: {trouble}"))
    if not figures:
        reason = _text(root.get("warning")) or f"dcgmi diag printed no result of any test: {_short(said)}"
        return [Figure(TEST, "host", status="missing", reason=reason[:_MOST_REASON])]
    reason = _why_not_tested(root, {one.status for one in figures}, status)
    return [*figures, Figure(TEST, "host", status="missing", reason=reason)] if reason else figures


def _why_not_tested(root: dict[str, Any], told: set[str], status: int) -> str:
    """Why results without a failure are no pass; empty where they are."""
    if status and not told & {"failed", "warned", "missing"}:
        return f"dcgmi diag ended with {status}, and printed no test that failed"
    tests = [(one, category) for category in _categories(root) for one in _list(category, "tests")]
    of_gpus = [one for one, category in tests if _text(category.get("category")) not in _WITHOUT_GPU]
    done = [one for one in of_gpus if {_status(result) for result in _list(one, "results")} - {"skipped"}]
    if of_gpus and not done and told - {"skipped"}:
        names = ", ".join(_text(one.get("name")) for one in of_gpus)
        return f"DCGM skipped every test that uses a GPU: {names}"[:_MOST_REASON]
    return ""


def _root(said: str) -> dict[str, Any] | None:
    """The document in an output, which may have other lines before and after it."""
    start = said.find("{")
    while start >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(said, start)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            below = next((found[name] for name in _ROOTS if isinstance(found.get(name), dict)), None)
            return below or (found if _categories(found) else None)
        start = said.find("{", start + 1) if len(said) < 100_000 else -1
    return None


def _categories(root: dict[str, Any]) -> list[dict[str, Any]]:
    return _list(root, "test_categories") + ([root] if _list(root, "tests") else [])


def _figures(root: dict[str, Any]) -> Iterator[Figure]:
    for category in _categories(root):
        for test in _list(category, "tests"):
            name = _text(test.get("name")) or "unnamed"
            results = _list(test, "results")
            for one in results:
                for device in _devices(one):
                    yield _figure(name, device, one)
            summary = test.get("test_summary")
            told = {_status(one) for one in results}
            if isinstance(summary, dict) and _status(summary) not in told:
                yield _figure(name, "host", summary)  # what no device's own result says


def _list(value: Any, key: str) -> list[dict[str, Any]]:
    found = value.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _devices(result: dict[str, Any]) -> list[str]:
    group = _text(result.get("entity_group"))
    if group:
        prefix = {"GPU": "gpu", "CPU": "cpu"}.get(group, f"{group.lower()} ")
        return [f"{prefix}{_text(result.get('entity_id'))}"]
    ids = _text(result.get("gpu_ids")) or _text(result.get("gpu_id"))
    return [f"gpu{one.strip()}" for one in ids.split(",") if one.strip()] or ["host"]


def _status(result: dict[str, Any]) -> str:
    return _STATUS.get(_text(result.get("status")).strip().lower(), "missing")


def _figure(name: str, device: str, result: dict[str, Any]) -> Figure:
    status = _status(result)
    told = _text(result.get("warnings")) or _text(result.get("warning")) or _text(result.get("info"))
    if status == "missing":
        told = f"DCGM says {_text(result.get('status')) or 'nothing'}" + (f": {told}" if told else "")
    reason = "" if status == "ok" else told[:_MOST_REASON] or f"DCGM says {_text(result.get('status'))}"
    if status == "failed" and _is_a_setting(name, result):
        status = "warned"
    passed = status == "ok"
    return Figure(TEST, device, name[:60], status, reason, checked=int(passed), detail="passed" if passed else "")


def _is_a_setting(name: str, result: dict[str, Any]) -> bool:
    """Whether all that a test failed for is how the host is set up."""
    warnings = result.get("warnings")
    told = warnings if isinstance(warnings, list) else [warnings]
    grades = [one.get("error_severity") for one in told if isinstance(one, dict)]
    if any(grade is not None for grade in grades):
        return all(isinstance(grade, int) and grade in _NO_FAULT for grade in grades)
    return name.startswith(_SETTINGS) or all(_text(one).startswith(_SETTINGS) for one in told)


def _text(value: Any) -> str:
    """A text of a value: of a list all of its texts, of a warning of DCGM 4 its words with the number of its error."""
    if isinstance(value, dict):
        words, number = _text(value.get("warning")), _text(value.get("error_id") or value.get("code"))
        return f"{words} (error {number})" if words and number else words
    if isinstance(value, list):
        return "; ".join(filter(None, (_text(one) for one in value[:20])))
    return " ".join(str(value).split()) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _short(said: str) -> str:
    return " ".join(said.split())[:_MOST_REASON]
