"""The check of one operation: one that does nothing leaves every element wrong, whatever type and reduction."""

from importlib import import_module
from typing import Any

import pytest
import torch

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments, Prepared, RankContext
from raybench.benchmarks.messages import collective
from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.registry import SUITES
from raybench.benchmarks.spec import DTYPE_BYTES, REDUCE_OPS

APART = [
    name for name in SUITES["collectives"] if "out_of_place" in OPERATIONS[name].placements and name != "p2p_matrix"
]


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
@pytest.mark.parametrize("world_size", [2, 3, 8])
@pytest.mark.parametrize("name", APART)
def test_an_operation_that_does_nothing_has_no_element_right(
    name: str, world_size: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: Collective = import_module(OPERATIONS[name].module).COLLECTIVE
    monkeypatch.setattr(collective, "synchronize", lambda _: None)
    for op in REDUCE_OPS if OPERATIONS[name].reduces else (None,):
        args = CollectiveArguments(
            rank=0, world_size=world_size, elements=world_size * 300, dtype=dtype, reduce_op=op, root=0
        )
        send, receive = (torch.empty(length, dtype=getattr(torch, dtype)) for length in facts.lengths(args))
        buffers, nothing = Buffers(send=send, receive=receive), Prepared(call=lambda: None)
        wrong = collective._verify(context(world_size), facts, args, buffers, nothing)
        assert wrong == len(receive)


def context(world_size: int) -> RankContext:
    unused: Any = None
    return RankContext(
        rank=0,
        local_rank=0,
        world_size=world_size,
        ranks_on_machine=world_size,
        backend="gloo",
        device=torch.device("cpu"),
        progress=ProgressSlot(),
        store=unused,
    )
