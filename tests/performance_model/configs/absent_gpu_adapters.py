"""Steps of transformers' Llama with peft's adapters on a GPU that is not there: the most bytes of each, as JSON.

``LD_PRELOAD=guard.so python -m tests.performance_model.configs.absent_gpu_adapters`` (``absent_gpu.py`` says what that
is). The loss is transformers' own of today, attention FlashAttention's kernel, blocks are computed again or not.
"""

import gc
import json
import sys
from typing import Any
from unittest import mock

import torch
from peft import LoraConfig, get_peft_model
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM

from tests.performance_model.absent_gpu import Counted, pretended

_STEPS = 2  # the optimizer makes its state in the first


def flash(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **_: Any) -> torch.Tensor:
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True)[0]


def no_mask(**_: Any) -> None:
    """None is needed, nor a mock, which would hold what it is called with."""


def counted_peak(
    sizes: dict[str, int],
    *,
    batch: int,
    length: int,
    rank: int,
    targets: list[str],
    again: bool,
    autocast: bool,
    base: str,
) -> int:
    """Bytes at the fullest moment of a step under autocast, of a base in its type and adapters in fp32.

    Rank 0: of all parameters, in fp32.
    """
    config = LlamaConfig(**sizes, attn_implementation="sdpa", tie_word_embeddings=False)
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config).train()
    if rank:
        model = get_peft_model(model.to(getattr(torch, base)), LoraConfig(r=rank, target_modules=targets))
        model.enable_input_require_grads()
    if again:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    with (
        pretended(),
        mock.patch("torch.nn.functional.scaled_dot_product_attention", flash),
        mock.patch("transformers.models.llama.modeling_llama.create_causal_mask", no_mask),
        FakeTensorMode(allow_non_fake_inputs=True),
        Counted() as counted,
    ):
        model.to_empty(device="cuda")
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, foreach=True)
        tokens = torch.zeros(batch, length, dtype=torch.long, device="cuda")
        for _ in range(_STEPS):
            gc.collect()
            counted.peak = counted.now()
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
            del loss  # as Trainer lets it go, and with it the embeddings' gradient
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return counted.peak


if __name__ == "__main__":
    print(json.dumps([counted_peak(**case) for case in json.load(sys.stdin)]))
