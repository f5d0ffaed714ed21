"""An option that changes nothing in what is asked for is refused, with what it is of; where it counts it is taken."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions

_H100 = EstimateOptions(model="llama-3.2-1b", gpu="H100", sequence_length=1024)
_MIXTURE = replace(_H100, model="Qwen/Qwen1.5-MoE-A2.7B")
_LORA = replace(_H100, lora_rank=8)
OF_NO_EFFECT = (
    (_H100, {"strategy": "fsdp", "overlap": True}, "of zero1 and ddp, and --strategy is fsdp", {"strategy": "ddp"}),
    (_H100, {"strategy": "zero1", "program": "deepspeed", "overlap": False}, "--no-overlap is of DDP and Megatron-LM",
     {"program": "megatron-lm"}),
    (_H100, {"strategy": "zero1", "overlap": True}, "--overlap is of DDP and Megatron-LM",
     {"strategy": "distributed-optimizer"}),
    (_H100, {"strategy": "zero2", "overlap": False}, "--no-overlap is of zero1", {"strategy": "ddp"}),
    (_H100, {"strategy": "fsdp", "bucket_view": False}, "--bucket-view is of ddp", {"strategy": "ddp"}),
    (_H100, {"strategy": "ddp", "reduce_each": True}, "--reduce-each is of fsdp", {"strategy": "fsdp"}),
    (_H100, {"strategy": "zero3", "reduce_each": False}, "--reduce-last is of fsdp", {"strategy": "HYBRID_SHARD"}),
    (_H100, {"strategy": "ddp", "reduce_dtype": "bf16"}, "--reduce-dtype is of fsdp", {"tensor_parallel": 2}),
    (_H100, {"strategy": "zero2", "reduce_dtype": "bf16"}, "which has --gradient-dtype", {"strategy": "fsdp"}),
    (_H100, {"lora_dropout": True}, "--lora-dropout is of LoRA", {"lora_rank": 4}),
    (_H100, {"autocast": False}, "--autocast is of LoRA", {"lora_rank": 4}),
    (_H100, {"sequence_parallel": False}, "--sequence-parallel is of --tensor-parallel", {"tensor_parallel": 2}),
    (_H100, {"expert_tensor_parallel": 1}, "llama-3.2-1b has none", {"model": _MIXTURE.model}),
    (_MIXTURE, {"token_dispatcher": "deepep"}, "--token-dispatcher is of experts that ranks share",
     {"expert_parallel": 4}),
    (_H100, {"overlap_experts": True, "expert_parallel": 1},
     "--overlap-experts is of experts", {"model": _MIXTURE.model, "expert_parallel": 4}),
    (_H100, {"force_load_balancing": True, "expert_parallel": 1}, "--force-load-balancing is of experts",
     {"model": _MIXTURE.model, "expert_parallel": 4}),
    (_H100, {"native_attention": True, "no_flash_attention": True}, "--no-flash-attention has none",
     {"no_flash_attention": False}),
    (_H100, {"masked_attention": True, "context_parallel": 2}, "--context-parallel cuts them", {"context_parallel": 1}),
    (_LORA, {"dtype": "fp16", "parameter_dtype": "bf16"}, "two types of 16 bits", {"parameter_dtype": "fp32"}),
)  # fmt: skip


@pytest.mark.parametrize(("asked", "given", "words", "counts"), OF_NO_EFFECT)
def test_what_changes_nothing_is_refused_and_taken_where_it_counts(
    asked: EstimateOptions, given: dict[str, Any], words: str, counts: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=words) as error:
        estimate(replace(asked, **given))
    assert str(error.value).endswith("; leave it out")
    assert estimate(replace(asked, **(given | counts))).report.memory.peak > 0


def test_an_import_path_with_arguments_is_told_to_be_a_function() -> None:
    with pytest.raises(UsageError, match=r"net:Net\(64\) has arguments.*def make\(\): return"):
        estimate(replace(_H100, model="net:Net(64)"))
    with pytest.raises(UsageError, match="there is no model"):
        estimate(replace(_H100, model="llama(64)"))
