"""What the head of a running Ray cluster says of it, asked in a process of its own.

Ray's C++ ends the process that asks, with a stack trace and without Python's clean-up, where it finds no token; and it
logs to standard error. Here that ends a child, and its last words become the reason.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raybench.errors import ClusterUnavailableError

_ANSWER_SECONDS = 30.0
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFacts:
    """Alive nodes of a cluster as (address, host name), and what it runs; a version is empty where it is not told."""

    nodes: tuple[tuple[str, str], ...]
    ray: str = ""
    python: str = ""


def head_facts(address: str) -> HeadFacts:
    """Ask the head at HOST:PORT. Raises ClusterUnavailableError, with the reason, when it does not tell."""
    problem = token_problem(os.environ)
    if problem is not None:
        raise ClusterUnavailableError(f"the Ray cluster at '{address}' cannot be asked: {problem}")
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-m", "raybench.execution.ray_cluster.head_facts", address],
            env=os.environ | {"RAY_BACKEND_LOG_LEVEL": "error"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterUnavailableError(
            f"the head of the Ray cluster at '{address}' does not answer within {_ANSWER_SECONDS:.0f} s; this machine "
            f"has Ray {version('ray')}, and the cluster may have another. {elsewhere(address)}"
        ) from None
    if child.returncode != 0:
        raise ClusterUnavailableError(
            f"the head of the Ray cluster at '{address}' does not answer: {reason_of(child.stderr)} (this machine has "
            f"Ray {version('ray')}; a cluster with token authentication needs RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH)"
        )
    content = json.loads(child.stdout.splitlines()[-1])
    nodes = tuple((str(one), str(name)) for one, name in content["nodes"])
    return HeadFacts(nodes=nodes, ray=content["ray"], python=content["python"])


def elsewhere(address: str) -> str:
    """What to do where this machine cannot be the one that measures."""
    return f"Or call raybench run on a node of the cluster, such as its head: ssh {address.rpartition(':')[0]}"


def check_versions(facts: HeadFacts, address: str) -> None:
    """Raises ClusterUnavailableError where a driver of this machine cannot talk to the cluster.

    Ray asks for the same release of itself, and for the same minor version of Python.
    """
    here = version("ray"), platform.python_version()
    ray_differs = facts.ray not in ("", here[0])
    python_differs = facts.python != "" and _minor(facts.python) != _minor(here[1])
    if not ray_differs and not python_differs:
        return
    wanted = [f"pip install ray=={facts.ray}"] if ray_differs else []
    wanted += [f"a Python {_minor(facts.python)} environment"] if python_differs else []
    raise ClusterUnavailableError(
        f"this machine has Ray {here[0]} and Python {here[1]}, the cluster at '{address}' Ray {facts.ray} and Python "
        f"{facts.python}: whoever measures needs the same Ray and the same minor version of Python. Here: "
        f"{' in '.join(wanted)}. {elsewhere(address)}"
    )


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def token_problem(environment: Mapping[str, str]) -> str | None:
    """Why Ray would find no token with these variables, in the order in which it looks; None where it finds one.

    Without one it would end the process that asks. RAY_AUTH_MODE other than ``token`` needs none.
    """
    if environment.get("RAY_AUTH_MODE", "").lower() != "token" or environment.get("RAY_AUTH_TOKEN"):
        return None
    named = environment.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else Path(environment.get("HOME") or Path.home(), ".ray", "auth_token")
    source = "RAY_AUTH_TOKEN_PATH names" if named else "RAY_AUTH_MODE=token without a variable means"
    try:
        if path.read_bytes().strip():
            return None
        wrong = "which is empty"
    except OSError as error:
        wrong = f"which cannot be read ({error.strerror})"
    return f"its token is missing: {source} {path}, {wrong}; 'raybench cluster up' creates a new token for its cluster"


def reason_of(said: str) -> str:
    """The reason in what Ray wrote to standard error: of ``Check failed: ...``, else the last line; no stack trace."""
    failed = re.search(r"Check failed: (?:!?[\w.()]+ )?(.*)", said)
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith((" ", "***"))]
    text = failed[1] if failed else (lines[-1] if lines else "it said nothing")
    return " ".join(text.split())[:_LONGEST_REASON].rstrip(" .")


def _ask(address: str) -> dict[str, Any]:
    from ray._private.state import GlobalState  # in the child only
    from ray._raylet import GcsClient, GcsClientOptions  # type: ignore[attr-defined]  # compiled

    state: Any = GlobalState()
    options = GcsClientOptions.create(address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
    state._initialize_global_state(options)
    alive = [node for node in state.node_table() if node["Alive"]]
    written = GcsClient(address=address).internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster")
    metadata = json.loads(written) if written else {}
    return {
        "nodes": [(node["NodeManagerAddress"], node.get("NodeManagerHostname", "")) for node in alive],
        "ray": str(metadata.get("ray_version", "")),
        "python": str(metadata.get("python_version", "")),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_ask(sys.argv[1])) + "\n")
    sys.stdout.flush()
    os._exit(0)  # Ray's threads are of no more use
