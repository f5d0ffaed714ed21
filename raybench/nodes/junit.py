"""A preflight as JUnit XML, as CI services read it: a suite a host, a case for its node and one for each check. Pure.

A check that failed is a failure, one that broke an error. The case of the node fails where it is to be drained, and is
an error where it is unknown: unknown is not passed. A check alone that is unknown, or had nothing to check, is skipped.
"""

from xml.etree import ElementTree as Tree

from raybench.documents.preflight import CheckResult, NodeReason, PreflightHost, PreflightReport


def junit(report: PreflightReport) -> str:
    """The whole document."""
    root = Tree.Element("testsuites", name="raybench preflight")
    for host in report.hosts:
        _add_suite(root, host, report.finished_at)
    for kind in ("tests", "failures", "errors", "skipped"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    Tree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Tree.tostring(root, encoding="unicode") + "\n"


def _add_suite(root: Tree.Element, host: PreflightHost, finished_at: str) -> None:
    name = _plain(host.host)
    suite = Tree.SubElement(root, "testsuite", name=name, hostname=name, timestamp=_plain(finished_at.rstrip("Z")))
    if host.node is not None:
        _add_node(_case(suite, "node"), host)
    for one in host.checks:
        _add_check(_case(suite, one.check), one)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))


def _add_node(case: Tree.Element, host: PreflightHost) -> None:
    assert host.node is not None
    state, lines = host.node.state, "\n".join(_line(one) for one in host.node.reasons)
    kind = {"drain": "failure", "unknown": "error", "degraded": "system-out"}.get(state)
    if kind is not None:
        message = f"{state}: {_line(host.node.reasons[0])}" if host.node.reasons else state
        attributes = {} if kind == "system-out" else {"message": _plain(message), "type": state}
        Tree.SubElement(case, kind, attributes).text = _plain(f"{state}\n{lines}")


def _add_check(case: Tree.Element, one: CheckResult) -> None:
    kind = {"fail": "failure", "error": "error", "skipped": "skipped", "unknown": "skipped", "warn": "system-out"}
    if one.verdict in kind:
        said = "" if one.verdict == "skipped" else f"{one.verdict}: "
        attributes = {} if one.verdict == "warn" else {"message": _plain(f"{said}{one.seen}")}
        if one.verdict in {"fail", "error"}:
            attributes["type"] = one.verdict
        Tree.SubElement(case, kind[one.verdict], attributes).text = _plain(_text(one))


def _case(suite: Tree.Element, name: str) -> Tree.Element:
    return Tree.SubElement(suite, "testcase", classname=f"preflight.{suite.get('name', '')}", name=_plain(name))


def _line(reason: NodeReason) -> str:
    command = f" ({reason.command})" if reason.command else ""
    return f"{reason.check}: {reason.seen}: {reason.action}{command}"


def _text(one: CheckResult) -> str:
    rows = {"seen": one.seen, "expected": one.expected, "basis": one.basis, "advice": one.advice}
    return "\n".join(f"{name}: {text}" for name, text in rows.items() if text)


def _plain(text: str) -> str:
    """The text without what XML cannot hold."""
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)
