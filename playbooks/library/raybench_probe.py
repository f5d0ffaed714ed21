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
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_probe.gather import gather, own_address
from ansible.module_utils.raybench_probe.ports import reach


def main():
    """Read the parameters, gather, answer."""
    module = AnsibleModule(
        argument_spec={
            "timeout_seconds": {"type": "float", "default": 20},
            "interval_seconds": {"type": "float", "default": 1},
            "python": {"type": "str", "default": ""},
            "folders": {"type": "list", "elements": "str", "default": ["/", "/tmp"]},
            "listen_ports": {"type": "list", "elements": "int", "default": []},
            "listen_seconds": {"type": "float", "default": 60},
            "listen_connections": {"type": "int", "default": 0},
            "reach": {"type": "list", "elements": "list", "default": []},
            "reach_ports": {"type": "list", "elements": "int", "default": []},
            "reached_earlier": {"type": "list", "elements": "dict", "default": []},
            "reach_early": {"type": "list", "elements": "list", "default": []},
            "reach_early_seconds": {"type": "float", "default": 0},
            "expectations": {"type": "dict", "default": {}},
            "limit_seconds": {"type": "float", "default": 60},
            "first_contact": {"type": "bool", "default": False},
            "of_inventory": {"type": "bool", "default": False},
            "environment_variables": {"type": "dict", "default": {}},
            "prefix": {"type": "list", "elements": "str", "default": []},
            "packed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    options = module.params
    if options["first_contact"]:
        module.exit_json(changed=False, reached=[])
    if options["reach"]:
        module.exit_json(
            changed=False,
            reached=reach(
                options["reach"], options["reach_ports"], options["timeout_seconds"], options["reached_earlier"]
            ),
        )
    facts = gather(options)
    if options["packed"]:
        text = base64.b64encode(zlib.compress(json.dumps(facts).encode("utf-8"), 6)).decode("ascii")
        module.exit_json(changed=False, packed=text, address=own_address(facts), reached=facts["reached"])
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
