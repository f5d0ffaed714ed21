"""FSDP1 over frozen blocks: what its backward pass leaves gathered without the hook that PyTorch has from 2.1 on."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp import _runtime_utils as runtime
from torch.distributed.fsdp.wrap import CustomPolicy
from torch.multiprocessing.spawn import spawn

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions

_WIDTH, _BLOCKS = 32, 6
_HOOK = "_register_post_backward_reshard_only_hook"


class _Adapter(nn.Sequential):
    """Of two narrow layers."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(_WIDTH, 2), nn.Linear(2, _WIDTH))


class _Block(nn.Module):
    """A frozen layer, and an adapter that FSDP has in a unit of its own, as by peft's policy."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(_WIDTH, _WIDTH).requires_grad_(False)
        self.adapter = _Adapter()

    def forward(self, states: Tensor) -> Tensor:
        return states + torch.tanh(self.frozen(states) + self.adapter(states))


def _gathered() -> list[int]:
    """Blocks that are gathered as each is in its backward pass, the last one first."""
    model = FullyShardedDataParallel(
        nn.Sequential(*(_Block() for _ in range(_BLOCKS))),
        auto_wrap_policy=CustomPolicy(lambda one: isinstance(one, (_Block, _Adapter))),
        device_id=torch.device("cpu"),
    )
    units = [one for one in model.modules() if isinstance(one, FullyShardedDataParallel)]
    units = [one for one in units if isinstance(one.module, _Block)]
    seen: list[int] = []

    def look(*_: object) -> None:
        whole = (one._handle.flat_param._full_param_padded for one in units)
        seen.append(sum(one.untyped_storage().size() > 0 for one in whole))

    for one in units:
        one.module.frozen.register_full_backward_pre_hook(look)
    model(torch.randn(3, _WIDTH, requires_grad=True)).sum().backward()
    return seen


def _count(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))  # fmt: skip
    today = _gathered()
    setattr(runtime, _HOOK, lambda *_, **__: None)
    before = _gathered()
    if rank == 0:
        Path(f"{store}.json").write_text(json.dumps([today, before]))
    dist.destroy_process_group()


def test_frozen_blocks_are_left_gathered_without_the_hook(tmp_path: Path) -> None:
    """One block and the next, which is prefetched; without it one more with each block that is through."""
    assert hasattr(runtime, _HOOK)
    spawn(_count, (str(tmp_path / "store"),), nprocs=2)
    today, before = json.loads((tmp_path / "store.json").read_text())
    assert len(today) == len(before) == _BLOCKS
    assert max(today) <= 2
    assert before == sorted(before)
    assert before[-1] == _BLOCKS


def test_they_are_all_there_in_the_first_blocks_backward_pass() -> None:
    model, layout = preset_named("llama-8b"), Layout(world_size=8, ranks_per_node=8)
    setup = TrainingSetup(batch_size=1, sequence_length=1024, strategy="fsdp", lora_rank=8, checkpointing=True)
    first, left = (
        estimate_memory(model, one, layout).moments["first block, backward"]
        for one in (setup, replace(setup, frozen_blocks="left gathered"))
    )
    assert left - first == (model.layers - 1) * model.parameters_per_layer * setup.compute_bytes


@pytest.mark.parametrize(
    ("program", "is_open"),
    [
        *(("transformers==4.31", True), ("transformers==4.35", False)),
        *(("llama-recipes==0.0.1", True), ("llama-recipes", False)),
    ],
)
def test_it_is_open_before_pytorch_2_1(program: str, is_open: bool) -> None:
    """What is most likely has them resharded: who has such a release may have a newer PyTorch, as its README asks."""
    options = EstimateOptions(model="meta-llama/Llama-2-13b-hf", gpu="A10G", gpus_per_node=8, strategy="fsdp",
                              lora_rank=8, activation_checkpointing=True, program=program)  # fmt: skip
    memory = estimate(options).report.memory
    whole = 2 * 13.0e9
    assert (memory.peak > whole) is is_open
    assert memory.likely_peak is not None
    assert memory.likely_peak < whole
    assert memory.fits is (None if is_open else True)
