#!/usr/bin/python
"""Bring items of a host's configuration into the state that was asked for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_configure
short_description: Configure items of a GPU node, keeping their first state
description:
  - Reads what the host is, plans what differs, keeps the first state in a journal on the host, then changes only that.
  - In check mode the same plan is reported and nothing is written.
  - An item that fails does not keep the others from being done.
options:
  role:
    description: The role that the items belong to.
    required: true
    type: str
  items:
    description: What each item takes, by its name; see the README of the role.
    required: true
    type: dict
  only:
    description: Tags of the run. Where some are names of items, only those are done.
    type: list
    elements: str
    default: []
  skip:
    description: Tags that the run leaves out.
    type: list
    elements: str
    default: []
author: [raybench]
"""

EXAMPLES = r"""
- name: Raise the limit of locked memory
  raybench_configure:
    role: system_limits
    items:
      memlock:
        limit: unlimited
"""

RETURN = r"""
outcomes:
  description:
    - One entry an item with its verdict (changed, right, skipped, conflict, failed), message, changes and diff.
    - Its notes say what was decided and why, advice is for a person, pending and reboot say what takes effect when.
  returned: always
  type: list
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_configure.errors import ConfigureError, JournalError
from ansible.module_utils.raybench_configure.host import Host
from ansible.module_utils.raybench_configure.items import ITEMS, chosen
from ansible.module_utils.raybench_configure.journal import BUSY, LOCK, LOCK_SECONDS
from ansible.module_utils.raybench_configure.outcome import configure_item
from ansible.module_utils.raybench_host.lock import locked


def main() -> None:
    """ItemPlan, carry out and report each item."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "items": {"type": "dict", "required": True},
            "only": {"type": "list", "elements": "str", "default": []},
            "skip": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    role, host = module.params["role"], Host()
    unknown = [name for name in module.params["items"] if f"{role}.{name}" not in ITEMS]
    if unknown:
        module.fail_json(msg=f"{role} has no item {', '.join(unknown)}", outcomes=[])
    if os.geteuid() != 0:
        module.fail_json(msg="this needs root: connect as root, or set ansible_become: true for this host", outcomes=[])
    outcomes = []
    try:
        with locked(host.path(LOCK), LOCK_SECONDS, JournalError(BUSY)):
            for name in chosen(module.params["items"], module.params["only"], module.params["skip"]):
                options = module.params["items"][name] or {}
                outcomes.append(configure_item(host, f"{role}.{name}", options, check=module.check_mode))
    except ConfigureError as error:
        module.fail_json(msg=str(error), outcomes=outcomes)
    _report(module, outcomes)


def _report(module: AnsibleModule, outcomes: list) -> None:
    result = {
        "changed": any(each["changes"] for each in outcomes),
        "outcomes": outcomes,
        "diff": [part for each in outcomes for part in each["diff"]],
    }
    failed = [each["message"] for each in outcomes if each["verdict"] == "failed"]
    if failed:
        module.fail_json(msg="; ".join(failed), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
