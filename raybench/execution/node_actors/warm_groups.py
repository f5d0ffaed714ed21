"""Groups of node actors that outlive their run, by name: found by the next run of the same plan, ended for others."""

import contextlib
import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from raybench import version
from raybench.execution.node_actors.answers import AnswerError, decode_answer
from raybench.execution.placement import PlacementPlan

_PREFIX = "raybench-"
_CLAIM_SECONDS = 3.0
_LOST_SECONDS = 1.0  # a node actor whose ranks are lost may live, and have files to remove


def warm_name(plan: PlacementPlan) -> str:
    """The name under which node actors of a plan wait for the next run: same nodes, shape and code."""
    package = Path(version.__file__).parent
    code = max(path.stat().st_mtime_ns for path in package.rglob("*.py"))
    shape = f"{[node.node_id for node in plan.nodes]} {plan.ranks_per_node} {plan.backend} {version.__version__} {code}"
    return f"{_PREFIX}{hashlib.sha256(shape.encode()).hexdigest()[:16]}"


def node_actor_name(name: str, index: int) -> str:
    """The name of a node actor of a group."""
    return f"{name}-{index}"


def end_node_actors(name: str, count: int) -> None:
    """End the node actors of a group, those of them that there are, with all that they hold."""
    import ray

    for index in range(count):
        with contextlib.suppress(ValueError):
            actor: Any = ray.get_actor(node_actor_name(name, index))
            ray.wait([actor.answer.remote("close")], timeout=_LOST_SECONDS)
            ray.kill(actor, no_restart=True)
    with contextlib.suppress(ValueError):
        ray.util.remove_placement_group(ray.util.get_placement_group(name))


def end_idle_node_actors(node_ids: Collection[str]) -> None:
    """End groups on these nodes that wait for a run of another shape: what they hold is needed now."""
    import ray
    from ray.util import placement_group_table

    with contextlib.suppress(ray.exceptions.RayError):
        for group in placement_group_table().values():
            held = (group.get("bundles_to_node_id") or {}).values()
            if group.get("state") == "CREATED" and not set(held).isdisjoint(node_ids) and _is_idle(str(group["name"])):
                end_node_actors(str(group["name"]), len(held))


def _is_idle(name: str) -> bool:
    """Whether the group waits for a run; its first node actor is then taken, so that no other run takes it."""
    import ray

    if not name.startswith(_PREFIX):
        return False
    try:
        actor: Any = ray.get_actor(node_actor_name(name, 0))
        answer = ray.get(actor.answer.remote("claim"), timeout=_CLAIM_SECONDS)
        return decode_answer("claim", answer) is True
    except (ValueError, ray.exceptions.RayError, AnswerError):
        return False
