"""TRL's loss in chunks, against what is counted of one like it on a GPU that is not there."""

from typing import Any

import pytest

from raybench.performance_model.memory.loss import LossMemory
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from tests.performance_model.memory.on_absent_gpu import counted_by

WAYS: dict[str, dict[str, Any]] = {
    "base in 16 bits, autocast": {"lora_rank": 8},
    "base in fp32, autocast": {"lora_rank": 8, "base_bytes": 4},
    "bf16": {"lora_rank": 8, "parameter_bytes": 2},
    "base in fp32, autocast, trained": {},
    "bf16, trained": {"parameter_bytes": 2},
    "fp32, trained": {"compute_bytes": 4},
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, float]]:
    """Bytes, forward and backward."""
    found: dict[str, tuple[float, float]] = counted_by("counted_chunks", tmp_path_factory.mktemp("guard"))
    return found


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("width", [64, 4096])
def test_what_trl_holds_in_its_loss_is_counted(counted: dict[str, tuple[float, float]], name: str, width: int) -> None:
    """Wide: copies of the output layer are most of it. Narrow: the chunk's logits are."""
    model = preset_named("gpt2").resized(vocabulary=32768, hidden=width, heads=4)
    setup = TrainingSetup(batch_size=1, sequence_length=1024, loss="chunked-fp32", **WAYS[name])
    told = LossMemory(model=model, setup=setup)
    forward, backward = counted[f"{name}, {width}"]
    assert told.forward == pytest.approx(forward, rel=0.05)
    assert told.backward == pytest.approx(backward, rel=0.05)


def test_with_tokens_enough_the_output_layer_is_what_it_takes() -> None:
    """A larger output layer takes more however few tokens a chunk has, and more tokens take next to nothing."""
    setup = TrainingSetup(batch_size=1, sequence_length=4096, loss="chunked-fp32", lora_rank=8)
    longer = TrainingSetup(batch_size=1, sequence_length=8192, loss="chunked-fp32", lora_rank=8)
    model = preset_named("llama-8b")
    layer = model.token_table_parameters
    told = LossMemory(model=model, setup=setup)
    assert told.forward > 6 * layer
    assert LossMemory(model=model, setup=longer).forward == told.forward
