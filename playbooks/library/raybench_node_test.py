#!/usr/bin/python
# Copyright: the raybench contributors
# SPDX-License-Identifier: Apache-2.0
"""Short tests of what a host can do: its processors and GPUs. Judges nothing and leaves nothing behind."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_node_test
short_description: Exercise a host for a short time, and return what was measured
description:
  - Runs the tests of a level in the first Python of the host that has torch, within a time limit, and returns figures.
  - Their source comes with the task. They end with the connection, and leave no process and no file behind.
  - Judges nothing. The Python package raybench does, on the control node.
version_added: "1.0.0"
options:
  level:
    description: 2 tests for about a minute, 3 for up to ten. 1 does nothing.
    type: int
    required: true
  only:
    description: Checks or concerns whose tests are wanted. All where empty.
    type: list
    elements: str
    default: []
  skip:
    description: Checks or concerns whose tests are left out.
    type: list
    elements: str
    default: []
  seconds:
    description: How long the tests may take. 0 for 60 s at level 2, 600 s at level 3.
    type: float
    default: 0
  sizes:
    description: Sizes of single tests, as C(preflight_test_sizes) of the role preflight has them.
    type: dict
    default: {}
  python:
    description: The Python to test with. Empty for the first with torch, of C(raybench cluster up) or the search path.
    type: str
    default: ""
  probed:
    description:
      - What C(raybench_probe) returned as C(packed). Hosts that run on one kernel (containers of one machine) are
        tested one after the other, since at the same time they would take each other's processors.
    type: str
    default: ""
author:
  - The raybench contributors
attributes:
  check_mode:
    description: Changes nothing, in check mode or not.
    support: full
"""

EXAMPLES = r"""
- name: Test
  raybench_node_test:
    level: 2
  register: tested
"""

RETURN = r"""
tested:
  description: What was measured, as zlib-compressed JSON in base64.
  returned: where a test was wanted
  type: str
"""

import base64
import json
import sys
import zlib

# Ansible puts the arguments here. No AnsibleModule: to import it takes a host longer than all that is done here.
ARGUMENTS = r"""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>"""
OLDEST = (3, 8)


class Source(object):
    """Imports our packages, those of module_utils, from their source, which came with the arguments."""

    def __init__(self, modules):
        self._modules = modules

    def find_spec(self, name, path=None, target=None):
        """The place of a module of ours, None for any other."""
        if name not in self._modules:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, is_package=any(other.startswith(name + ".") for other in self._modules))

    def create_module(self, spec):
        """An ordinary module, which Python makes itself."""

    def exec_module(self, module):
        """Run a module's source in it."""
        exec(compile(self._modules[module.__name__], module.__name__, "exec"), module.__dict__)


def refusal(arguments):
    """Why nothing can be tested here; None where it can."""
    if sys.version_info < OLDEST:
        words = (".".join(map(str, OLDEST)), sys.executable, ".".join(map(str, sys.version_info[:3])))
        return "the tests need Python %s or later, and %s is %s; set ansible_python_interpreter" % words
    if "source" not in arguments:
        return "raybench_node_test was called without its action plugin: set action_plugins in ansible.cfg"
    return None


def main():
    """Answer, or say why not, as JSON on standard output."""
    arguments = json.loads(ARGUMENTS)
    reason = refusal(arguments)
    if reason:
        print(json.dumps({"failed": True, "msg": reason}))
        return
    modules = json.loads(zlib.decompress(base64.b64decode(arguments["source"])))
    sys.meta_path.insert(0, Source(modules))
    from module_utils.raybench_node_test.answer import answer

    print(json.dumps(answer(arguments, modules)))


if __name__ == "__main__":
    main()
