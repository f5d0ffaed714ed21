"""The activations of a block, as autograd really keeps them: unique storages saved for the backward pass.

Normalisations are LayerNorm here: RMSNorm is one kernel that keeps its input on a GPU only; on a CPU it is several
operations, each with what it keeps.
"""

import pytest

from raybench.model.memory import TrainingSetup, block_activation_bytes_per_token
from raybench.model.transformer import Transformer

torch = pytest.importorskip("torch")
F = torch.nn.functional
BATCH, LENGTH = 2, 128


class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.shape = shape
        for name, (inputs, outputs) in shape.linears().items():
            self.add_module(name, torch.nn.Linear(inputs, outputs, bias=shape.biases))
        self.first, self.second = torch.nn.LayerNorm(shape.hidden), torch.nn.LayerNorm(shape.hidden)

    def forward(self, x):  # type: ignore[no-untyped-def]
        shape, (batch, length, _) = self.shape, x.shape
        normed = self.first(x)
        q = self.q_proj(normed).view(batch, length, shape.heads, -1).transpose(1, 2)
        k = self.k_proj(normed).view(batch, length, shape.key_value_heads, -1).transpose(1, 2)
        v = self.v_proj(normed).view(batch, length, shape.key_value_heads, -1).transpose(1, 2)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(attended.transpose(1, 2).reshape(batch, length, -1))
        normed = self.second(x)
        if shape.gated:
            return x + self.down_proj(F.silu(self.gate_proj(normed)) * self.up_proj(normed))
        return x + self.down_proj(F.gelu(self.up_proj(normed)))


def saved_bytes(shape: Transformer) -> int:
    """Bytes of the distinct storages that the block saves, its parameters left out."""
    block = Block(shape).to(torch.bfloat16)
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor):  # type: ignore[no-untyped-def]
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x = torch.randn(BATCH, LENGTH, shape.hidden, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    assert output.requires_grad
    return sum(kept.values())


SHAPES = {
    "gated": Transformer(name="l", layers=1, hidden=256, heads=8, feedforward=704, vocabulary=64, norm="layer"),
    "gpt": Transformer(
        name="g", layers=1, hidden=256, heads=8, feedforward=1024, vocabulary=64, gated=False, norm="layer", biases=True
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_blocks_saved_bytes_are_those_of_the_formula(name: str) -> None:
    shape = SHAPES[name]
    setup = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, parameter_bytes=2, compute_bytes=2)
    expected = block_activation_bytes_per_token(shape, setup) * setup.tokens
    assert saved_bytes(shape) == pytest.approx(expected, rel=0.02)
