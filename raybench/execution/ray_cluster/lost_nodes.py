"""Nodes and heads that do not answer, on whatever machine: asked at their own ports, since Ray tells of them late.

Ray itself takes half a minute and longer to see that a daemon has ended, and never says that one is stopped.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from raybench.errors import IncompleteRunError
from raybench.execution.incidents.incident import Incident
from raybench.execution.placement import Candidate
from raybench.execution.ranks.rank_host_process import RankHostError
from raybench.execution.ray_cluster.ray_calls import connection_problem, grpc_problem

_MOST_AT_ONCE = 64
_RANK_HOST_ERROR = re.compile(rf"(?:[\w.]*\.)?{RankHostError.__name__}: ")  # as the last line of a traceback


class LostNodesError(IncompleteRunError):
    """Nodes without which the run cannot go on. ``reasons``: why, by the node's name."""

    def __init__(self, reasons: Mapping[str, str], *, phase: str, advice: Sequence[str] = ()) -> None:
        text = "; ".join(f"{name}: {why}" for name, why in sorted(reasons.items()))
        super().__init__(f"{len(reasons)} node{'s' * (len(reasons) > 1)} lost during {phase}: {text}")
        self._reasons, self._phase, self._advice = dict(reasons), phase, tuple(advice)

    def incidents(self, *, share_a_host: bool) -> Iterator[Incident]:
        """One for each node; for a rank host that all nodes share, one without a node."""
        for name, why in sorted(self._reasons.items()):
            lost = rank_host_incident(name, why, self._phase, share_a_host=share_a_host)
            yield lost or Incident(kind="node-lost", node=name, reason=why, step=self._phase, advice=self._advice)


def rank_host_incident(name: str, why: str, step: str, *, share_a_host: bool) -> Incident | None:
    """The incident where a node's actor says that the rank host is lost; None where it says something else.

    The node itself answers then. The nodes of an embedded cluster share one rank host, and none is to blame.
    """
    said = _RANK_HOST_ERROR.match(why)
    if said is None:
        return None
    node = None if share_a_host else name
    return Incident(kind="rank-host-lost", reason=why[said.end() :], node=node, step=step, component="rank host")


def head_incident(address: str, problem: str, nodes: Iterable[Candidate], step: str | None) -> Incident:
    """The head at HOST:PORT does not answer; its node is named where exactly one of ``nodes`` is at that host."""
    host = urlsplit(f"//{address}").hostname
    names = [node.name for node in nodes if node.address == host]
    node = names[0] if len(names) == 1 else None
    where = "" if node else f" at {address}"
    reason = f"the head of the Ray cluster{where} does not answer any more ({problem})"
    return Incident(kind="cluster-lost", node=node, reason=reason, step=step, component="GCS")


def raylet_problems(nodes: Sequence[Candidate], seconds: float) -> dict[str, str]:
    """Of each node whose raylet has ended or says nothing within that time: what was seen, by the node's name."""
    asked = [node for node in nodes if node.port]
    with ThreadPoolExecutor(max(min(len(asked), _MOST_AT_ONCE), 1)) as pool:
        found = pool.map(lambda node: _raylet_problem(node, seconds), asked)
        return {node.name: problem for node, problem in zip(asked, found, strict=True) if problem is not None}


def _raylet_problem(node: Candidate, seconds: float) -> str | None:
    address = f"[{node.address}]:{node.port}" if ":" in node.address else f"{node.address}:{node.port}"
    problem = connection_problem(address, seconds)
    if problem is None and os.environ.get("RAY_USE_TLS", "0") != "1":
        problem = grpc_problem(address, seconds)
    return problem and f"its raylet (Ray's daemon, port {node.port}) does not answer: {problem}"
