"""Programs of PyTorch's own kernels and parallelisms, each with what its files say (read in November 2026)."""

from raybench.performance_model.programs.program import (
    COMPILED,
    COMPUTED,
    EAGER,
    FSDP,
    NF4,
    NOT_ROTARY,
    OF_LAYER_NORM,
    Fact,
    Families,
    Lack,
    Program,
)
from raybench.performance_model.programs.releases import Releases

# Whose instructions their attention has, PyTorch's scaled_dot_product_attention, is left open: on Hopper and Blackwell
# it takes cuDNN's kernel first where cuDNN is newer than 9.15 (pytorch/pytorch of 2.13,
# aten/src/ATen/native/transformers/cuda/sdp_utils.cpp), and FlashAttention-2 in 2.9 and before.

TORCHTUNE = Program(
    name="torchtune",
    title="torchtune",
    strategies=FSDP,
    families=Families(
        none_of=(*NOT_ROTARY, *OF_LAYER_NORM, "mixtral", "olmoe", "dbrx", "deepseek_v2", "deepseek_v3"),
        has="Llama, Mistral, Gemma, Phi-3 and 4, Qwen and SmolLM",
        source="torchtune/models",
    ),
    lacks=(
        Lack(option="--reduce-last", name="reduces_each", value=False, source="recipes/full_finetune_distributed.py "
             "sets no gradient sync"),
    ),
    cuts=("tensor", "context"),
    methods=("full", "lora", "qlora"),
    selective="it computes again all of a block, or of each so many a layer",
    settings=(
        "batch_size={batch} gradient_accumulation_steps={accumulation} tokenizer.max_seq_len={length} "
        "dataset.packed=true enable_activation_checkpointing={checkpointing}"
    ),
    facts=(
        Fact(name="compiled", value=False, source="recipes/configs/llama3_1/8B_full.yaml, compile", is_default=True),
        Fact(name="kernels", value="fused", source="torchtune/training/_compile.py, each layer", needs=COMPILED),
        Fact(name="kernels", value="plain", source="torchtune/modules/rms_norm.py and feed_forward.py"),
        Fact(name="loss", value="plain", source="recipes/configs/llama3/8B_full.yaml, CrossEntropyLoss, up to 0.2",
             releases=Releases(until="0.3"), is_default=True),
        Fact(name="loss", value="fused", source="torchtune/modules/loss/ce_chunked_output_loss.py, "
             "CEWithChunkedOutputLoss of whole logits in 16 bits, from 0.3 to 0.6", releases=Releases(until="0.6.2"),
             is_default=True),
        Fact(name="loss", value="chunked", source="torchtune/modules/loss/cross_entropy_loss.py, "
             "LinearCrossEntropyLoss, of 8 chunks, from April 2025 on; from August 2024 of whole logits",
             is_default=True),
        Fact(name="masked_attention", value=False, source="torchtune/data/_collate.py, padded_collate_sft: "
             "tokens and labels alone", is_default=True),
        Fact(name="parameter_bytes", value=COMPUTED, source="recipes/full_finetune_distributed.py, "
             "set_default_dtype", is_default=True),
        Fact(name="reduce_bytes", value=COMPUTED, source="torchtune/training/_distributed.py, fully_shard without "
             "a policy of mixed precision"),
        Fact(name="reduces_each", value=True, source="recipes/full_finetune_distributed.py, which sets no gradient "
             "sync"),
        Fact(name="on_streams", value=True, source="recipes/full_finetune_distributed.py, FSDP(...), up to 0.2",
             releases=Releases(until="0.3")),
        Fact(name="on_streams", value=False, source="torchtune/training/_distributed.py, fully_shard"),
        Fact(name="fused_optimizer", value=False, source="recipes/configs/llama3/8B_full.yaml, without fused, up to "
             "0.3.0", releases=Releases(until="0.3.1"), is_default=True),
        Fact(name="fused_optimizer", value=True, source="recipes/configs/llama3_1/8B_full.yaml, optimizer.fused",
             is_default=True),
        Fact(name="upcast", value=False, source="torchtune/modules/peft/lora.py", methods=("qlora",)),
        Fact(name="adapter_dropout", value=False, source="recipes/configs/llama3_1/8B_lora.yaml, lora_dropout 0.0",
             methods=("lora", "qlora"), is_default=True),
        Fact(name="holds_inputs", value=False, source="torchtune/training/memory.py, "
             "checkpoint_wrapper without reentry", methods=("lora", "qlora")),
    ),
)  # fmt: skip

LITGPT = Program(
    name="litgpt",
    title="LitGPT",
    aliases=("lit-gpt",),
    strategies=FSDP,
    families=Families(
        none_of=NOT_ROTARY, has="models with rotary positions", source="litgpt/model.py, which has no other ones"
    ),
    methods=("full", "lora", "qlora"),
    selective="it computes all of a block again",
    settings=(
        "--train.micro_batch_size {batch} --train.global_batch_size {samples} --train.max_seq_length "
        "{length} --devices {ranks} --num_nodes {nodes}"
    ),
    facts=(
        Fact(name="compiled", value=False, source="litgpt/finetune/lora.py", methods=("lora", "qlora")),
        Fact(name="kernels", value="fused", source="litgpt/pretrain.py, torch.compile", needs=COMPILED),
        Fact(name="kernels", value="plain", source="litgpt/model.py, RMSNorm, LLaMAMLP"),
        Fact(name="parameter_bytes", value=COMPUTED, source="litgpt/finetune/lora.py: not with mixed precision",
             methods=("qlora",)),
        Fact(name="parameter_bytes", value=COMPUTED, source="config_hub/finetune/*/lora.yaml, precision bf16-true",
             methods=("lora",), is_default=True),
        Fact(name="loss", value="fused", source="litgpt/utils.py, chunked_cross_entropy of logits that stay in 16 "
             "bits", needs={"parameter_bytes": 2}),
        Fact(name="loss", value="plain", source="litgpt/utils.py, chunked_cross_entropy under autocast",
             needs={"parameter_bytes": 4}),
        Fact(name="joined_projections", value=True, source="litgpt/model.py, CausalSelfAttention.qkv"),
        Fact(name="masked_attention", value=False, source="litgpt/model.py, is_causal without a mask"),
        Fact(name="reduces_each", value=False, source="litgpt/finetune/full.py and pretrain.py, no_backward_sync",
             strategies=FSDP),
        Fact(name="reduce_bytes", value=COMPUTED, source="src/lightning/fabric/plugins/precision/fsdp.py",
             strategies=FSDP),
        Fact(name="adapter_dropout", value=True, source="litgpt/finetune/lora.py, lora_dropout 0.05",
             methods=("lora", "qlora"), is_default=True),
        Fact(name="upcast", value=False, source="litgpt/finetune/lora.py, BitsandbytesPrecision", methods=("qlora",)),
        Fact(name="packing", value="nf4-single", source="config_hub/finetune/*/qlora.yaml, quantize bnb.nf4, which "
             "scales no scales as bnb.nf4-dq does", methods=("qlora",), needs=NF4, is_default=True),
        Fact(name="holds_inputs", value=False, source="litgpt/finetune/lora.py, fully_shard and checkpoint_wrapper",
             methods=("lora", "qlora")),
    ),
)  # fmt: skip

NANOGPT = Program(
    name="nanogpt",
    title="nanoGPT",
    strategies=("ddp",),
    families=Families(only=("gpt2",), has="GPT-2", source="model.py, GPT"),
    lacks=(
        Lack(option="--dtype fp8", name="dtype", value="fp8", source="train.py, dtype"),
        Lack(option="--offload-activations", name="offloads_activations", value=True, source="train.py"),
        Lack(option="--cpu-offload optimizer", name="offload", value="optimizer", source="train.py"),
        Lack(option="--activation-checkpointing", name="checkpointing", value=True, source="model.py, GPT.forward"),
    ),
    # train.py divides the micro-batches of a step by the number of ranks
    settings="--batch_size={batch} --block_size={length} --gradient_accumulation_steps={micro_batches}",
    facts=(
        Fact(name="compiled", value=True, source="train.py, compile", is_default=True),
        Fact(name="vocabulary_multiple", value=64, source="model.py, vocab_size 50304 of GPT-2's 50257",
             is_default=True),
        Fact(name="kernels", value="fused", source="train.py, torch.compile", needs=COMPILED),
        Fact(name="kernels", value="plain", source="model.py, LayerNorm and MLP", needs=EAGER),
        Fact(name="loss", value="compiled", source="model.py, cross_entropy in GPT.forward", needs=COMPILED),
        Fact(name="loss", value="plain", source="model.py, cross_entropy under autocast", needs=EAGER),
        Fact(name="masked_attention", value=False, source="model.py, is_causal"),
        Fact(name="parameter_bytes", value=4, source="train.py, autocast"),
        Fact(name="bucket_view", value=False, source="train.py, DDP without gradient_as_bucket_view"),
        Fact(name="fused_optimizer", value=True, source="model.py, configure_optimizers, use_fused"),
        Fact(name="joined_projections", value=True, source="model.py, CausalSelfAttention.c_attn"),
    ),
)  # fmt: skip

LLM_FOUNDRY = Program(
    name="llm-foundry",
    title="llm-foundry",
    aliases=("llmfoundry", "composer", "mpt"),
    strategies=("ddp", *FSDP),
    cuts=("tensor",),
    methods=("full", "lora"),
    settings=(
        "device_train_microbatch_size={batch} global_train_batch_size={samples} max_seq_len={length} "
        "fsdp_config.activation_checkpointing={checkpointing}"
    ),
    facts=(
        Fact(name="compiled", value=False, source="llmfoundry/command_utils/train.py, compile_config",
             is_default=True),
        Fact(name="kernels", value="fused", source="llmfoundry/models/layers/norm.py, LPLayerNorm; flash-attn",
             is_default=True),
        Fact(name="loss", value="fused", source="llmfoundry/models/mpt/modeling_mpt.py, fused_crossentropy",
             is_default=True),
        Fact(name="native_attention", value=False, source="llmfoundry/models/layers/attention.py, flash_attn_2",
             is_default=True),
        Fact(name="masked_attention", value=False, source="llmfoundry/models/layers/attention.py, "
             "flash_attn_varlen_func", is_default=True),
        Fact(name="reduce_bytes", value=COMPUTED, source="scripts/train/yamls/pretrain/mpt-7b.yaml, mixed_precision "
             "PURE", is_default=True),
        Fact(name="base_bytes", value=4, source="llmfoundry/models/hf/hf_base.py, torch_dtype of "
             "_MASTER_WEIGHTS_PRECISION", methods=("lora",)),
        Fact(name="reduces_each", value=True, source="composer/trainer/trainer.py, sync_context of a model that is "
             "not DDP's", strategies=FSDP),
        Fact(name="on_streams", value=True, source="composer/distributed/dist_strategy.py, "
             "FullyShardedDataParallel", strategies=FSDP, is_default=True),
        Fact(name="joined_projections", value=True, source="llmfoundry/models/layers/attention.py, Wqkv"),
        Fact(name="bucket_view", value=False, source="composer/distributed/dist_strategy.py, prepare_ddp_module",
             strategies=("ddp",)),
    ),
)  # fmt: skip

OLMO_CORE = Program(
    name="olmo-core",
    title="OLMo-core",
    aliases=("olmo", "ai2-olmo-core"),
    strategies=("ddp", "fsdp", "fsdp-hybrid"),
    cuts=("tensor", "context", "pipeline", "expert"),
    dtensors=True,  # src/olmo_core/nn/attention, apply_tp
    settings="rank_microbatch_size={batch} * {length} and global_batch_size={samples} * {length} tokens",
    facts=(
        Fact(name="compiled", value=True, source="src/scripts/train/OLMo2/OLMo2-7B.py, compile_model",
             is_default=True),
        Fact(name="kernels", value="fused", source="src/olmo_core/nn/transformer/model.py, apply_compile",
             needs=COMPILED),
        Fact(name="kernels", value="plain", source="src/olmo_core/nn/layer_norm.py", needs=EAGER),
        Fact(name="loss", value="compiled", source="src/olmo_core/nn/transformer/model.py, lm_head.compile, from "
             "March 2025 on",
             needs=COMPILED, is_default=True),
        Fact(name="loss", value="plain", source="src/olmo_core/nn/functional/cross_entropy_loss.py", needs=EAGER,
             is_default=True),
        Fact(name="native_attention", value=False, source="src/olmo_core/nn/transformer/config.py, flash_2",
             is_default=True),
        Fact(name="masked_attention", value=False, source="src/olmo_core/nn/transformer/config.py, flash_2"),
        Fact(name="parameter_bytes", value=4, source="src/scripts/train/OLMo2/OLMo2-7B.py, param_dtype of FSDP's "
             "policy alone", is_default=True),
        Fact(name="reduce_bytes", value=4, source="src/scripts/train/OLMo2/OLMo2-7B.py, reduce_dtype",
             is_default=True),
        Fact(name="reduces_each", value=True, source="src/olmo_core/train/train_module/transformer/train_module.py, "
             "set_is_last_backward alone", strategies=("fsdp",)),
        Fact(name="on_streams", value=False, source="src/olmo_core/nn/transformer/model.py, fully_shard"),
    ),
)  # fmt: skip

FMS_FSDP = Program(
    name="fms-fsdp",
    title="fms-fsdp",
    aliases=("foundation-model-stack",),
    strategies=FSDP,
    families=Families(only=("llama",), has="Llama", source="main_training_llama.py, fms.models.llama"),
    selective="it computes again all of each so many a block",
    settings="--batch_size={batch} --seq_length={length} --fsdp_activation_checkpointing={checkpointing}",
    accumulates=False,  # fms_fsdp/utils/train_utils.py, train: an update after each backward pass
    facts=(
        Fact(name="compiled", value=True, source="fms_fsdp/config/training.py, use_torch_compile", is_default=True),
        Fact(name="kernels", value="fused", source="main_training_llama.py, torch.compile", needs=COMPILED),
        Fact(name="kernels", value="plain", source="main_training_llama.py, LLaMA of foundation-model-stack",
             needs=EAGER),
        Fact(name="loss", value="narrow", source="fms_fsdp/utils/train_utils.py, CrossEntropyLoss of the model's "
             "16-bit logits"),
        Fact(name="masked_attention", value=False, source="main_training_llama.py, is_causal"),
        Fact(name="reduce_bytes", value=COMPUTED, source="fms_fsdp/policies/mixed_precision.py, bfSixteen"),
        Fact(name="parameter_bytes", value=4, source="fms_fsdp/policies/mixed_precision.py, bfSixteen"),
        Fact(name="on_streams", value=True, source="main_training_llama.py, FullyShardedDataParallel"),
        Fact(name="fused_optimizer", value=False, source="main_training_llama.py, AdamW"),
    ),
)  # fmt: skip

MAXTEXT = Program(
    name="maxtext",
    title="MaxText",
    strategies=FSDP,
    cuts=("tensor", "context", "pipeline", "expert"),
    settings=(
        "per_device_batch_size={batch} gradient_accumulation_steps={accumulation} "
        "max_target_length={length}"
    ),
    facts=(
        Fact(name="compiled", value=True, source="src/maxtext/utils/train_utils.py, jax.jit"),
        Fact(name="kernels", value="fused", source="src/maxtext/utils/train_utils.py, jax.jit"),
        Fact(name="native_attention", value=True, source="src/maxtext/configs/gpu/models/llama3_8b.yml, attention",
             is_default=True),
        Fact(name="masked_attention", value=False, source="src/maxtext/layers/attention_op.py, causal"),
        Fact(name="parameter_bytes", value=4, source="src/maxtext/configs/base.yml, weight_dtype", is_default=True),
    ),
)  # fmt: skip

OF_PYTORCH: tuple[Program, ...] = (TORCHTUNE, LITGPT, NANOGPT, LLM_FOUNDRY, OLMO_CORE, FMS_FSDP, MAXTEXT)
