#!/usr/bin/python
"""One Ray node of a cluster, on the host itself: make its folder, start it, end it, look at it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_ray_node
short_description: Start, end and look at the Ray node that raybench owns on a host
description:
  - Holds one C(ray start --block) under a supervisor of raybench's own, as a systemd unit where systemd runs and the
    module runs as root, else as a detached process that is known by process id, start time and boot.
  - Ends nothing but what it started, children included. Never calls C(ray stop) and looks for nothing by name.
author: The raybench authors
options:
  state:
    description: What to do. V(prepared) makes the folder and looks at the Python; V(probed) only looks.
    type: str
    required: true
    choices: [prepared, started, stopped, probed]
  folder:
    description: Where the node's files are. Empty for /var/lib/raybench as root, else /var/tmp/raybench-USER.
    type: path
    default: ""
  python:
    description: Python that has Ray and raybench. Empty for the environment that raybench builds in the folder.
    type: str
    default: ""
  role:
    description: Whether the host is the head of the cluster or a worker.
    type: str
    choices: [head, worker]
    default: worker
  name:
    description: The name under which the node is known to Ray, the inventory's.
    type: str
    default: ""
  address:
    description: The node's own address or host name, or a name under which ssh reaches it.
    type: str
    default: ""
  address_required:
    description: Fail where O(address) is not one of this host's, instead of looking for a better one.
    type: bool
    default: false
  head_address:
    description: HOST:PORT of the head, for workers.
    type: str
    default: ""
  head_versions:
    description: The versions of the head's Python, as V(probed) returns them in C(python), for workers.
    type: dict
    default: {}
  port:
    description: The port on which the head listens.
    type: int
    default: 6379
  options:
    description: More words of C(ray start), each an element.
    type: list
    elements: str
    default: []
  environment:
    description: Variables of Ray's daemons, and so of all ranks.
    type: dict
    default: {}
  supervisor:
    description: What keeps the node. V(auto) takes systemd where it runs and the module is root.
    type: str
    choices: [auto, systemd, process]
    default: auto
  registered:
    description: Whether the head has the node in its table. A node that runs and is not in it is started anew.
    type: bool
    default: true
  expected:
    description: With O(state=probed) on a running head, wait until nodes of these names are alive.
    type: list
    elements: str
    default: []
  seconds:
    description: Time limit of the state's work.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Start a worker
  raybench_ray_node:
    state: started
    role: worker
    name: gpu-02
    head_address: 10.0.0.1:6379
"""

RETURN = r"""
folder:
  description: The node's folder.
  returned: always
  type: str
node:
  description: What runs on the host.
  returned: always
  type: dict
gcs:
  description: The nodes that the head knows, with state probed on a running head.
  returned: sometimes
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_ray.errors import NodeError
from ansible.module_utils.raybench_ray.node import RayNode

ARGUMENTS = {
    "state": {"type": "str", "required": True, "choices": ["prepared", "started", "stopped", "probed"]},
    "folder": {"type": "path", "default": ""},
    "python": {"type": "str", "default": ""},
    "role": {"type": "str", "choices": ["head", "worker"], "default": "worker"},
    "name": {"type": "str", "default": ""},
    "address": {"type": "str", "default": ""},
    "address_required": {"type": "bool", "default": False},
    "head_address": {"type": "str", "default": ""},
    "head_versions": {"type": "dict", "default": {}},
    "port": {"type": "int", "default": 6379},
    "options": {"type": "list", "elements": "str", "default": []},
    "environment": {"type": "dict", "default": {}},
    "supervisor": {"type": "str", "choices": ["auto", "systemd", "process"], "default": "auto"},
    "registered": {"type": "bool", "default": True},
    "expected": {"type": "list", "elements": "str", "default": []},
    "seconds": {"type": "int", "default": 120},
}


def main() -> None:
    """Answer one call of Ansible's."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    node = RayNode(module.params, module.check_mode)
    try:
        result = node.reach(module.params["state"])
    except NodeError as error:
        module.fail_json(msg=str(error), folder=node.folder)
    except OSError as error:
        module.fail_json(msg=f"the Ray node cannot be {module.params['state']}: {error}", folder=node.folder)
    module.exit_json(folder=node.folder, **result)


if __name__ == "__main__":
    main()
