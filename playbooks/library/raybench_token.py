#!/usr/bin/python
"""The token of a Ray cluster: one random secret in a file that only its owner reads."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_token
short_description: Make the token of a Ray cluster, once
description:
  - Writes 256 random bits in hexadecimal to a file of mode 0600, unless there is one. The token itself is in no
    argument, no answer and no log.
author: The raybench authors
options:
  path:
    description: The file. Folders above it that are missing are made with mode 0700.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Make the token
  raybench_token:
    path: ~/.local/state/raybench/cluster/token
"""

RETURN = r"""
path:
  description: The file, absolute.
  returned: always
  type: str
"""

import os
import secrets
import stat

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Answer one call of Ansible's."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    path = os.path.abspath(module.params["path"])
    try:
        changed = _is_wanting(path)
        if changed and not module.check_mode:
            _make(path)
    except OSError as error:
        module.fail_json(msg=f"the token cannot be made: {error}")
    module.exit_json(changed=changed, path=path)


def _is_wanting(path: str) -> bool:
    """Whether a token has to be made. Raises OSError for one that others can read or that is not ours."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{path} is not a file that only its owner reads; remove it, and a new one is made")
    return found.st_size == 0


def _make(path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    partial = f"{path}.{secrets.token_hex(4)}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


if __name__ == "__main__":
    main()
