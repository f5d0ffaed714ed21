#!/usr/bin/python
# Copyright: the raybench contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges what the probes gathered, on the control node, with the Python package raybench."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_report
short_description: Judge what raybench_probe gathered, and write the report
description:
  - Runs on the control node, once a play, over all hosts. The checks are those of the Python package raybench.
  - The package is taken from this environment, or from the checkout or the wheel that the playbook is part of.
version_added: "1.0.0"
options:
  gathered:
    description: What the probe's task registered, by host.
    type: dict
    required: true
  reached:
    description: What the task that tried ports registered, by host.
    type: dict
    default: {}
  tested:
    description: What the task of active tests registered, by host.
    type: dict
    default: {}
  level:
    description: The level of active tests that were asked for. 1 for none.
    type: int
    default: 1
  only:
    description: Checks or concerns to run. All where empty.
    type: list
    elements: str
    default: []
  skip:
    description: Checks or concerns to leave out.
    type: list
    elements: str
    default: []
  output_dir:
    description: Folder for C(preflight.json) and C(preflight.html). It is made where there is none.
    type: path
    required: true
  sources:
    description: Folders that may hold the Python package, where it is not installed.
    type: list
    elements: path
    default: []
author:
  - The raybench contributors
attributes:
  check_mode:
    description: Writes its report in check mode as well; it is about hosts, and no part of them.
    support: full
"""

EXAMPLES = r"""
- name: Judge
  raybench_report:
    gathered: "{{ dict(ansible_play_hosts_all | zip(results)) }}"
    output_dir: runs/preflight
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
verdict:
  description: The worst verdict of any host.
  returned: always
  type: str
lines:
  description: Findings and a line for each host, as text.
  returned: always
  type: list
summary:
  description: Counts, and the names of hosts with problems.
  returned: always
  type: dict
failures:
  description: What failed, by host. Hosts without a failure are not in it.
  returned: always
  type: dict
path:
  description: The report.
  returned: always
  type: str
"""

import os
import sys
import time

from ansible.module_utils.basic import AnsibleModule


def main():
    """Read the parameters, judge, write, answer."""
    module = AnsibleModule(
        argument_spec={
            "gathered": {"type": "dict", "required": True},
            "reached": {"type": "dict", "default": {}},
            "tested": {"type": "dict", "default": {}},
            "level": {"type": "int", "default": 1},
            "only": {"type": "list", "elements": "str", "default": []},
            "skip": {"type": "list", "elements": "str", "default": []},
            "output_dir": {"type": "path", "required": True},
            "sources": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    find_package(module)
    from raybench.preflight.lines import report_lines
    from raybench.preflight.report import build_report
    from raybench.preflight.writing import write_report

    options = module.params
    hosts = [
        entry(name, answer, options["reached"].get(name), options["tested"].get(name) if options["level"] > 1 else None)
        for name, answer in options["gathered"].items()
    ]
    try:
        report = build_report(
            hosts, only=options["only"], skip=options["skip"], level=options["level"], finished_at=time.time()
        )
    except ValueError as error:
        module.fail_json(msg=str(error))
    try:
        path = write_report(report, options["output_dir"])
    except OSError as error:
        module.fail_json(
            msg="the report cannot be written to %s (%s); name another folder with preflight_output_dir. It says: %s"
            % (options["output_dir"], error.strerror or error, "; ".join(report_lines(report)))
        )
    module.exit_json(
        changed=False,
        verdict=report.verdict,
        status=report.status,
        summary=report.summary.to_json(),
        lines=report_lines(report, path=str(path)),
        failures=failures_of(report),
        path=str(path),
    )


def failures_of(report):
    """What failed on each host that has failed, so that it fails in its own name."""
    return {
        host.host: "; ".join(
            "%s: %s" % (check.check, check.seen) for check in host.checks if check.verdict in ("fail", "error")
        )
        for host in report.hosts
        if host.verdict in ("fail", "error")
    }


def find_package(module):
    """Make ``raybench`` importable, or say how to."""
    for folder in module.params["sources"]:
        if os.path.isdir(os.path.join(folder, "raybench", "preflight")):
            sys.path.insert(0, folder)
            break
    try:
        import raybench.preflight.report  # noqa: F401
    except (ImportError, SyntaxError) as error:
        module.fail_json(
            msg="the checks are part of the Python package raybench, which %s (Python %s) does not have: pip install"
            " raybench there; it needs Python 3.11 or newer (%s)" % (sys.executable, sys.version.split()[0], error)
        )


def tested_of(answer, facts):
    """What the task of active tests registered for a host; None where none were asked for."""
    from raybench.preflight.node_tests.answer import NodeTests, read_answer
    from raybench.preflight.probe_answer import boot_id_of
    from raybench.preflight.report import reason_of

    if answer is None or answer.get("skipped"):
        return None
    if answer.get("tested"):
        return read_answer(answer["tested"], boot_id_of(facts))
    said = dict.fromkeys(str(answer[key]) for key in ("msg", "module_stderr", "module_stdout") if answer.get(key))
    return NodeTests(problem=reason_of("; ".join(said)), machine=boot_id_of(facts))


def entry(name, answer, reached, tested):
    """What the tasks registered for a host, as the report takes it."""
    from raybench.preflight.probe_answer import attempts_of, unpack
    from raybench.preflight.report import Gathered, reason_of

    again = attempts_of((reached or {}).get("reached"))
    common = {
        "host": name,
        "sent_at": answer.get("sent_at"),
        "received_at": answer.get("received_at"),
        "noise": answer.get("noise") or "",
        "reached": again or attempts_of(answer.get("reached")),
        "not_tried_again": answer.get("reached_all") is False and not again,
    }
    if answer.get("packed"):
        try:
            facts = unpack(answer["packed"])
            return Gathered(facts=facts, tested=tested_of(tested, facts), **common)
        except ValueError as error:
            return Gathered(reason=str(error), **common)
    said = dict.fromkeys(str(answer[key]) for key in ("msg", "module_stderr", "module_stdout") if answer.get(key))
    return Gathered(reason=reason_of("; ".join(said)), unreachable=bool(answer.get("unreachable")), **common)


if __name__ == "__main__":
    main()
