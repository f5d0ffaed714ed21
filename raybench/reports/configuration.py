"""What configuring hosts did, as text: hosts that fared alike on one line, then what is left for a person to do."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from raybench.reports.text import inert
from raybench.unreachable import reason_lines

_MARKS = {"changed": "changed", "right": "right", "skipped": "skipped", "conflict": "LEFT", "failed": "FAILED"}
_LEFT = (
    ("reboot", "Needs a reboot, which raybench leaves to you"),
    ("pending", "In force later"),
    ("conflicts", "Left alone"),
    ("advice", "Advice"),
    ("notes", "Notes"),
)


def configuration_lines(report: Mapping[str, Any], *, diff: bool = False) -> Iterator[str]:
    """Lines for ``raybench.configure/1``. Nothing that a host said can send a control character."""
    for line in _lines(report, diff=diff):
        yield inert(line)


def _lines(report: Mapping[str, Any], *, diff: bool) -> Iterator[str]:
    hosts = report["hosts"]
    for item in dict.fromkeys(item["item"] for host in hosts for item in host["items"]):
        yield from _item_lines(item, hosts)
    if diff:
        yield from _diff_lines(hosts)
    silent = [(host["name"], host["unreachable"]) for host in hosts if host["unreachable"] is not None]
    yield from (f"{'' if line[0] == ' ' else 'MISSING':8} {line}" for line in reason_lines(silent))
    for name, title in _LEFT:
        texts = _by_text(hosts, name)
        if texts:
            yield f"{title}:"
            yield from (f"  {text} [{_names(names, len(hosts))}]" for text, names in texts.items())
    yield _last_line(report)


def _item_lines(item: str, hosts: list[Any]) -> Iterator[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for outcome in host["items"]:
            if outcome["item"] == item:
                alike.setdefault((outcome["verdict"], _how(outcome)), []).append(host["name"])
    for (verdict, how), names in alike.items():
        yield f"{_MARKS[verdict]:8} {item} [{_names(names, len(hosts))}]{': ' if how else ''}{how}"


def _how(outcome: Mapping[str, Any]) -> str:
    if outcome["verdict"] in {"failed", "skipped"}:
        return _one_line(outcome["message"])
    return "; ".join(f"{change['target']} ({change['how']})" for change in outcome["changes"])


def _diff_lines(hosts: list[Any]) -> Iterator[str]:
    alike: dict[tuple[str, str, str], list[str]] = {}
    for host in hosts:
        for outcome in host["items"]:
            for each in outcome["diff"]:
                key = (each.get("before_header", ""), each.get("before", ""), each.get("after", ""))
                alike.setdefault(key, []).append(host["name"])
    for (header, before, after), names in alike.items():
        yield f"--- {header} [{_names(names, len(hosts))}]"
        changes = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
        yield from (f"  {line}" for line in list(changes)[2:])


def _by_text(hosts: list[Any], name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host in hosts:
        for text in dict.fromkeys(text for outcome in host["items"] for text in outcome[name]):
            found.setdefault(_one_line(text), []).append(host["name"])
    return found


def _names(names: list[str], of: int) -> str:
    if len(names) == of and of > 1:
        return f"all {of} hosts"
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _one_line(text: str) -> str:
    return " ".join(str(text).split())


def _last_line(report: Mapping[str, Any]) -> str:
    changed = sum(any(item["changes"] for item in host["items"]) for host in report["hosts"])
    verb = {
        ("configure", False): "changed",
        ("configure", True): "would change",
        ("rollback", False): "rolled back",
        ("rollback", True): "would roll back",
    }[report["action"], report["check"]]
    error = f"; {_one_line(report['error'])}" if report["error"] else ""
    return f"# {verb} {changed} of {len(report['hosts'])} hosts{error}"
