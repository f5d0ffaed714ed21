"""What releases of transformers have, and which of them programs over it need: facts where a release is said.

Read in November 2026 of the wheels of 4.28, 4.30, 4.31, 4.35 to 4.49, 5.0, 5.1 and 5.2, and of each program's tags.
"""

from collections.abc import Mapping
from types import MappingProxyType

from raybench.performance_model.programs.program import FSDP, Cut, Fact, Method
from raybench.performance_model.programs.releases import Releases, Requirement
from raybench.performance_model.setup.strategies import Strategy

_ADAPTERS: tuple[Method, ...] = ("lora", "qlora")
_WITHOUT_ZERO: tuple[Strategy, ...] = ("ddp", *FSDP)
_ZERO: tuple[Strategy, ...] = ("zero1", "zero2", "zero3")


def since(release: str) -> Releases:
    """Of transformers from that release on."""
    return Releases(of="transformers", since=release)


def until(release: str) -> Releases:
    """Of transformers before that release."""
    return Releases(of="transformers", until=release)


# The first release whose code of these models takes PyTorch's scaled_dot_product_attention unless it is told otherwise
# (_supports_sdpa in transformers/models/*/modeling_*.py): before it scores are stored but with flash-attn. Falcon had
# one of its own from the start; models that came later came with it. "": a model whose code is not known, which is
# mostly Llama's. Of code that is not in transformers (Baichuan, ChatGLM, Qwen 1) nothing is said.
_SDPA_SINCE: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "4.36": ("", "llama", "gpt_bigcode"),
    "4.37": ("mistral", "mixtral"),
    "4.39": ("phi", "stablelm"),
    "4.42": ("gpt2", "gpt_neox"),
    "4.45": ("phi3",),
    "4.47": ("opt",),
})  # fmt: skip
_NEVER_SDPA = ("bloom", "codegen", "gpt_neo", "gptj", "mpt")
# Whose loss is on logits as they are, in 16 bits where nothing casts them, up to 4.47, and of the second up to 4.48.
_NARROW_LOGITS = ("bloom", "falcon", "gpt2", "gpt_bigcode", "gptj", "opt")

WITH_SINKS = ("gpt_oss",)  # families whose softmax has sinks, of which few kernels know

STORED_SCORES: tuple[Fact, ...] = (
    *(
        Fact(name="flash_attention", value=False, families=families, releases=until(release), is_default=True,
             source=f"transformers/modeling_utils.py, _autoset_attn_implementation: no sdpa before {release}; "
             "with flash-attn --flash-attention")
        for release, families in _SDPA_SINCE.items()
    ),
    Fact(name="flash_attention", value=False, families=_NEVER_SDPA, is_default=True,
         source="transformers/models/bloom/modeling_bloom.py and others of its age: attention of their own, up to 5; "
         "with flash-attn --flash-attention"),
    # programs' examples name a kernel of FlashAttention 3, who names none stores scores
    Fact(name="flash_attention", value=True, families=WITH_SINKS, is_open=True,
         source="transformers/models/gpt_oss/modeling_gpt_oss.py, _supports_sdpa False: eager, unless it is told "
         "kernels-community/vllm-flash-attn3, its like, or flex_attention"),
)  # fmt: skip
_SHIFTED = "transformers/loss/loss_utils.py, ForCausalLMLoss: shift_logits, a copy, up to 4.48"
_WHOLE = "transformers/loss/loss_utils.py, ForCausalLMLoss: labels are shifted, from 4.49 on"
_PLAIN: Mapping[str, str] = MappingProxyType({"kernels": "plain"})
# Before what a program has of it today: with kernels that are plain, and where its users may take Liger's, whose own
# comes first.
LOSS_OF_PLAIN_KERNELS: tuple[Fact, ...] = (
    Fact(name="loss", value="narrow", strategies=_ZERO, families=_NARROW_LOGITS, releases=until("4.48"), needs=_PLAIN,
         source="transformers/models/gpt2/modeling_gpt2.py, CrossEntropyLoss of logits that nothing casts up"),
    Fact(name="loss", value="narrow", strategies=_ZERO, families=("gpt_neox",), releases=until("4.49"), needs=_PLAIN,
         source="transformers/models/gpt_neox/modeling_gpt_neox.py, CrossEntropyLoss of logits that nothing casts up"),
    Fact(name="loss", value="narrow", strategies=_ZERO, families=("llama",), releases=until("4.31"), needs=_PLAIN,
         source="transformers/models/llama/modeling_llama.py: logits.float() from 4.31 on"),
    Fact(name="loss", value="transformers", releases=until("4.49"), needs=_PLAIN, source=_SHIFTED),
    Fact(name="loss", value="transformers-whole", releases=since("4.49"), needs=_PLAIN, source=_WHOLE),
)  # fmt: skip
LOSS_OF_RELEASES: tuple[Fact, ...] = (
    *LOSS_OF_PLAIN_KERNELS,
    Fact(name="loss", value="transformers", releases=until("4.49"), is_open=True,
         source=f"{_SHIFTED}; in chunks with --kernels fused (Liger)"),
    Fact(name="loss", value="transformers-whole", releases=since("4.49"), is_open=True,
         source=f"{_WHOLE}; in chunks with --kernels fused (Liger)"),
)  # fmt: skip
# 4.43.0 and bitsandbytes 0.43.2 are of the same week, July 2024; who has one of before may have a newer other.
FROZEN_INPUTS: tuple[Fact, ...] = (
    Fact(name="frozen_inputs", value="kept", methods=("qlora",), releases=until("4.43"), is_open=True,
         source="bitsandbytes/autograd/_functions.py, MatMul4Bit: inputs saved up to 0.43.1 (July 2024)"),
)  # fmt: skip
# PyTorch 2.1 is of October 2023, as 4.34; 4.35 is of November. Who has one of before may have a newer PyTorch.
FROZEN_GATHERED: tuple[Fact, ...] = (
    Fact(name="frozen_blocks", value="perhaps left gathered", strategies=FSDP, methods=_ADAPTERS,
         releases=until("4.35"), is_open=True,
         source="torch/distributed/fsdp/_runtime_utils.py, _register_post_backward_hooks: none on what is frozen "
         "before PyTorch 2.1 (pytorch pull request 101982)"),
)  # fmt: skip
LOOSE_EXPERTS = ("gpt_oss", "llama4_text")  # of transformers 4 as well
# bitsandbytes packs linear layers. Experts are such up to transformers 4, but for models that never had any (dbrx), and
# one parameter of three dimensions since: then some programs pack them by themselves, and which do is not known.
PACKED_EXPERTS: tuple[Fact, ...] = (
    Fact(name="packs_experts", value=False, methods=("qlora",), families=("dbrx", "granitemoe", "granitemoeshared"),
         source="transformers/models/dbrx/modeling_dbrx.py, DbrxExpertGLU: nn.Parameter, which bitsandbytes leaves"),
    Fact(name="packs_experts", value=False, methods=("qlora",), families=LOOSE_EXPERTS, releases=until("5"),
         source="transformers/models/gpt_oss/modeling_gpt_oss.py, GptOssExperts, and models/llama4/modeling_llama4.py, "
         "Llama4TextExperts: nn.Parameter since they are there"),
    Fact(name="packs_experts", value=True, methods=("qlora",), releases=until("5"),
         source="transformers/models/mixtral/modeling_mixtral.py: a list of nn.Linear up to 4"),
)  # fmt: skip
GATHERED_TO_SAVE: tuple[Fact, ...] = (
    Fact(name="gathers_to_save", value=True, strategies=FSDP, methods=("full",), releases=until("4.30"),
         source="transformers/trainer.py, save_model: FSDP's state_dict() on each GPU, up to 4.29; accelerate's plugin "
         "gathers in the CPU's memory since"),
)  # fmt: skip
# Of the Trainer. With DeepSpeed, whose file may name an optimizer of its own, that stays open.
TRAINER_OF_RELEASES: tuple[Fact, ...] = (
    Fact(name="fused_optimizer", value=False, strategies=_WITHOUT_ZERO, releases=until("4.32"), is_open=True,
         source="transformers/optimization.py, adamw_hf, a weight at a time, up to 4.31; adamw_torch makes lists"),
    Fact(name="fused_optimizer", value=False, strategies=_WITHOUT_ZERO, releases=until("5"), is_default=True,
         source="transformers/training_args.py, optim: adamw_torch, from 4.32 to 4"),
    Fact(name="fused_optimizer", value=True, strategies=_WITHOUT_ZERO, releases=since("5"), is_default=True,
         source="transformers/training_args.py, optim: adamw_torch_fused, from 5 and PyTorch 2.8 on"),
    # PyTorch 2.1 and 4.34.1 are of the same month, October 2023
    Fact(name="second_list", value=True, releases=Releases(of="transformers", since="4.32", until="4.35"), is_open=True,
         needs={"fused_optimizer": False}, source="torch/optim/adamw.py, _multi_tensor_adamw: denom beside "
         "exp_avg_sq_sqrt in PyTorch 2.0, in its place from 2.1 on"),
    Fact(name="holds_inputs", value=True, strategies=FSDP, methods=_ADAPTERS, needs={"checkpointing": True},
         releases=until("5"), is_default=True, source="transformers/modeling_utils.py, use_reentrant True, up to 4"),
    Fact(name="holds_inputs", value=False, strategies=FSDP, methods=_ADAPTERS, needs={"checkpointing": True},
         releases=since("5"), is_default=True, source="transformers/modeling_utils.py, use_reentrant False, from 5 on"),
    *FROZEN_INPUTS,
    *FROZEN_GATHERED,
)  # fmt: skip
# parallelism_config of its TrainingArguments, by which accelerate cuts layers and sequences.
CUTS_OF_RELEASES: Mapping[Cut, Releases] = MappingProxyType({"tensor": since("4.56"), "context": since("4.56")})
# What a plan tells the Trainer, which knows of it from 4.40 on and did not heed it in between.
SYNC_EACH = "sync_each_batch, as a plan has it told"
PLANNED_OF_RELEASES: tuple[Fact, ...] = (
    Fact(name="reduces_each", value=False, strategies=FSDP, releases=until("4.40"),
         source="transformers/trainer_pt_utils.py, AcceleratorConfig: no gradient_accumulation_kwargs before 4.40"),
    Fact(name="reduces_each", value=False, strategies=FSDP, releases=Releases(of="transformers", since="4.46",
         until="5.2"), source="transformers/trainer.py, no_sync whatever sync_each_batch says, from 4.46 to 5.1"),
)  # fmt: skip


def _needs(source: str, *bounds: tuple[str, str, str]) -> tuple[Requirement, ...]:
    """Of transformers: each until which of a program's releases, the least and the most."""
    return tuple(
        Requirement(of="transformers", source=source, until=before, least=least, most=most)
        for before, least, most in bounds
    )


def _pins(source: str, *pinned: tuple[str, str]) -> tuple[Requirement, ...]:
    """The same of single releases."""
    return _needs(source, *((before, release, release) for before, release in pinned))


TRL_NEEDS = _needs(
    "setup.py and pyproject.toml",
    ("0.7.5", "4.18", ""), ("0.11", "4.31", ""), ("0.12", "4.40", ""), ("0.18", "4.46", ""), ("0.19", "4.50", ""),
    ("0.20", "4.51", ""), ("0.21", "4.53.2", ""), ("0.23", "4.55", ""), ("", "4.56.1", ""),
)  # fmt: skip
AXOLOTL_NEEDS = (
    *_needs("requirements.txt: of its repository that day", ("0.4", "4.30", "")),
    *_pins("requirements.txt", ("0.5", "4.37.0"), ("0.5.1", "4.46.1"), ("0.6", "4.46.3")),
    *_needs("requirements.txt", ("0.7", "4.46.3", "")),
    *_pins(
        "requirements.txt",
        ("0.7.1", "4.48.3"), ("0.8", "4.49.0"), ("0.8.1", "4.50.3"), ("0.9", "4.51.0"), ("0.10", "4.51.3"),
        ("0.10.1", "4.52.3"), ("0.11", "4.52.4"), ("0.12", "4.53.1"), ("0.12.2", "4.55.0"), ("0.13", "4.55.2"),
        ("0.13.1", "4.57.1"), ("0.14", "4.57.6"), ("0.15", "5.0.0"), ("0.16", "5.3.0"), ("0.16.1", "5.4.0"),
        ("0.17", "5.5.0"), ("0.18", "5.9.0"),
    ),
    *_needs("pyproject.toml", ("", "5.14.1", "")),
)  # fmt: skip
LLAMA_FACTORY_NEEDS = _needs(
    "requirements.txt and pyproject.toml",
    ("0.1.8", "4.29.1", ""), ("0.2", "4.30", ""), ("0.2.1", "4.31", ""), ("0.4", "4.31", "4.34.1"),
    ("0.5", "4.36.1", ""), ("0.5.2", "4.36.2", ""), ("0.8", "4.37.2", ""), ("0.9", "4.41.2", ""),
    ("0.9.1", "4.41.2", "4.45.0"), ("0.9.2", "4.41.2", "4.46.1"), ("0.9.3", "4.41.2", "4.49.0"),
    ("0.9.4", "4.45.0", "4.52.4"), ("0.9.5", "4.51.0", "4.57.1"), ("", "4.55.0", ""),
)  # fmt: skip
FMS_HF_TUNING_NEEDS = _needs(
    "pyproject.toml",
    ("1.0", "", ""), ("2.1", "4.42", "4.57"), ("2.2", "4.42", "4.49"), ("2.6", "4.45", "4.45"),
    ("2.8", "4.46", "4.48"), ("3.0", "4.49", "4.50"), ("", "4.49", ""),
)  # fmt: skip
MS_SWIFT_NEEDS = _needs(
    "requirements/framework.txt, with what its trl needs",
    ("1.5.4", "4.33", ""), ("1.7", "4.33", "4.37"), ("2.0", "4.33", "4.40"), ("2.1", "4.33", "4.41"),
    ("2.2", "4.33", "4.42"), ("2.4", "4.33", "4.44"), ("2.5", "4.33", "4.45"), ("3.1", "4.40", "4.47"),
    ("", "4.46", ""),
)  # fmt: skip
LLAMA_RECIPES_NEEDS = _needs(
    "requirements.txt", ("0.0.2", "4.31", ""), ("0.0.3", "4.40", ""), ("0.0.4.post1", "4.43.1", ""), ("", "4.45.1", "")
)
H2O_LLMSTUDIO_NEEDS = (
    *_pins(
        "Pipfile and pyproject.toml",
        ("0.0.3", "4.28.1"), ("0.0.4", "4.29.2"), ("0.0.5", "4.30.1"), ("0.0.6", "4.30.2"), ("1", "4.31.0"),
        ("1.2", "4.34.0"), ("1.4", "4.36.1"), ("1.5", "4.38.2"), ("1.6", "4.40.1"), ("1.9", "4.40.2"),
        ("1.12", "4.43.1"), ("1.13", "4.44.2"), ("1.14", "4.45.0"), ("1.14.3", "4.50.3"),
    ),
    *_needs("pyproject.toml", ("", "4.56.1", "")),
)  # fmt: skip
OPEN_INSTRUCT_NEEDS = _needs("pyproject.toml", ("0.1", "", ""), ("0.3", "4.57", ""), ("", "5.4", ""))
UNSLOTH_NEEDS = _needs(
    "pyproject.toml",
    ("2024.5", "", ""), ("2024.8", "4.38.2", ""), ("2024.12", "4.43.2", ""), ("2025.8", "4.46.1", ""),
    ("", "4.51.3", ""),
)  # fmt: skip
