#!/usr/bin/python
"""Bring back what a host was before raybench configured it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_rollback
short_description: Bring back the first state of what raybench_configure changed
description:
  - Works from the journal on the host, last change first. What was edited since is kept and reported as a conflict.
options:
  items:
    description: Roles (C(system_limits)) or items (C(memlock), C(system_limits.memlock)); empty for all.
    type: list
    elements: str
    default: []
  packages:
    description: Whether packages that raybench installed are removed as well.
    type: bool
    default: false
author: [raybench]
"""

EXAMPLES = r"""
- name: Take back the limits only
  raybench_rollback:
    items: [system_limits]
"""

RETURN = r"""
changes: {description: One entry a resource that was, or would be, changed back, returned: always, type: list}
conflicts: {description: What was edited since and left alone, returned: always, type: list}
notes: {description: What stays on the host, returned: always, type: list}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_configure.engine import roll_back
from ansible.module_utils.raybench_configure.errors import ConfigureError, JournalError
from ansible.module_utils.raybench_configure.host import Host
from ansible.module_utils.raybench_configure.items import ITEMS
from ansible.module_utils.raybench_configure.journal import BUSY, LOCK, LOCK_SECONDS, Journal
from ansible.module_utils.raybench_host.lock import locked


def main() -> None:
    """Read the journal, set back, report."""
    module = AnsibleModule(
        argument_spec={
            "items": {"type": "list", "elements": "str", "default": []},
            "packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    full = {item.split(".")[1]: item for item in ITEMS}
    known = {*ITEMS, *full, *(item.split(".")[0] for item in ITEMS)}
    unknown = sorted(set(module.params["items"]) - known)
    if unknown:
        module.fail_json(msg=f"there is no item {', '.join(unknown)}; items: {', '.join(sorted(known))}")
    if os.geteuid() != 0:
        module.fail_json(msg="this needs root: connect as root, or set ansible_become: true for this host")
    items, host = [full.get(name, name) for name in module.params["items"]], Host()
    try:
        with locked(host.path(LOCK), LOCK_SECONDS, JournalError(BUSY)):
            outcome = roll_back(host, Journal(host), items, packages=module.params["packages"], check=module.check_mode)
    except ConfigureError as error:
        module.fail_json(msg=str(error), changes=[], conflicts=[], notes=[])
    result = {"changed": bool(outcome.changes), "changes": outcome.changes, "conflicts": outcome.conflicts}
    result["notes"] = outcome.kept
    if outcome.diff:
        result["diff"] = outcome.diff
    problem = "; ".join([*([outcome.problem] if outcome.problem else []), *outcome.conflicts])
    if problem:
        module.fail_json(msg=problem, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
