"""Which models torchtitan has, so that it can start a way that cuts them: the module and configuration of each."""

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


def torchtitan_config(model: str) -> tuple[str, str] | None:
    """What ``--module`` and ``--config`` are told for a model of that name; None where torchtitan has none of it."""
    return _TORCHTITAN.get(model)
