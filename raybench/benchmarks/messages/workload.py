"""Collectives and point-to-point operations as workloads: ranks sweep messages of growing sizes."""

from functools import partial

from raybench.benchmarks.messages.operations import (
    COLLECTIVES,
    POINT_TO_POINT,
    Operation,
    labels_of_messages,
    parameters_of_messages,
    place_of_message,
    plan_messages,
)
from raybench.benchmarks.workload import Workload


def _workload(kind: str, operations: dict[str, Operation]) -> Workload:
    return Workload(
        kind=kind,
        benchmarks={name: one.module if one.matrix else _SWEEP for name, one in operations.items()},
        labels=labels_of_messages,
        records=None,
        plan=partial(plan_messages, kind),
        parameters=parameters_of_messages,
        place=place_of_message,
        fewer="--sizes",
    )


_SWEEP = "raybench.benchmarks.messages.collective"  # one driver of all operations that are swept over sizes
COLLECTIVE = _workload("collective", COLLECTIVES)
P2P = _workload("p2p", POINT_TO_POINT)
