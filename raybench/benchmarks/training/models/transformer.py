"""Decoder-only transformers of any shape in plain PyTorch, with the parameter names that Hugging Face's Llama has.

So a folder of real Llama or Mistral weights loads without a table of names. Attention is PyTorch's own
scaled_dot_product_attention, which chooses the fused kernel of the device.
"""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from raybench.benchmarks.training.models.weight_config import PLAIN, Details, Stretch
from raybench.performance_model.models.transformer import Transformer


class Attention(nn.Module):
    """Causal self-attention with grouped key and value heads."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self._heads, self._shared, self._width = shape.heads, shape.key_value_heads, shape.head_size
        self._rotary = not shape.positions
        sizes = shape.linears()
        qkv = shape.biases or shape.qkv_biases
        self.q_proj = nn.Linear(*sizes["q_proj"], bias=qkv)
        self.k_proj = nn.Linear(*sizes["k_proj"], bias=qkv)
        self.v_proj = nn.Linear(*sizes["v_proj"], bias=qkv)
        self.o_proj = nn.Linear(*sizes["o_proj"], bias=shape.biases)

    def forward(self, hidden: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        """``hidden`` (batch, sequence, hidden) to the same; ``angles`` (sequence, head size / 2) of the rotation."""
        batch, length, _ = hidden.shape
        query = self.q_proj(hidden).view(batch, length, self._heads, self._width).transpose(1, 2)
        key = self.k_proj(hidden).view(batch, length, self._shared, self._width).transpose(1, 2)
        value = self.v_proj(hidden).view(batch, length, self._shared, self._width).transpose(1, 2)
        if self._rotary:
            query, key = rotated(query, angles), rotated(key, angles)
        if self._shared != self._heads:
            key = key.repeat_interleave(self._heads // self._shared, dim=1)
            value = value.repeat_interleave(self._heads // self._shared, dim=1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        output: torch.Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return output


class FeedForward(nn.Module):
    """SwiGLU with three matrices, or GELU with two."""

    def __init__(self, shape: Transformer, details: Details) -> None:
        super().__init__()
        self._gelu = details.gelu
        sizes = shape.linears()
        self.gate_proj = nn.Linear(*sizes["gate_proj"], bias=shape.biases) if shape.gated else None
        self.up_proj = nn.Linear(*sizes["up_proj"], bias=shape.biases)
        self.down_proj = nn.Linear(*sizes["down_proj"], bias=shape.biases)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The same shape out as in."""
        inner = self.up_proj(hidden)
        if self.gate_proj is None:
            inner = functional.gelu(inner, approximate=self._gelu)
        else:
            inner = functional.silu(self.gate_proj(hidden)) * inner
        output: torch.Tensor = self.down_proj(inner)
        return output


class Block(nn.Module):
    """One layer: attention and feed-forward, each normalised before and added back."""

    def __init__(self, shape: Transformer, details: Details) -> None:
        super().__init__()
        self.input_layernorm = _norm(shape, details)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = _norm(shape, details)
        self.mlp = FeedForward(shape, details)

    def forward(self, hidden: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        """``hidden`` (batch, sequence, hidden) to the same."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), angles)
        output: torch.Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return output


class Decoder(nn.Module):
    """Embeddings, blocks and the last normalisation."""

    def __init__(self, shape: Transformer, details: Details, *, checkpointing: bool) -> None:
        super().__init__()
        self._checkpointing = checkpointing
        self._angle_count, self._details = shape.head_size // 2, details
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.embed_positions = nn.Embedding(shape.positions, shape.hidden) if shape.positions else None
        self.layers = nn.ModuleList(Block(shape, details) for _ in range(shape.layers))
        self.norm = _norm(shape, details)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens`` (batch, sequence) to (batch, sequence, hidden)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.embed_tokens(tokens)
        if self.embed_positions is not None:
            hidden = hidden + self.embed_positions(places)
        angles = _angles(places, self._angle_count, self._details)
        for block in self.layers:
            if self._checkpointing and self.training:
                hidden = checkpoint(block, hidden, angles, use_reentrant=False)
            else:
                hidden = block(hidden, angles)
        output: torch.Tensor = self.norm(hidden)
        return output


class LanguageModel(nn.Module):
    """Next-token prediction. The loss is the mean cross entropy over all tokens but the first.

    ``details``: what weights were trained with that the shape does not have.
    """

    def __init__(self, shape: Transformer, *, checkpointing: bool = False, details: Details = PLAIN) -> None:
        super().__init__()
        self.model = Decoder(shape, details, checkpointing=checkpointing)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if shape.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    @property
    def blocks(self) -> list[nn.Module]:
        """The parts that are sharded, and recomputed, one by one."""
        return list(self.model.layers)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens`` (batch, sequence) to the loss, a scalar in float32; evaluated, to (batch, 2) as ``_of_each``."""
        scores = self.lm_head(self.model(tokens))[:, :-1]
        if not self.training:
            return _of_each(scores.float(), tokens[:, 1:])
        return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]).float(), tokens[:, 1:].reshape(-1))


def _of_each(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Of each sample the mean loss of its tokens, and the share of them that has the highest score."""
    losses = functional.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
    return torch.stack((losses.mean(dim=1), (scores.argmax(dim=2) == targets).float().mean(dim=1)), dim=1)


def _norm(shape: Transformer, details: Details) -> nn.Module:
    kind = nn.LayerNorm if shape.norm == "layer" else nn.RMSNorm
    return kind(shape.hidden, eps=details.norm_epsilon)


def _angles(places: torch.Tensor, count: int, details: Details) -> torch.Tensor:
    """Angle of each place and pair of channels: place x base^(-pair / pairs). Shape (sequence, count)."""
    rates = torch.exp(torch.arange(count, device=places.device) * (-math.log(details.rotary_base) / max(count, 1)))
    return places[:, None].float() * _stretched(rates / details.linear, details.stretch)[None, :]


def _stretched(rates: torch.Tensor, stretch: Stretch | None) -> torch.Tensor:
    if stretch is None:
        return rates
    turns = stretch.trained * rates / (2 * math.pi)
    kept = ((turns - stretch.low) / (stretch.high - stretch.low)).clamp(0, 1)
    return rates * (kept + (1 - kept) / stretch.factor)


def rotated(states: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (Su et al. 2021), halves paired as in Llama: (batch, heads, sequence, head size)."""
    count = angles.shape[-1]
    cosine, sine = angles.cos().to(states.dtype), angles.sin().to(states.dtype)
    first, second, rest = states[..., :count], states[..., count : 2 * count], states[..., 2 * count :]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine, rest), dim=-1)
