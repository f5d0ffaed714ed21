"""The programs that are known, each with what its files say."""

from raybench.errors import unknown_name
from raybench.performance_model.programs.program import Fact, Program, every_name
from raybench.performance_model.training_setup import Strategy

_ALL_FSDP: tuple[Strategy, ...] = ("fsdp", "fsdp-grad-op", "fsdp-hybrid")

TORCHTITAN = Program(
    name="torchtitan",
    title="torchtitan",
    strategies=("ddp", *_ALL_FSDP),
    cuts=("tensor", "context", "pipeline", "expert"),
    selective=True,
    whole_experts=True,  # ranks of experts are those of shards and tensors (torchtitan/models/common/MOE_SHARDING.md)
    starts="torchtitan",
    # some of its configurations compile, most do not; a plan has it told to
    planned=(Fact(name="compiled", value=True, source="--compile.enable, as a plan has it told"),),
    facts=(
        Fact(name="kernels", value="fused", source="torchtitan/config/configs.py, CompileConfig.components",
             needs={"compiled": True}),
        Fact(name="loss", value="fused", source="torchtitan/config/configs.py, CompileConfig.components",
             needs={"compiled": True}),
        Fact(name="kernels", value="plain", source="torchtitan/models/common", needs={"compiled": False}),
        Fact(name="native_attention", value=True,
             source="torchtitan/models/common/attention.py, SDPBackend.CUDNN_ATTENTION first"),
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
    aliases=("megatron", "megatron-core", "nemo", "megatron-bridge"),
    strategies=("ddp", "zero1"),
    cuts=("tensor", "context", "pipeline", "expert"),
    selective="it computes attention again alone, of which flash attention keeps next to nothing",
    starts="megatron-lm",
    facts=(
        Fact(name="kernels", value="fused", source="megatron/core/transformer/transformer_config.py, "
             "transformer_impl", is_default=True),
        Fact(name="keeps_least", value=True, source="megatron/core/fusions/fused_bias_swiglu.py"),
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
    ),
)  # fmt: skip

TRANSFORMERS = Program(
    name="transformers",
    title="transformers",
    aliases=("hf", "huggingface", "trainer", "accelerate", "trl"),
    strategies=("ddp", "zero1", "zero2", "zero3", *_ALL_FSDP),
    cuts=("tensor", "context"),
    methods=("full", "lora", "qlora"),
    starts="transformers",
    planned=(Fact(name="reduces_each", value=True, source="sync_each_batch, as a plan has it told"),),
    facts=(
        Fact(name="loss", value="chunked", source="src/transformers/integrations/liger.py, fused linear cross entropy",
             needs={"kernels": "fused"}),
        Fact(name="loss", value="transformers", source="src/transformers/loss/loss_utils.py, ForCausalLMLoss",
             needs={"kernels": "plain"}),
        Fact(name="loss", value="transformers", source="src/transformers/loss/loss_utils.py, ForCausalLMLoss; "
             "with --kernels fused (Liger) in chunks", is_open=True),
        Fact(name="compiled", value=False, source="src/transformers/training_args.py, torch_compile",
             is_default=True),
        Fact(name="native_attention", value=False, source="src/transformers/integrations/sdpa_attention.py and "
             "flash_attention_2", is_default=True),
        Fact(name="gradient_bytes", value="computed", source="deepspeed/runtime/config.py, grad_accum_dtype",
             strategies=("zero2",), is_default=True),
        Fact(name="reduces_each", value=False, source="src/accelerate/accelerator.py, no_sync", is_default=True,
             strategies=_ALL_FSDP),
        Fact(name="fused_optimizer", value=True, source="src/transformers/training_args.py, adamw_torch_fused",
             is_default=True),
    ),
)  # fmt: skip

PROGRAMS: tuple[Program, ...] = (MEGATRON_LM, TORCHTITAN, TRANSFORMERS)


def program_named(name: str) -> Program:
    """A program by one of its names. Raises UsageError for one that is not known, with all that are."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    found = next((one for one in PROGRAMS if key in one.names), None)
    if found is None:
        raise unknown_name("program", name, every_name(PROGRAMS))
    return found
