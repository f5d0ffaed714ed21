"""The assignments and variables of all ranks of a launch: pure, from the plan and what the nodes said of themselves."""

from collections.abc import Mapping
from typing import Any

from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.documents.run.facts import NodeFacts, typed
from raybench.execution.placement import device_index
from raybench.execution.record import Planned
from raybench.execution.variables import node_variables

_LATER_SECONDS = 60.0  # the backend's own time limit comes after ours, which knows more


def assignments_of(planned: Planned, master_port: int, timeout_seconds: float) -> list[list[RankAssignment]]:
    """One assignment a rank, by node. The rendezvous is on the first node's ``master_port``."""
    plan = planned.plan
    on_gpu = plan.backend == "nccl"  # gpu: ray-masking
    return [
        [
            RankAssignment(
                rank=rank,
                local_rank=local_rank,
                world_size=plan.world_size,
                ranks_on_device=_sharing(planned),
                ranks_on_node=plan.ranks_per_node,
                ranks_on_machine=plan.world_size if planned.emulated else plan.ranks_per_node,
                backend=plan.backend,
                master_address=plan.nodes[0].address,
                master_port=master_port,
                timeout_seconds=timeout_seconds + _LATER_SECONDS,
                device_index=_device(planned.facts[index], local_rank) if on_gpu else None,  # gpu: ray-masking
            )
            for local_rank, rank in enumerate(plan.ranks_of(index))
        ]
        for index in range(len(plan.nodes))
    ]


def _sharing(planned: Planned) -> int:
    """Ranks that share a GPU: more than one only where emulated nodes have fewer GPUs than ranks."""
    if planned.plan.backend != "nccl" or not planned.emulated:  # gpu: ray-shared-gpu
        return 1
    known = [typed(NodeFacts, facts) for facts in planned.facts]
    devices = {(facts.visible_devices or "", one) for facts in known for one in facts.gpu_ids or ()}
    return -(-planned.plan.world_size // max(len(devices), 1))


def _device(facts: Mapping[str, Any], local_rank: int) -> int:
    """The GPU of a rank among those that its node's processes see: the one at its place among those Ray granted."""
    known = typed(NodeFacts, facts)
    granted = known.gpu_ids or range(len(known.gpus or ()))
    return device_index(str(granted[local_rank % len(granted)]), known.visible_devices)


def variables_of(planned: Planned, run_id: str) -> list[dict[str, str | None]]:
    """The environment variables of the ranks, by node.

    Emulated nodes share a machine; with NCCL each gets a host id of its own, so that their traffic takes the network.
    """
    plan = planned.plan
    split = planned.emulated and plan.backend == "nccl" and len(plan.nodes) > 1  # gpu: ray-shared-gpu
    shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if _sharing(planned) > 1 else {}  # NCCL refuses that from 2.30.3 on
    return [
        node_variables(shared | planned.variables, facts, node.address, f"{run_id}-{node.name}" if split else None)
        for node, facts in zip(plan.nodes, planned.facts, strict=True)
    ]
