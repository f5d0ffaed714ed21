"""The first line of a run says how many nodes and ranks it has, in words that fit the numbers."""

from types import SimpleNamespace
from typing import Any

import pytest

from raybench.execution.run_progress import title_of


@pytest.mark.parametrize(
    ("nodes", "world_size", "emulated", "found_by", "title"),
    [
        (1, 1, True, None, "1 EMULATED node on this machine, 1 rank, gloo"),
        (2, 2, True, None, "2 EMULATED nodes on this machine, 2 ranks, gloo"),
        (1, 8, False, "of this machine", "1 node, 8 ranks, gloo; Ray cluster of this machine"),
    ],
)
def test_one_node_and_one_rank_are_no_plural(
    nodes: int, world_size: int, emulated: bool, found_by: str | None, title: str
) -> None:
    plan = SimpleNamespace(nodes=("n",) * nodes, world_size=world_size, backend="gloo")
    planned: Any = SimpleNamespace(plan=plan, emulated=emulated, found_by=found_by, launcher="")
    assert title_of(planned) == title


def test_what_started_the_ranks_is_said_where_it_was_not_ray() -> None:
    plan = SimpleNamespace(nodes=("a", "b"), world_size=16, backend="nccl")
    planned: Any = SimpleNamespace(plan=plan, emulated=False, found_by="", launcher="torchrun")
    assert title_of(planned) == "2 nodes, 16 ranks, nccl; ranks of torchrun"
