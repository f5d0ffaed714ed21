"""JUnit XML, as CI services read it: one test case a rule that could answer, and one for the verdict.

A finding at warning or above fails its rule's case. A rule that the log does not answer is skipped. Where the log does
not show the job working, the case of the verdict is an error: unknown is not passed.
"""

from xml.etree import ElementTree as Tree

from diagnostics.findings import Diagnosis, Finding


def render(diagnosis: Diagnosis) -> str:
    """The whole document: a suite for each job."""
    root = Tree.Element("testsuites", name="raybench diagnose")
    for job in diagnosis.jobs or (diagnosis,):
        _add_suite(root, job)
    Tree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Tree.tostring(root, encoding="unicode") + "\n"


def _add_suite(root: Tree.Element, job: Diagnosis) -> None:
    suite = Tree.SubElement(root, "testsuite", name=_plain(job.job or "diagnosis"))
    verdict = _case(suite, "verdict")
    if job.verdict == "unknown":
        Tree.SubElement(verdict, "error", message=_plain(f"unknown: {job.explanation}"))
    for finding in job.findings:
        case = _case(suite, finding.rule)
        kind = "system-out" if finding.severity == "info" else "failure"
        attributes = {} if kind == "system-out" else {"message": _plain(finding.summary), "type": finding.severity}
        Tree.SubElement(case, kind, attributes).text = _plain(_text(finding))
    for rule in job.rules_clear:
        _case(suite, rule)
    for unsure in job.rules_cannot_tell:
        Tree.SubElement(_case(suite, unsure.rule), "skipped", message=_plain(unsure.why))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))


def _case(suite: Tree.Element, name: str) -> Tree.Element:
    return Tree.SubElement(suite, "testcase", classname=f"diagnose.{suite.get('name', '')}", name=name)


def _text(finding: Finding) -> str:
    lines = [finding.summary, finding.explanation]
    lines += [f"{evidence.file}:{evidence.line}: {evidence.text}" for evidence in finding.evidence]
    lines += [action.text for action in finding.recommendations]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """The text without what XML cannot hold."""
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)
