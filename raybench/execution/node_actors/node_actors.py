"""The node actors of a run, placed by Ray: one bundle a node, strictly spread, and calls that always end."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from raybench.errors import ClusterUnavailableError, RaybenchError
from raybench.execution.node_actors.answers import AnswerError, decode_answer
from raybench.execution.node_actors.calls import CallError, Calls, RayCalls
from raybench.execution.node_actors.ray_actor import RayNodeActor
from raybench.execution.node_actors.warm_groups import end_idle_node_actors, node_actor_name, warm_name
from raybench.execution.placement import Candidate, PlacementPlan
from raybench.execution.ray_cluster.lost_nodes import LostNodesError, raylet_problems
from raybench.execution.ray_cluster.ray_calls import call_with_timeout
from raybench.execution.ray_cluster.session import Session

PLACE_SECONDS = 30.0
NODE_ACTOR_SECONDS = 60.0
_CLAIM_SECONDS = 3.0
_PATIENCE_SECONDS = 5.0  # a node that does not answer twice, so far apart, is lost; a short pause of it costs no run
_COURTESY_SECONDS = 1.0  # for what is just being freed; then node actors that are kept warm for another run give way
_RAYLET_SECONDS = 2.0
_INSTALL = "Install raybench in the Python that Ray uses on every node, in the version of this machine."
_CLOSE_SECONDS = 6.0
_LOST_SECONDS = 1.0  # a node actor whose ranks are lost may live, and have files to remove
# A driver beats every five seconds (heartbeat.py), and one that is silent for half as long is ended by its command.
LEASE_SECONDS = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActorHandle:
    """The node actor of one node of the plan."""

    index: int
    node: Candidate
    actor: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeActors:
    """All node actors of a run and the placement group that holds their nodes' resources."""

    handles: tuple[NodeActorHandle, ...]
    group: Any
    lost: set[int] = field(default_factory=set)  # indices of nodes that have gone
    name: str | None = None  # under which the node actors can be found by a later run
    keep_warm_seconds: float = 0.0
    share_a_host: bool = False  # one process holds the ranks of all nodes: those of an embedded cluster
    calls: Calls = field(default_factory=RayCalls)

    def ask(
        self, seconds: float, question: str, *arguments: object, lost_seconds: float = 0.0
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Ask every node actor at once. Returns answers and, for nodes that did not answer in time, why, by node index.

        Node actors in ``lost`` are called as well, and waited for no longer than ``lost_seconds``: a dead machine costs
        its silence once.
        """
        asked = {handle.actor.answer.remote(question, *arguments): handle for handle in self.handles}
        answers: dict[int, Any] = {}
        silent: dict[int, str] = {}
        waited = [reference for reference, handle in asked.items() if handle.index not in self.lost]
        ready = self.calls.wait(waited, len(waited), seconds)[0] if waited else []
        if lost_seconds and len(waited) < len(asked):
            self.calls.wait([one for one in asked if one not in waited], len(asked) - len(waited), lost_seconds)
        for reference in ready:
            try:
                answers[asked[reference].index] = decode_answer(question, self.calls.result(reference))
            except Exception as error:  # noqa: BLE001 - one node's error must not hide the others' answers
                silent[asked[reference].index] = reason_of(error)
        for handle in self.handles:
            if handle.index not in answers and handle.index not in silent:
                lost = handle.index in self.lost
                silent[handle.index] = "lost before" if lost else f"no answer within {seconds:.0f} s"
        return answers, silent

    def close(self) -> str | None:
        """End what the node actors started, then the node actors, then give the resources back; or leave them warm.

        Never takes long. Returns why that did not succeed, None where it did.
        """
        return call_with_timeout(_CLOSE_SECONDS, self._close, "giving back the nodes")

    def _close(self) -> None:
        if self.keep_warm_seconds:
            _, silent = self.ask(4.0, "rest", self.keep_warm_seconds)
            if not silent:
                return
        self.ask(4.0, "close", lost_seconds=_LOST_SECONDS)
        if self.group is None:  # nobody placed them: their launcher started them, and they end by themselves
            return
        import ray

        for handle in self.handles:
            ray.kill(handle.actor, no_restart=True)
        ray.util.remove_placement_group(self.group)


def reason_of(error: BaseException) -> str:
    """What a remote error says, without Ray's wrapping and the remote traceback."""
    if isinstance(error, CallError | AnswerError):
        return str(error)[:300]
    from raybench.execution.ray_cluster.data_only import NodeError  # imports Ray

    if isinstance(error, NodeError):
        return str(error)[:300]
    cause = getattr(error, "cause", None) or error
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0] if lines else 'no text'}"[:300]


def place_node_actors(
    session: Session,
    plan: PlacementPlan,
    keep_warm_seconds: float = 0.0,
    outliving: Callable[[str, int], None] = lambda *_: None,
) -> NodeActors:
    """Place one node actor on each node of the plan, or take those that an earlier run of the same plan left warm.

    ``outliving`` is told the group's name, and how many node actors are in it, where they do not end with this process.
    Raises ClusterUnavailableError when the resources are not free, LostNodesError for nodes that do not answer.
    """
    warm = None if session.emulated else warm_node_actors(plan)
    if warm is not None:
        outliving(warm_name(plan), len(plan.nodes))
        return replace(warm, keep_warm_seconds=keep_warm_seconds)
    name = None if session.emulated or not keep_warm_seconds or _name_is_taken(plan) else warm_name(plan)
    if name is not None:
        outliving(name, len(plan.nodes))
    group = _place_group(plan, name)
    handles = tuple(_place_node_actor(session, plan, group, index, name) for index in range(len(plan.nodes)))
    return NodeActors(
        handles=handles,
        group=group,
        name=name,
        keep_warm_seconds=keep_warm_seconds if name else 0.0,
        share_a_host=session.emulated,
    )


def _name_is_taken(plan: PlacementPlan) -> bool:
    """Whether node actors of another run have the name: this run then has its own, which are not kept."""
    import ray

    try:
        ray.util.get_placement_group(warm_name(plan))
    except ValueError:
        return False
    return True


def _place_group(plan: PlacementPlan, name: str | None) -> Any:
    import ray

    try:
        group = ray.util.placement_group(
            plan.bundles,
            strategy="STRICT_SPREAD",
            bundle_label_selector=[{"ray.io/node-id": node.node_id} for node in plan.nodes],
            name=name or "",
            lifetime="detached" if name else None,
        )
    except (ValueError, ray.exceptions.RayError) as error:
        raise ClusterUnavailableError(
            f"Ray does not place this run: {reason_of(error)}; where another run of the same shape is starting with "
            "--keep-warm, start again when it measures"
        ) from error
    try:
        _wait_for(group, plan)
    except RaybenchError:
        ray.util.remove_placement_group(group)
        raise
    return group


def _wait_for(group: Any, plan: PlacementPlan) -> None:
    """Raises LostNodesError for nodes that do not answer meanwhile, ClusterUnavailableError where all do."""
    if group.wait(_COURTESY_SECONDS):
        return
    end_idle_node_actors({node.node_id for node in plan.nodes})
    deadline = Deadline(PLACE_SECONDS)
    lost: dict[str, str] = {}
    while not deadline.passed:
        if group.wait(min(deadline.left, _PATIENCE_SECONDS)):
            return
        before, lost = lost, raylet_problems(plan.nodes, _RAYLET_SECONDS)
        if again := {name: why for name, why in lost.items() if name in before}:
            raise LostNodesError(again, phase="placement")
    raise ClusterUnavailableError(
        f"the resources for this run ({plan.bundles[0]} on each of {len(plan.nodes)} nodes) did not become free "
        f"within {PLACE_SECONDS:.0f} s; end what holds them ('ray list actors' shows it) or ask for less"
    )


def _place_node_actor(
    session: Session, plan: PlacementPlan, group: Any, index: int, name: str | None
) -> NodeActorHandle:
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    remote: Any = ray.remote(RayNodeActor)
    options: dict[str, Any] = {"name": node_actor_name(name, index), "lifetime": "detached"} if name else {}
    actor = remote.options(
        num_cpus=1,
        num_gpus=plan.bundles[index].get("GPU", 0),
        max_concurrency=4,  # a poll waits while other calls are served
        max_restarts=0,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
        **options,
    ).remote(session.host_socket, None if session.emulated else LEASE_SECONDS, name, session.early)
    return NodeActorHandle(index=index, node=plan.nodes[index], actor=actor)


def warm_node_actors(plan: PlacementPlan) -> NodeActors | None:
    """Node actors that wait for a run of this plan, now taken; None where there are none, or another run has them."""
    import ray

    name = warm_name(plan)
    try:
        group = ray.util.get_placement_group(name)
        actors = [ray.get_actor(node_actor_name(name, index)) for index in range(len(plan.nodes))]
    except ValueError:
        return None
    handles = tuple(
        NodeActorHandle(index=index, node=node, actor=actor)
        for index, (node, actor) in enumerate(zip(plan.nodes, actors, strict=True))
    )
    warm = NodeActors(handles=handles, group=group, name=name)
    answers, _ = warm.ask(_CLAIM_SECONDS, "claim")
    if all(answers.get(handle.index) for handle in handles):
        return warm
    if not any(found is False for found in answers.values()):  # nobody has them: some have ended
        ray.util.remove_placement_group(group)
    return None


def facts_of(actors: NodeActors, plan: PlacementPlan, seconds: float = NODE_ACTOR_SECONDS) -> list[dict[str, Any]]:
    """What each node says of itself, in plan order. Raises LostNodesError naming the nodes that do not."""
    answers, silent = actors.ask(seconds, "facts")
    if silent:
        reasons = {plan.nodes[index].name: f"its node actor did not start ({why})" for index, why in silent.items()}
        found = raylet_problems([plan.nodes[index] for index in silent], _RAYLET_SECONDS)
        raise LostNodesError(reasons | found, phase="starting the node actors", advice=[] if found else [_INSTALL])
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
