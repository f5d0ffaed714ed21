"""The agents of a run's nodes, placed by Ray: one bundle a node, strictly spread, and calls that always end."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from raybench.cluster.node import NodeAgent
from raybench.cluster.placement import Candidate, Plan
from raybench.cluster.session import Session
from raybench.errors import ClusterUnavailableError, IncompleteRunError

_PLACE_SECONDS = 30.0
_START_SECONDS = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The agent of one node of the plan."""

    index: int
    node: Candidate
    actor: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """All agents of a run and the placement group that holds their nodes' resources."""

    agents: tuple[Agent, ...]
    group: Any

    def ask(self, seconds: float, call: Callable[[Agent], Any]) -> tuple[dict[int, Any], dict[int, str]]:
        """Call every agent at once. Returns answers and, for nodes that did not answer in time, why, by node index."""
        import ray  # noqa: PLC0415

        asked = {call(agent): agent for agent in self.agents}
        answers: dict[int, Any] = {}
        silent: dict[int, str] = {}
        ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=seconds)
        for reference in ready:
            try:
                answers[asked[reference].index] = ray.get(reference)
            except Exception as error:  # noqa: BLE001 - one node's error must not hide the others' answers
                silent[asked[reference].index] = reason_of(error)
        for reference in late:
            silent[asked[reference].index] = f"no answer within {seconds:.0f} s"
        return answers, silent

    def close(self) -> None:
        """End what the agents started, then the agents, then give the resources back. Never takes long."""
        import ray  # noqa: PLC0415

        self.ask(8.0, lambda agent: agent.actor.close.remote())
        for agent in self.agents:
            ray.kill(agent.actor, no_restart=True)
        ray.util.remove_placement_group(self.group)


def reason_of(error: BaseException) -> str:
    """What a remote error says, without Ray's wrapping and the remote traceback."""
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0] if lines else 'no text'}"[:300]


def place_agents(session: Session, plan: Plan) -> Agents:
    """Place one agent on each node of the plan.

    Raises ClusterUnavailableError when the resources are not free, IncompleteRunError when an agent does not start.
    """
    import ray  # noqa: PLC0415
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

    selectors = [{"ray.io/node-id": node.node_id} for node in plan.nodes]
    group = ray.util.placement_group(plan.bundles, strategy="STRICT_SPREAD", bundle_label_selector=selectors)
    if not group.wait(_PLACE_SECONDS):
        ray.util.remove_placement_group(group)
        raise ClusterUnavailableError(
            f"the resources for this run ({plan.bundles[0]} on each of {len(plan.nodes)} nodes) did not become free "
            f"within {_PLACE_SECONDS:.0f} s; end what holds them ('ray list actors' shows it) or ask for less"
        )
    remote: Any = ray.remote(NodeAgent)
    agents = tuple(
        Agent(
            index=index,
            node=node,
            actor=remote.options(
                num_cpus=1,
                num_gpus=plan.bundles[index].get("GPU", 0),
                max_concurrency=4,  # a poll waits while other calls are served
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
            ).remote(session.host_socket),
        )
        for index, node in enumerate(plan.nodes)
    )
    return Agents(agents=agents, group=group)


def facts_of(agents: Agents, plan: Plan) -> list[dict[str, Any]]:
    """What each node says of itself, in plan order. Raises IncompleteRunError naming the nodes that do not."""
    answers, silent = agents.ask(_START_SECONDS, lambda agent: agent.actor.facts.remote())
    if silent:
        names = "; ".join(f"{plan.nodes[index].name}: {why}" for index, why in sorted(silent.items()))
        raise IncompleteRunError(
            f"the agent did not start on {len(silent)} of {len(plan.nodes)} nodes ({names}). raybench must be "
            "installed in the Python that Ray uses on every node, in the version of this machine."
        )
    return [answers[index] for index in range(len(plan.nodes))]


class Deadline:
    """A moment by which something must have happened."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, never negative."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left == 0.0


def names_of_nodes(nodes: Sequence[Candidate]) -> str:
    """Node names for a message."""
    return ", ".join(node.name for node in nodes)
