"""The programs that are known, each with what its files say."""

from raybench.errors import unknown_name
from raybench.performance_model.programs.of_megatron import OF_MEGATRON, compiles_functions_alone
from raybench.performance_model.programs.of_others import OF_OTHERS
from raybench.performance_model.programs.of_pytorch import OF_PYTORCH
from raybench.performance_model.programs.of_transformers import OF_THE_TRAINER, OF_TRANSFORMERS, WITH_LIGER, WITH_PEFT
from raybench.performance_model.programs.program import Fact, Lack, Program, every_name
from raybench.performance_model.training_setup import Strategy

_ALL_FSDP: tuple[Strategy, ...] = ("fsdp", "fsdp-grad-op", "fsdp-hybrid")

TORCHTITAN = Program(
    name="torchtitan",
    title="torchtitan",
    timing="torchtitan",
    strategies=(*_ALL_FSDP, "ddp"),  # torchtitan/config/configs.py, data_parallel_shard_degree -1
    cuts=("tensor", "context", "pipeline", "expert"),
    lacks=(
        Lack(option="--reduce-last", name="reduces_each", value=False, source="torchtitan/trainer.py sets no gradient "
             "sync"),
    ),
    selective=True,
    whole_experts=True,  # ranks of experts are those of shards and tensors (torchtitan/models/common/MOE_SHARDING.md)
    starts="torchtitan",
    # some of its configurations compile, most do not; a plan has it told to
    planned=(Fact(name="compiled", value=True, source="--compile.enable, as a plan has it told"),),
    facts=(
        Fact(name="kernels", value="fused", source="torchtitan/config/configs.py, CompileConfig.components",
             needs={"compiled": True}),
        Fact(name="loss", value="fused", source="torchtitan/config/configs.py, CompileConfig.components; in chunks "
             "from April 2026 on (torchtitan/components/loss.py)", needs={"compiled": True}, is_open=True),
        Fact(name="loss", value="plain", source="torchtitan/components/loss.py, cross_entropy_loss; in chunks from "
             "April 2026 on", needs={"compiled": False}, is_open=True),
        Fact(name="kernels", value="plain", source="torchtitan/models/common/nn_modules.py; PyTorch's RMSNorm is one "
             "kernel from 2.8 on", needs={"compiled": False}, is_open=True),
        # whose instructions attention takes is open: cuDNN's from May 2025 on, FlexAttention's in 2026
        Fact(name="masked_attention", value=False, source="torchtitan/models/common/attention.py, is_causal"),
        Fact(name="reduce_bytes", value=4, source="torchtitan/config/configs.py, mixed_precision_reduce"),
        Fact(name="parameter_bytes", value=4, source="torchtitan/config/configs.py, training.dtype",
             is_default=True),
        Fact(name="reduces_each", value=True, source="torchtitan/trainer.py, which sets no gradient sync"),
        Fact(name="on_streams", value=False, source="torchtitan/models/llama3/parallelize.py, fully_shard"),
        Fact(name="fused_optimizer", value=True, source="torchtitan/components/optimizer.py, implementation",
             is_default=True),
    ),
)  # fmt: skip

MEGATRON_LM = Program(
    name="megatron-lm",
    title="Megatron-LM",
    aliases=("megatron", "megatron-core", "megatron-swift"),
    strategies=("ddp", "zero1"),
    lacks=(compiles_functions_alone("megatron/core/jit.py"),),
    cuts=("tensor", "context", "pipeline", "expert"),
    selective="it computes attention again alone, of which flash attention keeps next to nothing",
    recomputes_modules=True,
    starts="megatron-lm",
    facts=(
        Fact(name="kernels", value="fused", source="megatron/core/transformer/transformer_config.py, "
             "transformer_impl", is_default=True),
        Fact(name="keeps_least", value=True, source="megatron/core/fusions/fused_bias_swiglu.py",
             needs={"kernels": "fused"}),
        Fact(name="compiled", value=False, source="megatron/core/transformer"),
        Fact(name="loss", value="fused-fp32", source="megatron/core/tensor_parallel/cross_entropy.py",
             is_default=True),
        Fact(name="native_attention", value=True, source="megatron/core/transformer/transformer_config.py, "
             "attention_backend", is_default=True),
        Fact(name="masked_attention", value=False, source="megatron/core/transformer/enums.py, AttnMaskType.causal"),
        Fact(name="gradient_bytes", value=4, source="megatron/training/arguments.py, "
             "accumulate_allreduce_grads_in_fp32", strategies=("zero1",), is_default=True),
        Fact(name="fused_optimizer", value=True, source="megatron/core/optimizer/__init__.py, FusedAdam"),
        Fact(name="joined_projections", value=True, source="megatron/core/transformer/attention.py, linear_qkv"),
        Fact(name="drops", value=True, source="megatron/core/transformer/transformer_config.py, hidden_dropout 0.1; 0 "
             "in examples/llama/train_llama3_8b_h100_fp8.sh", is_open=True),
    ),
)  # fmt: skip

TRANSFORMERS = Program(
    name="transformers",
    title="transformers",
    timing="transformers",
    aliases=("hf", "huggingface", "trainer", "accelerate", "peft", "fastchat", "lmflow"),
    strategies=("ddp", "zero1", "zero2", "zero3", *_ALL_FSDP),
    cuts=("tensor", "context"),
    methods=("full", "lora", "qlora"),
    # accelerate's ParallelismConfig: PyTorch's context_parallel, balanced unless it is told otherwise
    # (torch/distributed/tensor/experimental, enable_load_balance)
    deals_sequences=True,
    starts="transformers",
    planned=(Fact(name="reduces_each", value=True, source="sync_each_batch, as a plan has it told"),),
    facts=(*WITH_LIGER, *WITH_PEFT, *OF_THE_TRAINER),
)  # fmt: skip

PROGRAMS: tuple[Program, ...] = (
    *(MEGATRON_LM, TORCHTITAN, TRANSFORMERS),
    *OF_PYTORCH,
    *OF_MEGATRON,
    *OF_TRANSFORMERS,
    *OF_OTHERS,
)


def program_named(name: str) -> Program:
    """A program by one of its names. Raises UsageError for one that is not known, with all that are."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    found = next((one for one in PROGRAMS if key in one.names), None)
    if found is None:
        raise unknown_name("program", name, every_name(PROGRAMS))
    return found
