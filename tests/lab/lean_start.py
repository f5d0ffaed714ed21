"""``ray start`` as Ray's own command, without what nothing in a lab uses: helper processes, and Ray Client's server.

``python -m tests.lab.lean_start start --head ...``. They cost more processor time than the rest of a node's start.
``tests/playbooks/test_cluster_lab.py`` joins a cluster whose nodes have all that Ray starts.
"""

import importlib
from typing import Any

from raybench.execution.ray_cluster.lean_node import lean_node_class


def no_client_server(node: object) -> None:
    """Start nothing."""


if __name__ == "__main__":
    node_module: Any = importlib.import_module("ray._private.node")
    scripts: Any = importlib.import_module("ray.scripts.scripts")
    node_module.Node = lean_node_class()
    node_module.Node.start_ray_client_server = no_client_server
    scripts.main()
