"""The Python of a Ray node: what is installed in it, and what Ray's head tells it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..raybench_host.command import run
from .errors import NodeError

_PYTHON_SECONDS = 60.0
_FACTS = """
import importlib.metadata as metadata, importlib.util as util, json, platform
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
facts = {name: version(name) for name in ("ray", "torch", "raybench")}
facts["python"] = platform.python_version()
facts["ray_client"] = util.find_spec("grpc") is not None
print(json.dumps(facts))
"""
_TABLE = """
import json, sys
from ray._private.state import GlobalState
from ray._raylet import GcsClientOptions
state = GlobalState()
state._initialize_global_state(
    GcsClientOptions.create(sys.argv[1], None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
)
print("\\n" + json.dumps([
    {
        "name": node["NodeName"],
        "hostname": node["NodeManagerHostname"],
        "address": node["NodeManagerAddress"],
        "alive": node["Alive"],
        "gpus": int(node["Resources"].get("GPU", 0)),
        "cpus": int(node["Resources"].get("CPU", 0)),
    }
    for node in state.node_table()
]))
"""


class NodePython:
    """An interpreter, called with the environment of the node's daemons."""

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment

    def facts(self) -> dict[str, Any]:
        """Versions of Ray, torch, raybench and Python. Raises NodeError where there is no Ray."""
        answer: dict[str, Any] = self._ask(["-c", _FACTS], _PYTHON_SECONDS)
        if not answer.get("ray"):
            raise NodeError(
                f"{self._path} has no Ray; install 'raybench[run]' there, or leave raybench_python unset and raybench "
                "builds an environment"
            )
        return answer

    def table(self, address: str, expected: Collection[str], seconds: float) -> list[dict[str, Any]]:
        """The head's table of nodes, once all expected names are alive in it or time is up."""
        deadline = time.monotonic() + seconds
        while True:
            table: list[dict[str, Any]] = self._ask(["-c", _TABLE, address], _PYTHON_SECONDS)
            if set(expected) <= {node["name"] for node in table if node["alive"]} or time.monotonic() > deadline:
                return table
            time.sleep(0.5)

    def _ask(self, arguments: Sequence[str], seconds: float) -> Any:
        """The last line that a program prints, as JSON."""
        if not os.access(self._path, os.X_OK):
            raise NodeError(f"there is no Python at {self._path}; set raybench_python, or leave it unset")
        ended = run([self._path, *arguments], seconds, self._environment)
        if ended.problem:
            raise NodeError(ended.reason)
        try:
            return json.loads(ended.said.strip().splitlines()[-1])
        except (ValueError, IndexError):
            said = ended.errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise NodeError(f"{self._path} failed: {''.join(said)[:500]}") from None
