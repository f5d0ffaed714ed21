#!/usr/bin/python
"""Bring one item of a host's configuration into the state that was asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_configure
short_description: Configure one item of a GPU node, keeping its first state
description:
  - Reads what the host is, plans what differs, keeps the first state in a journal on the host, then changes only that.
  - In check mode the same plan is reported and nothing is written.
options:
  item:
    description: The item, C(role.item).
    required: true
    type: str
  options:
    description: What the item takes; see the README of its role.
    type: dict
    default: {}
author: [raybench]
"""

EXAMPLES = r"""
- name: Raise the limit of locked memory
  raybench_configure:
    item: system_limits.memlock
    options:
      limit: unlimited
"""

RETURN = r"""
changes: {description: One entry a resource that was, or would be, changed, returned: always, type: list}
skipped_reason: {description: Why nothing was to be done, returned: when nothing was planned, type: str}
notes: {description: What was decided and why, returned: always, type: list}
advice: {description: What a person should do, returned: always, type: list}
pending: {description: What takes effect later, and when, returned: always, type: list}
reboot: {description: What needs a reboot, returned: always, type: list}
conflicts: {description: What was edited by others and left alone, returned: always, type: list}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_configure.engine import Outcome, carry_out
from ansible.module_utils.raybench_configure.errors import ConfigureError
from ansible.module_utils.raybench_configure.host import Host
from ansible.module_utils.raybench_configure.items import ITEMS
from ansible.module_utils.raybench_configure.journal import Journal, locked
from ansible.module_utils.raybench_configure.plan import Plan


def main() -> None:
    """Plan, carry out, report."""
    module = AnsibleModule(
        argument_spec={
            "item": {"type": "str", "required": True, "choices": sorted(ITEMS)},
            "options": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    item, host = module.params["item"], Host()
    try:
        if os.geteuid() != 0:
            module.fail_json(
                msg="this needs root: connect as root, or set ansible_become: true for this host", item=item
            )
        with locked(host):
            plan = ITEMS[item](host, module.params["options"])
            journal = Journal(host) if plan.settings else None
            outcome = Outcome()
            if journal is not None and plan.problem is None:
                outcome = carry_out(host, journal, item, plan, check=module.check_mode)
    except ConfigureError as error:
        module.fail_json(
            msg=str(error), item=item, changes=[], notes=[], advice=[], pending=[], reboot=[], conflicts=[]
        )
    except KeyError as error:
        module.fail_json(msg=f"item {item} needs the option {error}", item=item)
    _report(module, item, plan, outcome)


def _report(module: AnsibleModule, item: str, plan: Plan, outcome: Outcome) -> None:
    problem = plan.problem or outcome.problem
    result = {
        "item": item,
        "changed": bool(outcome.changes),
        "changes": outcome.changes,
        "skipped_reason": plan.skipped,
        "notes": plan.notes,
        "advice": plan.advice,
        "pending": plan.pending if outcome.changes else [],
        "reboot": plan.reboot,
        "conflicts": outcome.conflicts,
    }
    if outcome.diff:
        result["diff"] = outcome.diff
    if problem:
        module.fail_json(msg=f"{item}: {problem}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
