#!/usr/bin/python
# Copyright: the raybench contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything that preflight wants to know of a host, gathered in one round trip. Judges nothing and changes nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_probe
short_description: Gather what preflight judges of a host, in one round trip
description:
  - Reads files and runs read-only programs in parallel, each for a limited time, and returns what they said.
  - A program that does not end in time is killed with all that it started, and reported as timed out.
  - Judges nothing. The checks of the Python package raybench do, on the control node.
version_added: "1.0.0"
options:
  timeout_seconds:
    description: How long each program may take.
    type: float
    default: 20
  interval_seconds:
    description: How long to wait between two readings of the port counters.
    type: float
    default: 1
  python:
    description: The Python whose packages (torch, ray, raybench) are looked at. Empty for the one on the search path.
    type: str
    default: ""
  folders:
    description: Folders whose file systems are measured.
    type: list
    elements: str
    default: ["/", "/tmp"]
  listen_ports:
    description: TCP ports to listen on for O(listen_seconds), so that other hosts can try whether they reach them.
    type: list
    elements: int
    default: []
  listen_seconds:
    description: How long to listen. The listener is a process of its own that ends by itself.
    type: float
    default: 60
  listen_connections:
    description: End the listener as soon as each port was reached so often, so that it is in nobody's way. 0 for never.
    type: int
    default: 0
  end_listener:
    description:
      - Only end the listener that an earlier call left because a host did not call it, and gather nothing else.
    type: bool
    default: false
  reach:
    description:
      - Only try whether these hosts answer at O(reach_ports), and gather nothing else.
      - Each is a name and addresses of it, of which the first that is not empty is tried.
    type: list
    elements: list
    default: []
  reach_ports:
    description: TCP ports to try at the hosts in O(reach).
    type: list
    elements: int
    default: []
  reached_earlier:
    description: What an earlier call returned as C(reached). What was connected then is not tried again.
    type: list
    elements: dict
    default: []
  reach_early:
    description:
      - Hosts, as in O(reach), to try at O(listen_ports) while the rest is gathered. Where all are connected in the
        returned C(reached), no second call is needed.
    type: list
    elements: list
    default: []
  reach_early_seconds:
    description: How long to wait for them once the rest is gathered.
    type: float
    default: 0
  expectations:
    description: What the inventory expects of this host. Handed through to the checks.
    type: dict
    default: {}
  limit_seconds:
    description:
      - How long the host may take for all of it, its login included. After that its connection is ended, a second login
        finds out where it hangs, and the host counts as unreachable. Kept by the control node.
    type: float
    default: 60
  first_contact:
    description:
      - Only log in and answer, within O(limit_seconds). A host that does not, for whatever reason, counts as
        unreachable, with what it does and what to look at.
    type: bool
    default: false
  of_inventory:
    description:
      - Add what the inventory says of the host, O(expectations), O(reach_early) and O(listen_connections). Done by the
        control node.
    type: bool
    default: false
  environment_variables:
    description: Environment variables for the programs, as for a simulated fabric.
    type: dict
    default: {}
  prefix:
    description: A program, with its arguments, to run the RDMA programs under, as C(ibsim-run).
    type: list
    elements: str
    default: []
  packed:
    description: Return the facts compressed, as one string, which Ansible carries faster than a tree.
    type: bool
    default: false
author:
  - The raybench contributors
attributes:
  check_mode:
    description: Changes nothing, in check mode or not.
    support: full
"""

EXAMPLES = r"""
- name: Gather
  raybench_probe:
    timeout_seconds: 20
  register: preflight_gathered
"""

RETURN = r"""
facts:
  description: Readings by name. Each has a status (ok, missing, failed, timeout, denied) and a text.
  returned: when not packed
  type: dict
address:
  description: An address of this host that others may reach it at.
  returned: when packed
  type: str
sent_at:
  description: When the control node sent the task, in seconds since 1970.
  returned: always
  type: float
received_at:
  description: When the control node had the answer.
  returned: always
  type: float
ended:
  description: Whether no listener is left.
  returned: with end_listener
  type: bool
noise:
  description: What the login shell printed beside the answer.
  returned: always
  type: str
to_reach:
  description: The hosts that were tried, as O(reach_early).
  returned: when packed
  type: list
reached_all:
  description: Whether all of them answered at all ports.
  returned: when packed
  type: bool
listening:
  description: Whether not all hosts that try these ports had done so when this host answered.
  returned: when packed
  type: bool
called_by:
  description: Those hosts, while it is listening.
  returned: when packed
  type: list
reached:
  description: What came of trying other hosts' ports.
  returned: always
  type: list
packed:
  description: The same as zlib-compressed JSON in base64.
  returned: when packed
  type: str
"""

import base64
import json
import sys
import zlib

# Ansible puts the arguments here. No AnsibleModule: to import it takes a host longer than all readings together.
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
        exec(compile(self.get_source(module.__name__), module.__name__, "exec"), module.__dict__)

    def get_source(self, name):
        """The text of a module."""
        return self._modules[name]


def refusal(arguments):
    """Why nothing can be read here; None where it can."""
    if sys.version_info < OLDEST:
        words = (".".join(map(str, OLDEST)), sys.executable, ".".join(map(str, sys.version_info[:3])))
        return "the probe needs Python %s or later, and %s is %s; set ansible_python_interpreter" % words
    if "source" not in arguments:
        return "raybench_probe was called without its action plugin: set action_plugins in ansible.cfg"
    return None


def main():
    """Answer, or say why not, as JSON on standard output."""
    arguments = json.loads(ARGUMENTS)
    reason = refusal(arguments)
    if reason:
        print(json.dumps({"failed": True, "msg": reason}))
        return
    sys.meta_path.insert(0, Source(json.loads(zlib.decompress(base64.b64decode(arguments["source"])))))
    from module_utils.raybench_probe.answer import answer
    from module_utils.raybench_probe.ports import answered

    print(json.dumps(answer(arguments)), flush=True)
    answered()


if __name__ == "__main__":
    main()
