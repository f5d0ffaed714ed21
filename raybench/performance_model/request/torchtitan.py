"""Which models torchtitan has, so that it can start a way that it alone has: the module and configuration of each."""

from dataclasses import replace
from functools import cache

from raybench.performance_model.models.config import model_of_config
from raybench.performance_model.models.counted_model import CountedModel
from raybench.performance_model.models.presets import PRESETS
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.programs.table import TORCHTITAN
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import with_program
from raybench.performance_model.setup.training_setup import TrainingSetup

_OPTIMIZERS = ("adam", "adamw")
_DTYPES = ("bf16", "fp8")

# torchtitan 0.3 (2026), ``torchtitan/models/*/config_registry.py``: as many parameters as the released model.
_TORCHTITAN = {
    "llama-3.1-8b": ("llama3", "llama3_8b"),
    "llama-3.1-70b": ("llama3", "llama3_70b"),
    "llama-3.1-405b": ("llama3", "llama3_405b"),
    "Qwen/Qwen3-0.6B": ("qwen3", "qwen3_0_6b"),
    "Qwen/Qwen3-1.7B": ("qwen3", "qwen3_1_7b"),
    "Qwen/Qwen3-14B": ("qwen3", "qwen3_14b"),
    "Qwen/Qwen3-32B": ("qwen3", "qwen3_32b"),
    "Qwen/Qwen3-30B-A3B": ("qwen3", "qwen3_30b_a3b"),
    "deepseek-ai/DeepSeek-V3": ("deepseek_v3", "deepseek_v3_671b"),
    "openai/gpt-oss-20b": ("gpt_oss", "gpt_oss_20b"),
    "openai/gpt-oss-120b": ("gpt_oss", "gpt_oss_120b"),
}


def torchtitan_config(model: Transformer) -> tuple[str, str] | None:
    """What ``--module`` and ``--config`` are told for a model of that shape; None where torchtitan has none of it.

    By its shape, as a ``config.json``, a name on the Hub and a preset are of one model, and one in other sizes is not.
    """
    return None if isinstance(model, CountedModel) else _shapes().get(_shape(model))


def _shape(model: Transformer) -> Transformer:
    """Without what torchtitan takes for any: its name, and for how many tokens its positions were made."""
    return replace(model, name="", context=1)


@cache
def _shapes() -> dict[Transformer, tuple[str, str]]:
    models = (PRESETS.get(name) or model_of_config(name) for name in _TORCHTITAN)
    return dict(zip(map(_shape, models), _TORCHTITAN.values(), strict=True))


def by_torchtitan(request: EstimateRequest, setup: TrainingSetup) -> EstimateRequest | None:
    """The setup as torchtitan runs it, by its facts; None where it has not the model, the optimizer or the type.

    Nor where the model drops: none of torchtitan's does.

    torch.compile, which the command that is printed asks for unless it is ruled out, fuses kernels and loss.
    """
    is_known = setup.optimizer in _OPTIMIZERS and request.dtype in _DTYPES and not setup.lora_rank and setup.is_usual
    if not is_known or request.model.drops or torchtitan_config(request.model) is None:
        return None
    told = replace(setup, gradient_bytes=4)
    own = with_program(replace(request, setup=told, program=TORCHTITAN), planned=True)
    # of no program that was named: what its releases do in different ways is as in the one that the command is of
    taken = replace(own, program=None, taken=(), asked=None, kernels_known=True, loss_known=True)
    taken = replace(taken, timing=TORCHTITAN.timing)
    return replace(taken, setup=replace(own.setup, loss_open=False))
