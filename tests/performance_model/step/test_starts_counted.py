"""Kernels that DeepSeek-V3's blocks have and Qwen3's do not, against transformers' code of both, counted on a CPU.

What is dispatched and moves or computes something counts as one kernel: views and allocations do not.
"""

from typing import Any

import pytest

from raybench.performance_model.step.starts import LATENT_KERNELS, SHARED_KERNELS, SORTING_KERNELS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen

TOKENS, HIDDEN = 128, 256
_NO_KERNELS = (
    *("view", "_unsafe_view", "_reshape_alias", "t", "transpose", "permute", "expand", "slice", "split", "select"),
    *("split_with_sizes", "unsqueeze", "squeeze", "unbind", "alias", "detach", "as_strided", "lift_fresh"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
)
_SIZES: dict[str, Any] = {
    "hidden_size": HIDDEN, "num_attention_heads": 4, "num_experts_per_tok": 4, "moe_intermediate_size": 64,
    "num_hidden_layers": 2, "attn_implementation": "sdpa",
}  # fmt: skip
DEEPSEEK = transformers.DeepseekV3Config(
    **_SIZES, num_key_value_heads=4, q_lora_rank=64, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16,
    v_head_dim=48, n_routed_experts=16, n_group=4, topk_group=2, first_k_dense_replace=0,
)  # fmt: skip
QWEN = transformers.Qwen3MoeConfig(**_SIZES, num_key_value_heads=2, head_dim=32, num_experts=16)


class Kernels(TorchDispatchMode):
    """How many were dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.__name__.partition(".")[0].rstrip("_") not in _NO_KERNELS
        return func(*args, **(kwargs or {}))


def counted(module: Any, **given: Any) -> int:
    """Of both passes of a module that has been used before."""
    inputs = torch.randn(1, TOKENS, HIDDEN, requires_grad=True)
    module(inputs, **given)
    with Kernels() as kernels:
        found = module(inputs, **given)
        (found[0] if isinstance(found, tuple) else found).sum().backward()
    return kernels.count


def attention(module: Any, rotation: Any, config: Any) -> int:
    turned = rotation(config)(torch.randn(1, TOKENS, HIDDEN), torch.arange(TOKENS)[None])
    return counted(module(config, 0), position_embeddings=turned, attention_mask=None)


def test_latent_attention_starts_more_kernels() -> None:
    latent = attention(deepseek.DeepseekV3Attention, deepseek.DeepseekV3RotaryEmbedding, DEEPSEEK)
    usual = attention(qwen.Qwen3MoeAttention, qwen.Qwen3MoeRotaryEmbedding, QWEN)
    assert latent - usual == pytest.approx(LATENT_KERNELS, rel=0.2)


def test_an_expert_for_all_tokens_and_a_router_that_sorts_by_groups_start_more() -> None:
    torch.manual_seed(0)
    of_deepseek = deepseek.DeepseekV3DecoderLayer(DEEPSEEK, 0).mlp
    of_qwen = qwen.Qwen3MoeDecoderLayer(QWEN, 0).mlp
    shared = counted(of_deepseek.shared_experts) + 1  # and the sum of both
    assert shared == pytest.approx(SHARED_KERNELS, rel=0.2)
    assert counted(of_deepseek.gate) - counted(of_qwen.gate) == pytest.approx(SORTING_KERNELS, rel=0.4)
