"""How replicas share a model, by the names that programs have for it."""

import re
from typing import Literal

from raybench.errors import unknown_name

Strategy = Literal["ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid", "zero1", "zero2", "zero3"]
STRATEGIES: tuple[Strategy, ...] = ("ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid", "zero1", "zero2", "zero3")
# Refused in a pipeline by the programs that have both: DeepSpeed (deepspeed/runtime/pipe/engine.py,
# zero_optimization_stage), Colossal-AI (booster/plugin/hybrid_parallel_plugin.py, zero_stage) and PaddleNLP
# (trainer/training_args.py, SHARD_GRAD_OP).
WITHOUT_PIPELINE: tuple[Strategy, ...] = ("zero2", "zero3")
MEGATRONS_NAME = "distributed-optimizer"  # of zero1: nobody else calls it so
# The same under the names that DeepSpeed, Megatron-LM, accelerate and FSDP have for it.
STRATEGY_ALIASES: dict[str, Strategy] = {
    "no-shard": "ddp",
    "zero-1": "zero1",
    MEGATRONS_NAME: "zero1",
    "zero-2": "zero2",
    "zero-3": "zero3",
    "fsdp2": "fsdp",
    "full-shard": "fsdp",
    "shard-grad-op": "fsdp-grad-op",
    "hybrid-shard": "fsdp-hybrid",
    "hsdp": "fsdp-hybrid",
}
# deepspeed_zero3, deepspeed_stage_3 (Lightning), ds_z3 (LLaMA-Factory), stage2 (PaddleNLP)
_STAGE = re.compile(r"(?:(?:deepspeed|ds)-)?(?:zero|z|stage|zero-stage)-?([123])")
_ADAPTERS = {
    "lora": "adapters are --lora-rank 16, with any of them",
    "qlora": "adapters over 4-bit weights are --qlora --lora-rank 16, with any of them",
}  # which raybench train has as strategies


def is_named_by_megatron(name: str) -> bool:
    """Whether a strategy is given by Megatron-LM's own name, so that it is Megatron-Core's and not DeepSpeed's."""
    return _key(name) == MEGATRONS_NAME


def _key(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def strategy_named(name: str) -> Strategy:
    """A strategy by its name, or by that of another framework. Raises UsageError for one that there is not."""
    key = _key(name)
    found = STRATEGY_ALIASES.get(key) or next((one for one in STRATEGIES if one == key), None)
    stage = _STAGE.fullmatch(key)
    found = next((one for one in STRATEGIES if stage and one == f"zero{stage[1]}"), found)
    if found is None:
        adapters = _ADAPTERS.get(key, "")
        raise unknown_name("strategy", name, (*STRATEGIES, *STRATEGY_ALIASES), else_=adapters)
    return found
