"""The activations of a block of raybench's transformer, as autograd keeps them: unique storages saved for backward.

Normalisations are LayerNorm here: RMSNorm is one kernel that keeps its input on a GPU only; on a CPU it is several
operations, each with what it keeps.
"""

import contextlib
from dataclasses import replace

import pytest

from raybench.performance_model.activations import block_activation_bytes_per_token, selective_bytes_per_token
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import Transformer

torch = pytest.importorskip("torch")
training = pytest.importorskip("raybench.benchmarks.training.models.transformer")
PLAIN = pytest.importorskip("raybench.benchmarks.training.models.weight_config").PLAIN
BATCH, LENGTH, WIDTH = 2, 96, 256

GATED = Transformer(name="gated", layers=1, hidden=WIDTH, heads=8, feedforward=704, vocabulary=64, norm="layer")
SHAPES = {
    "gated": GATED,
    "grouped": replace(GATED, kv_heads=2),
    "gelu": replace(GATED, feedforward=1024, gated=False, biases=True, positions=128),
}


def saved_bytes(shape: Transformer, dtype: "torch.dtype", context: contextlib.AbstractContextManager[None]) -> int:
    """Bytes of the distinct storages that the block saves: neither its parameters nor what autocast makes of them."""
    block = training.Block(shape, PLAIN).to(dtype)
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    weights = {shape for parameter in block.parameters() for shape in (parameter.shape, parameter.t().shape)}
    kept: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.shape not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype, requires_grad=True)
    angles = training._angles(torch.arange(LENGTH), shape.head_size // 2, PLAIN)
    flash = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)
    with context, flash, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(hidden, angles)
    assert output.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("precision", ["bf16", "autocast"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_blocks_saved_bytes_are_those_of_the_formula(name: str, precision: str) -> None:
    shape, is_cast = SHAPES[name], precision == "autocast"
    context = torch.autocast("cpu", torch.bfloat16) if is_cast else contextlib.nullcontext()
    parameter_bytes = 4 if is_cast else 2
    setup = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, parameter_bytes=parameter_bytes, compute_bytes=2)
    expected = block_activation_bytes_per_token(shape, setup) * setup.tokens
    assert saved_bytes(shape, torch.float32 if is_cast else torch.bfloat16, context) == pytest.approx(
        expected, rel=0.03
    )


@pytest.mark.parametrize("name", ["gated", "grouped", "gelu"])
def test_selective_checkpointing_keeps_what_every_second_product_gives(name: str) -> None:
    """torchtitan's policy: that of the first, third, ... matrix product in the order in which they are computed."""
    shape, given = SHAPES[name], []
    block = training.Block(shape, PLAIN).to(torch.bfloat16)
    for module in block.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _module, _inputs, output: given.append(output.nbytes))
    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.bfloat16)
    block(hidden, training._angles(torch.arange(LENGTH), shape.head_size // 2, PLAIN))
    assert len(given) == len(shape.linears())
    setup = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, selective=True, parameter_bytes=2)
    attention = 2 * WIDTH + 4 * shape.heads
    counted = 2 * WIDTH + attention + sum(given[::2]) / setup.tokens
    assert selective_bytes_per_token(shape, setup) == pytest.approx(counted)


def test_compiled_selective_checkpointing_does_not_keep_what_the_last_product_gives() -> None:
    """Counted of what torch.compile saves (aot_eager_decomp_partition): without it, of SwiGLU's seven products."""
    setup = TrainingSetup(batch_size=1, sequence_length=LENGTH, selective=True)
    for shape, less in ((GATED, 2 * WIDTH), (SHAPES["gelu"], 0)):  # GELU's last is the sixth, and computed again
        plain, compiled = (selective_bytes_per_token(shape, replace(setup, compiled=said)) for said in (False, True))
        assert plain - compiled == less
