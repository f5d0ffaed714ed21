"""Programs that cut models as Megatron-LM does, each with what its files say (read in November 2026)."""

from raybench.performance_model.programs.program import COMPUTED, Fact, Lack, Program
from raybench.performance_model.programs.releases import Releases

_OF_MEGATRON = "megatron/core"


def compiles_functions_alone(source: str) -> Lack:
    """Single functions are compiled at most, and no option has all of a model compiled."""
    return Lack(option="--compile", name="compiled", value=True, source=f"{source}: single functions at most")


# Of Megatron-Core, whoever trains with it: a lean SwiGLU, whose SiLU is computed again, and an Adam that is one kernel.
LEAN_KERNELS = Fact(name="keeps_least", value=True, source=f"{_OF_MEGATRON}/fusions/fused_bias_swiglu.py",
                    needs={"kernels": "fused"})  # fmt: skip
FUSED_ADAM = Fact(name="fused_optimizer", value=True, source=f"{_OF_MEGATRON}/optimizer/__init__.py, FusedAdam")
JOINED_PROJECTIONS = Fact(name="joined_projections", value=True,
                          source=f"{_OF_MEGATRON}/transformer/attention.py, linear_qkv")  # fmt: skip
# Logits are cast to fp32, and the loss is computed on them in place.
LOSS_IN_PLACE = Fact(name="loss", value="fused-fp32", source=f"{_OF_MEGATRON}/tensor_parallel/cross_entropy.py",
                     is_default=True)  # fmt: skip
# Of gpt-oss, whose softmax has sinks: by Megatron-Core's own attention before Transformer Engine 2.8 (September 2025),
# and by its unfused one where cuDNN has no kernel for them, as with packed samples (its issues 2318 and 2483).
STORED_SINKS = Fact(
    name="flash_attention",
    value=True,
    source="nemo/collections/llm/gpt/model/gpt_oss.py of 2025 and src/megatron/bridge/models/gpt_oss/"
    "gpt_oss_provider.py of 0.1: AttnBackend.local; fused by Transformer Engine 2.8 and later, as cuDNN has it",
    families=("gpt_oss",),
    is_open=True,
)
OF_MEGATRON_CORE: tuple[Fact, ...] = (
    LEAN_KERNELS,
    Fact(name="compiled", value=False, source=f"{_OF_MEGATRON}/transformer"),
    Fact(
        name="gradient_buffers",
        value=True,
        source=f"{_OF_MEGATRON}/distributed/param_and_grad_buffer.py",
        strategies=("zero1",),
    ),
    Fact(name="masked_attention", value=False, source=f"{_OF_MEGATRON}/transformer/enums.py, AttnMaskType.causal"),
    FUSED_ADAM,
    JOINED_PROJECTIONS,
    STORED_SINKS,
    Fact(
        name="has_8bit_inputs",
        value=True,
        source="transformer_engine/pytorch/module/linear.py, which saves its input as it was quantized",
        needs={"dtype": "fp8", "kernels": "fused"},
    ),
)

MEGATRON_BRIDGE = Program(
    name="megatron-bridge",
    title="Megatron-Bridge",
    aliases=("nemo", "nemo-framework"),
    lacks=(compiles_functions_alone(f"{_OF_MEGATRON}/jit.py"),),
    strategies=("ddp", "zero1"),
    unplanned=("fsdp", "fsdp-hybrid"),  # src/megatron/bridge/perf_recipes/llama/gb200/llama3.py, use_megatron_fsdp
    cuts=("tensor", "context", "pipeline", "expert"),
    methods=("full", "lora", "qlora"),
    selective="it computes attention again alone, of which flash attention keeps next to nothing",
    recomputes_modules=True,
    predicts_ahead=True,  # megatron/core/transformer/multi_token_prediction.py
    # src/megatron/bridge/models/transformer_config.py, _set_moe_expert_tensor_parallel_default
    usually_whole_experts=True,
    settings="train.micro_batch_size={batch} train.global_batch_size={samples} model.seq_length={length}",
    facts=(
        Fact(name="kernels", value="fused", source="src/megatron/bridge/models/gpt_provider.py, "
             "transformer_engine_layer_spec", is_default=True),
        Fact(name="loss", value="fused", source="src/megatron/bridge/recipes/llama/h100/llama3.py, "
             "cross_entropy_fusion_impl te", methods=("full",), is_default=True),
        Fact(name="loss", value="fused-fp32", source="src/megatron/bridge/recipes/llama/h100/llama3.py, no fused "
             "cross entropy with adapters", is_default=True),
        Fact(name="native_attention", value=True, source="src/megatron/bridge/recipes/llama/h100/llama3.py, "
             "attention_backend of Transformer Engine", is_default=True),
        Fact(name="gradient_bytes", value=4, source="src/megatron/bridge/training/mixed_precision.py, "
             "grad_reduce_in_fp32; bf16 in src/megatron/bridge/perf_recipes/_common.py and NeMo's performance recipes",
             is_open=True),
        Fact(name="stores_remainders", value=False, source="src/megatron/bridge/recipes/llama/h100/llama3.py, "
             "use_precision_aware_optimizer; on in perf_recipes of models with experts, and with bf16 in NeMo's "
             "scripts/performance/helpers.py", strategies=("zero1",), is_open=True),
        Fact(name="overlaps", value=True, source="src/megatron/bridge/recipes/common.py, overlap_grad_reduce and "
             "overlap_param_gather", methods=("full",), strategies=("zero1",), is_default=True),
        *OF_MEGATRON_CORE,
    ),
)  # fmt: skip

GPT_NEOX = Program(
    name="gpt-neox",
    title="GPT-NeoX",
    aliases=("neox", "pythia"),
    lacks=(compiles_functions_alone("megatron/training.py"),),
    strategies=("ddp", "zero1", "zero2"),
    unplanned=("zero3",),  # megatron/training.py, zero_stage
    cuts=("tensor", "pipeline"),
    settings=(
        "train_micro_batch_size_per_gpu={batch} gradient_accumulation_steps={accumulation} "
        "seq_length={length} checkpoint_activations={checkpointing}"
    ),
    facts=(
        Fact(name="kernels", value="fused", source="configs/20B.yml and configs/pythia/6-9B.yml, "
             "bias_gelu_fusion and the fused softmax", is_default=True),
        Fact(name="compiled", value=False, source="megatron/training.py"),
        Fact(name="loss", value="fused-fp32", source="megatron/model/gpt2_model.py, cross_entropy of output.float()",
             is_default=True),
        Fact(name="flash_attention", value=False, source="megatron/neox_arguments/arguments.py, attention_config "
             "global unless named, as in configs/20B.yml; flash in others", is_open=True),
        Fact(name="native_attention", value=False, source="megatron/model/transformer.py, flash_attn",
             is_default=True),
        Fact(name="masked_attention", value=False, source="megatron/model/transformer.py, causal"),
        Fact(name="gradient_bytes", value=COMPUTED, source="deepspeed/runtime/engine.py, get_data_types",
             strategies=("zero1", "zero2"), is_default=True),
        Fact(name="sequence_parallel", value=False, source="megatron/neox_arguments/neox_args.py, sequence_parallel",
             is_default=True),
        Fact(name="joined_projections", value=True, source="megatron/model/transformer.py, query_key_value"),
        Fact(name="vocabulary_multiple", value=128, source="megatron/tokenizer/tokenizer.py, "
             "make_vocab_size_divisible_by, of each tensor rank", is_default=True),
        Fact(name="fused_optimizer", value=True, source="megatron/training.py, FusedAdam of Apex", is_default=True),
    ),
)  # fmt: skip

NANOTRON = Program(
    name="nanotron",
    title="nanotron",
    strategies=("ddp", "zero1"),
    cuts=("tensor", "pipeline", "expert"),
    dtensors=False,  # src/nanotron/parallel/tensor_parallel/nn.py
    selective="it computes all of a block again",
    settings=(
        "tokens.micro_batch_size={batch} tokens.batch_accumulation_per_replica={accumulation} "
        "tokens.sequence_length={length} parallelism.recompute_layer={checkpointing}"
    ),
    facts=(
        # its kernels are open: norms, attention and rotation are fused, SwiGLU is not
        Fact(name="compiled", value=False, source="src/nanotron/models/llama.py"),
        Fact(name="loss", value="fused-fp32", source="src/nanotron/parallel/tensor_parallel/functional.py, "
             "_ShardedCrossEntropy of x.float(), whose copy becomes the softmax and its gradient"),
        Fact(name="native_attention", value=False, source="src/nanotron/models/llama.py, flash_attn_varlen_func",
             is_default=True),
        Fact(name="masked_attention", value=False, source="src/nanotron/models/llama.py, flash_attn_varlen_func"),
        Fact(name="gradient_bytes", value=4, source="examples/config_tiny_llama.yaml, accumulate_grad_in_fp32",
             strategies=("zero1",), is_default=True),
        Fact(name="sequence_parallel", value=True, source="examples/config_tiny_llama.yaml, tp_mode REDUCE_SCATTER",
             is_default=True),
        Fact(name="fused_optimizer", value=True, source="examples/config_tiny_llama.yaml, torch_adam_is_fused",
             is_default=True),
        Fact(name="joined_projections", value=True, source="src/nanotron/models/llama.py, qkv_proj"),
    ),
)  # fmt: skip

COLOSSALAI = Program(
    name="colossalai",
    title="Colossal-AI",
    aliases=("colossal-ai",),
    strategies=("ddp", "zero1", "zero2", "zero3", "fsdp"),
    cuts=("tensor", "context", "pipeline", "expert"),
    dtensors=False,  # colossalai/shardformer/layer/linear.py
    methods=("full", "lora"),
    selective="it computes all of a block again",
    facts=(
        Fact(name="compiled", value=False, source="colossalai/booster/booster.py"),
        Fact(name="loss", value="transformers", source="colossalai/shardformer/modeling/llama.py: transformers' own",
             releases=Releases(until="0.3.5")),
        Fact(name="loss", value="transformers", source="colossalai/shardformer/modeling/llama.py: transformers' own up "
             "to 0.3, dist_cross_entropy in the model's type after", is_open=True),
        Fact(name="native_attention", value=False, source="colossalai/shardformer/layer/attn.py, flash-attn 2",
             is_default=True),
        Fact(name="gradient_bytes", value=COMPUTED, source="colossalai/zero/low_level/low_level_optim.py",
             strategies=("zero1", "zero2")),
        Fact(name="sequence_parallel", value=False, source="colossalai/booster/plugin/hybrid_parallel_plugin.py, "
             "enable_sequence_parallelism", is_default=True),
        Fact(name="fused_optimizer", value=True, source="colossalai/nn/optimizer/hybrid_adam.py", is_default=True),
    ),
)  # fmt: skip

PADDLENLP = Program(
    name="paddlenlp",
    title="PaddleNLP",
    aliases=("paddle",),
    strategies=("ddp", "zero1", "zero2", "zero3"),
    cuts=("tensor", "context", "pipeline", "expert"),
    dtensors=False,  # paddlenlp/transformers/llama/modeling.py, ColumnParallelLinear of paddle
    methods=("full", "lora"),
    settings="per_device_train_batch_size {batch}, gradient_accumulation_steps {accumulation}, "
    "max_seq_length {length}, recompute {checkpointing}",
    facts=(
        Fact(name="compiled", value=False, source="paddlenlp/transformers/llama/modeling.py", is_default=True),
        # which of its norms and rotations are fused is open: llm/config has them, examples of 2023 had them not
        Fact(name="loss", value="plain", source="paddlenlp/transformers/llama/modeling.py, "
             "LlamaPretrainingCriterion of prediction_scores.astype(float32)"),
        Fact(name="native_attention", value=False, source="llm/config/llama/pretrain_argument.json, "
             "use_flash_attention", is_default=True),
        Fact(name="masked_attention", value=False, source="paddlenlp/transformers/llama/modeling.py, is_casual",
             is_default=True),
        Fact(name="sequence_parallel", value=False, source="llm/config/llama/pretrain_argument.json, "
             "sequence_parallel", is_default=True),
        Fact(name="fused_optimizer", value=True, source="paddlenlp/trainer/trainer.py, AdamW of PaddlePaddle",
             is_default=True),
    ),
)  # fmt: skip

OF_MEGATRON: tuple[Program, ...] = (MEGATRON_BRIDGE, GPT_NEOX, NANOTRON, COLOSSALAI, PADDLENLP)
