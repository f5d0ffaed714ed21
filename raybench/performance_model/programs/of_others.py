"""Programs of laboratories and of reinforcement learning, and raybench's own, each with what its files say.

Read in November 2026.
"""

from raybench.performance_model.programs.of_transformers import WITH_LIGER
from raybench.performance_model.programs.program import COMPILED, COMPUTED, EAGER, FSDP, NF4, Fact, Lack, Program
from raybench.performance_model.programs.releases import Releases
from raybench.performance_model.programs.releases_of_transformers import (
    FROZEN_GATHERED,
    FROZEN_INPUTS,
    H2O_LLMSTUDIO_NEEDS,
    LLAMA_RECIPES_NEEDS,
    LOSS_OF_PLAIN_KERNELS,
    STORED_SCORES,
)

_DSCHAT = "applications/DeepSpeed-Chat/training/step1_supervised_finetuning/main.py"
_MASKED_CE = "nemo_automodel/components/loss/masked_ce.py, MaskedCrossEntropy of logits.float()"

RAYBENCH = Program(
    name="raybench",
    title="raybench train",
    strategies=("ddp", *FSDP),
    lacks=(
        Lack(option="--offload-activations", name="offloads_activations", value=True, source="raybench train --help"),
        Lack(option="--cpu-offload optimizer", name="offload", value="optimizer", source="raybench train --help"),
        Lack(option="--cpu-offload all", name="offload", value="all", source="raybench train --help"),
    ),
    methods=("full", "lora", "qlora"),
    starts="raybench",
    planned=(Fact(name="reduces_each", value=True, source="raybench train --reduce-each, as a plan has it told",
                  strategies=FSDP),),
    facts=(
        Fact(name="compiled", value=False, source="raybench train --compile", is_default=True),
        Fact(name="kernels", value="fused", source="raybench/benchmarks/training/strategies.py, torch.compile",
             needs=COMPILED),
        Fact(name="kernels", value="plain", source="raybench/benchmarks/training/models/transformer.py"),
        Fact(name="loss", value="plain", source="raybench/benchmarks/training/step.py, outside of what is compiled"),
        Fact(name="masked_attention", value=False, source="raybench/benchmarks/training/models/transformer.py, "
             "is_causal"),
        Fact(name="reduce_bytes", value=4, source="raybench train --comm-hook", is_default=True),
        Fact(name="reduces_each", value=False, source="raybench train --reduce-each", strategies=FSDP,
             is_default=True),
        Fact(name="bucket_view", value=True, source="raybench/benchmarks/training/strategies.py", strategies=("ddp",)),
        Fact(name="on_streams", value=False, source="raybench/benchmarks/training/strategies.py, fully_shard"),
        Fact(name="fused_optimizer", value=False, source="raybench/benchmarks/training/update.py"),
        Fact(name="upcast", value=False, source="raybench/benchmarks/training/models/adapters.py", methods=("qlora",)),
        Fact(name="holds_inputs", value=False, source="raybench/benchmarks/training/models",
             methods=("lora", "qlora")),
    ),
)  # fmt: skip

NEMO_AUTOMODEL = Program(
    name="nemo-automodel",
    title="NeMo Automodel",
    aliases=("automodel",),
    strategies=("ddp", *FSDP),
    cuts=("tensor", "context", "pipeline", "expert"),
    methods=("full", "lora", "qlora"),
    facts=(
        Fact(name="compiled", value=False, source="examples/llm_finetune/llama3_2/llama3_2_1b_squad.yaml, compile",
             is_default=True),
        Fact(name="kernels", value="fused", source="nemo_automodel/_transformers/auto_model.py, use_liger_kernel",
             is_default=True),
        Fact(name="keeps_least", value=True, source="liger_kernel/ops/swiglu.py", needs={"kernels": "fused"}),
        Fact(name="loss", value="plain", source=f"{_MASKED_CE}; others fused or in chunks", is_open=True),
        Fact(name="reduce_bytes", value=4, source="nemo_automodel/components/distributed/config.py, reduce_dtype",
             is_default=True),
        Fact(name="parameter_bytes", value=COMPUTED, source="nemo_automodel/_transformers/auto_model.py, torch_dtype "
             "auto", is_default=True),
        Fact(name="reduces_each", value=False, source="nemo_automodel/components/distributed/config.py, "
             "defer_fsdp_grad_sync", strategies=FSDP, is_default=True),
        Fact(name="on_streams", value=False, source="nemo_automodel/components/distributed/fsdp2.py, fully_shard"),
    ),
)  # fmt: skip

NEMO_RL = Program(
    name="nemo-rl",
    title="NeMo RL (SFT)",
    strategies=("fsdp",),
    cuts=("tensor", "context"),
    methods=("full", "lora"),
    settings="policy.train_micro_batch_size={batch} policy.train_global_batch_size={samples} "
    "policy.max_total_sequence_length={length} policy.dtensor_cfg.activation_checkpointing={checkpointing}",
    facts=(
        Fact(name="sequence_parallel", value=False, source="examples/configs/sft.yaml, "
             "dtensor_cfg.sequence_parallel", is_default=True),
        Fact(name="compiled", value=False, source="nemo_rl/models/policy/dtensor_policy_worker.py"),
        Fact(name="loss", value="transformers-kept", source="nemo_rl/algorithms/loss_functions.py, NLLLoss of logits "
             "in fp32, whose softmax stays; in chunks since", is_open=True),
        Fact(name="masked_attention", value=False, source="nemo_rl/models/policy/dtensor_policy_worker.py, "
             "attention_mask_input_all_ones"),
        Fact(name="parameter_bytes", value=4, source="nemo_rl/models/policy/dtensor_policy_worker.py, torch_dtype of "
             "master weights"),
        Fact(name="reduce_bytes", value=4, source="nemo_rl/models/dtensor/parallelize.py, reduce_dtype"),
        Fact(name="on_streams", value=False, source="nemo_rl/models/dtensor/parallelize.py, fully_shard"),
        Fact(name="fused_optimizer", value=False, source="examples/configs/sft.yaml, optimizer: fused and foreach "
             "off with DTensors", is_default=True),
    ),
)  # fmt: skip

PRIME_RL = Program(
    name="prime-rl",
    title="prime-rl",
    strategies=("fsdp", "fsdp-hybrid"),
    cuts=("context", "expert"),
    methods=("full", "lora"),
    facts=(
        Fact(name="compiled", value=True, source="prime_rl/configs/trainer.py, compile", is_default=True),
        # compiled a layer at a time: which of its kernels that fuses is open
        Fact(name="kernels", value="plain", source="src/prime_rl/trainer/models/layers", needs=EAGER),
        Fact(name="loss", value="transformers-kept", source="src/prime_rl/trainer/sft/train.py; in chunks since "
             "fused_lm_head_token_chunk_size is set", is_open=True),
        Fact(name="masked_attention", value=False, source="src/prime_rl/trainer/models/layers/attn.py"),
        Fact(name="parameter_bytes", value=4, source="prime_rl/configs/trainer.py, optimization_dtype",
             is_default=True),
        Fact(name="base_bytes", value=4, source="src/prime_rl/trainer/model.py, get_model in optimization_dtype",
             methods=("lora",), is_default=True),
        Fact(name="reduce_bytes", value=4, source="prime_rl/configs/trainer.py, reduce_dtype", is_default=True),
        Fact(name="on_streams", value=False, source="src/prime_rl/trainer/model.py, fully_shard"),
    ),
)  # fmt: skip

VERL = Program(
    name="verl",
    title="verl (SFT)",
    lacks=(
        Lack(option="--reduce-last", name="reduces_each", value=False, source="verl/trainer/fsdp_sft_trainer.py sets "
             "no gradient sync"),
    ),
    strategies=FSDP,
    cuts=("context",),
    methods=("full", "lora"),
    facts=(
        Fact(name="checkpointing", value=True, source="verl/trainer/config/sft_trainer.yaml, "
             "enable_gradient_checkpointing", is_default=True),
        *WITH_LIGER,
        Fact(name="compiled", value=False, source="verl/trainer/fsdp_sft_trainer.py", is_default=True),
        Fact(name="parameter_bytes", value=4, source="verl/trainer/config/sft_trainer.yaml, model_dtype",
             is_default=True),
        Fact(name="base_bytes", value=4, source="verl/workers/engine/fsdp/transformer_impl.py, from_pretrained in "
             "model_dtype", methods=("lora",), is_default=True),
        Fact(name="reduce_bytes", value=4, source="verl/trainer/fsdp_sft_trainer.py, reduce_dtype"),
        Fact(name="reduces_each", value=True, source="verl/trainer/fsdp_sft_trainer.py, which sets no gradient sync"),
        Fact(name="on_streams", value=True, source="verl/trainer/fsdp_sft_trainer.py, FSDP(...), before 0.4",
             releases=Releases(until="0.4")),
        Fact(name="on_streams", value=False, source="verl/trainer/config/sft_trainer.yaml, strategy fsdp2, from "
             "May 2025 on",
             is_default=True),
    ),
)  # fmt: skip

OPENRLHF = Program(
    name="openrlhf",
    title="OpenRLHF",
    unplanned=("zero1",),  # openrlhf/cli/train_sft.py, --ds.zero_stage
    strategies=("zero2", "zero3"),
    cuts=("tensor", "context"),
    methods=("full", "lora", "qlora"),
    facts=(
        Fact(name="compiled", value=False, source="openrlhf/cli/train_sft.py", is_default=True),
        Fact(name="keeps_least", value=True, source="liger_kernel/ops/swiglu.py", needs={"kernels": "fused"}),
        Fact(name="loss", value="transformers", source="openrlhf/models/loss.py, GPTLMLoss of a shifted copy of logits "
             "that transformers has cast up, before 4.45", releases=Releases(until="0.4.6")),
        Fact(name="loss", value="narrow", source="openrlhf/models/loss.py, GPTLMLoss of a shifted copy in 16 bits",
             releases=Releases(until="0.5.6")),
        Fact(name="loss", value="transformers", source="openrlhf/models/actor.py, logits to fp32, and GPTLMLoss of a "
             "shifted copy", releases=Releases(until="0.7")),
        Fact(name="loss", value="fused-fp32", source="openrlhf/models/actor.py, logits to fp32, and utils.py, "
             "flash_attn's cross entropy"),
        Fact(name="flash_attention", value=False, source="openrlhf/models/actor.py, eager without --flash_attn, up to "
             "0.8.9; with it --flash-attention", releases=Releases(until="0.8.10"), is_default=True),
        Fact(name="gradient_bytes", value=COMPUTED, source="openrlhf/cli/train_sft.py, ds.grad_accum_dtype",
             strategies=("zero2",), is_default=True),
        Fact(name="upcast", value=False, source="openrlhf/models/actor.py", methods=("qlora",)),
    ),
)  # fmt: skip

MEGATRON_DEEPSPEED = Program(
    name="megatron-deepspeed",
    title="Megatron-DeepSpeed",
    timing="megatron-deepspeed",
    strategies=("ddp", "zero1", "zero2", "zero3"),
    cuts=("tensor", "context", "pipeline", "expert"),
    facts=(
        Fact(name="kernels", value="fused", source="megatron/arguments.py, masked_softmax_fusion, bias_gelu_fusion",
             is_default=True),
        Fact(name="compiled", value=False, source="megatron/training.py"),
        Fact(name="loss", value="plain", source="megatron/core/tensor_parallel/cross_entropy.py, of output.float()",
             is_default=True),
        Fact(name="masked_attention", value=False, source="megatron/model/transformer.py, causal"),
        Fact(name="sequence_parallel", value=False, source="megatron/arguments.py, --sequence-parallel",
             is_default=True),
        Fact(name="fused_optimizer", value=True, source="megatron/optimizer/__init__.py, FusedAdam", is_default=True),
        Fact(name="joined_projections", value=True, source="megatron/model/transformer.py, query_key_value"),
        Fact(name="vocabulary_multiple", value=128, source="megatron/arguments.py, --make-vocab-size-divisible-by, "
             "of each tensor rank", is_default=True),
        Fact(name="drops", value=True, source="megatron/arguments.py, --hidden-dropout 0.1; 0 in "
             "examples_deepspeed/pretrain_llama2_distributed.sh", is_open=True),
    ),
)  # fmt: skip

INTERNEVO = Program(
    name="internevo",
    title="InternEvo",
    strategies=("ddp", "zero1", "fsdp"),
    cuts=("tensor", "context", "pipeline", "expert"),
    facts=(
        Fact(name="kernels", value="fused", source="configs/7B_sft.py, use_flash_attn, with its RMSNorm and rotation",
             is_default=True),
        Fact(name="compiled", value=False, source="internlm/train/pipeline.py"),
        Fact(name="loss", value="fused", source="internlm/model/losses/ce_loss.py, flash_attn's CrossEntropyLoss",
             is_default=True),
        Fact(name="masked_attention", value=False, source="configs/7B_sft.py, use_flash_attn"),
        Fact(name="gradient_bytes", value=COMPUTED, source="internlm/solver/optimizer/hybrid_zero_optim.py",
             strategies=("zero1",)),
        Fact(name="optimizer_weights", value=True, source="internlm/solver/optimizer/fsdp_optimizer.py",
             strategies=("fsdp",)),
        Fact(name="on_streams", value=True, source="internlm/train/pipeline.py, FullyShardedDataParallel",
             strategies=("fsdp",)),
        # its AdamW is fused where PyTorch has that
        Fact(name="fused_optimizer", value=False, source="internlm/train/pipeline.py, adam_extra_kwargs", is_open=True),
    ),
)  # fmt: skip

# A loop of one's own that calls deepspeed.initialize: kernels and loss are its model's.
DEEPSPEED = Program(
    name="deepspeed",
    title="DeepSpeed",
    strategies=("zero2", "zero3", "zero1", "ddp"),
    cuts=("tensor", "pipeline"),
    dtensors=False,  # deepspeed/module_inject/layers.py
    methods=("full", "lora", "qlora"),
    timing="transformers",
    facts=(
        Fact(name="gradient_bytes", value=COMPUTED, source="deepspeed/runtime/engine.py, get_data_types",
             strategies=("zero1", "zero2"), is_default=True),
        Fact(name="fused_optimizer", value=False, source="deepspeed/runtime/engine.py, _configure_basic_optimizer: "
             "FusedAdam where the ds_config.json names one, else the loop's own", is_open=True),
    ),
)  # fmt: skip

DEEPSPEED_CHAT = Program(
    name="deepspeed-chat",
    title="DeepSpeed-Chat",
    aliases=("deepspeedexamples", "dschat"),
    lacks=(
        Lack(option="--dtype fp8", name="dtype", value="fp8", source=f"{_DSCHAT}, --dtype"),
        Lack(option="--compile", name="compiled", value=True, source=_DSCHAT),
    ),
    strategies=("ddp", "zero1", "zero2", "zero3"),
    methods=("full", "lora"),
    timing="transformers",
    settings="--per_device_train_batch_size {batch} --gradient_accumulation_steps {accumulation} "
    "--max_seq_len {length}",
    facts=(
        Fact(name="compiled", value=False, source=_DSCHAT),
        Fact(name="kernels", value="plain", source=f"{_DSCHAT}, models of transformers"),
        Fact(name="loss", value="transformers", source=f"{_DSCHAT}, outputs.loss"),
        Fact(name="gradient_bytes", value=COMPUTED, source="deepspeed/runtime/engine.py, get_data_types",
             strategies=("zero1", "zero2"), is_default=True),
        Fact(name="fused_optimizer", value=True, source=f"{_DSCHAT}, FusedAdam"),
        Fact(name="adapter_dropout", value=False, source="applications/DeepSpeed-Chat/dschat/utils/module/lora.py",
             methods=("lora",)),
    ),
)  # fmt: skip

H2O_LLMSTUDIO = Program(
    name="h2o-llmstudio",
    title="H2O LLM Studio",
    aliases=("llmstudio",),
    requirements=H2O_LLMSTUDIO_NEEDS,
    strategies=("ddp", "zero2", "zero3"),
    methods=("full", "lora", "qlora"),
    timing="transformers",
    facts=(
        Fact(name="checkpointing", value=True, source="llm_studio/python_configs/"
             "text_causal_language_modeling_config.py, gradient_checkpointing", is_default=True),
        Fact(name="compiled", value=False, source="llm_studio/python_configs/"
             "text_causal_language_modeling_config.py, compile_model", is_default=True),
        Fact(name="kernels", value="plain", source="llm_studio/src/utils/modeling_utils.py, models of transformers"),
        Fact(name="loss", value="transformers", source="llm_studio/src/losses/"
             "text_causal_language_modeling_losses.py, shifted logits under autocast"),
        Fact(name="upcast", value=True, source="llm_studio/src/utils/modeling_utils.py, non-4-bit parameters to fp32",
             methods=("qlora",)),
        Fact(name="adapter_dropout", value=True, source="llm_studio/python_configs/"
             "text_causal_language_modeling_config.py, lora_dropout 0.05", methods=("lora", "qlora"),
             is_default=True),
        Fact(name="gradient_bytes", value=COMPUTED, source="deepspeed/runtime/engine.py, get_data_types",
             strategies=("zero2",), is_default=True),
        Fact(name="bucket_view", value=False, source="llm_studio/src/utils/modeling_utils.py, "
             "DistributedDataParallel", strategies=("ddp",)),
        Fact(name="fused_optimizer", value=False, source="llm_studio/src/optimizers.py, AdamW", is_default=True),
        *FROZEN_INPUTS,
        *STORED_SCORES,
    ),
)  # fmt: skip

_RECIPES = "src/llama_recipes"
# Its releases of 2023 and 2024 are those of llama-recipes; llama-cookbook, as it is called since 2025, counts on. Its
# loop is its own, not the Trainer's: it is judged as a class is.
LLAMA_RECIPES = Program(
    name="llama-recipes",
    title="llama-recipes",
    aliases=("llama-cookbook",),
    strategies=(*FSDP, "ddp"),  # of several ranks by FSDP alone
    methods=("full", "lora", "qlora"),
    requirements=LLAMA_RECIPES_NEEDS,
    settings="--batch_size_training {batch} --gradient_accumulation_steps {accumulation} --context_length {length}",
    facts=(
        Fact(name="compiled", value=False, source=f"{_RECIPES}/finetuning.py"),
        Fact(name="kernels", value="plain", source=f"{_RECIPES}/finetuning.py, models of transformers"),
        *LOSS_OF_PLAIN_KERNELS,
        Fact(name="loss", value="transformers", source=f"{_RECIPES}/utils/train_utils.py, model(**batch).loss"),
        Fact(name="parameter_bytes", value=4, source=f"{_RECIPES}/finetuning.py, from_pretrained without a type, up to "
             "0.0.2", strategies=FSDP, releases=Releases(until="0.0.3"), is_default=True),
        Fact(name="parameter_bytes", value=COMPUTED, source=f"{_RECIPES}/finetuning.py, torch_dtype, from 0.0.3 on",
             strategies=FSDP, is_default=True),
        Fact(name="base_bytes", value=4, source=f"{_RECIPES}/finetuning.py, from_pretrained without a type, up to "
             "0.0.2", strategies=FSDP, methods=("lora",), releases=Releases(until="0.0.3"), is_default=True),
        Fact(name="autocast", value=False, source=f"{_RECIPES}/utils/train_utils.py, autocast with use_fp16 alone",
             strategies=("ddp",), methods=("lora",), is_default=True),
        Fact(name="reduce_bytes", value=COMPUTED, source=f"{_RECIPES}/policies/mixed_precision.py, bfSixteen",
             strategies=FSDP),
        Fact(name="reduces_each", value=True, source=f"{_RECIPES}/utils/train_utils.py, without no_sync",
             strategies=FSDP),
        Fact(name="on_streams", value=True, source=f"{_RECIPES}/finetuning.py, FSDP(...)", strategies=FSDP),
        Fact(name="holds_inputs", value=False, source=f"{_RECIPES}/policies/activation_checkpointing_functions.py, "
             "NO_REENTRANT", methods=("lora", "qlora")),
        Fact(name="fused_optimizer", value=False, source=f"{_RECIPES}/finetuning.py, optim.AdamW"),
        Fact(name="upcast", value=True, source=f"{_RECIPES}/finetuning.py, prepare_model_for_kbit_training, up to "
             "0.0.2", strategies=("ddp",), methods=("qlora",), releases=Releases(until="0.0.3")),
        Fact(name="upcast", value=False, source=f"{_RECIPES}/finetuning.py, without prepare_model_for_kbit_training",
             methods=("qlora",)),
        Fact(name="adapter_dropout", value=True, source=f"{_RECIPES}/configs/peft.py, lora_dropout 0.05",
             methods=("lora", "qlora"), is_default=True),
        Fact(name="packing", value="nf4-single", source=f"{_RECIPES}/configs/quantization.py, use_double_quant False",
             methods=("qlora",), needs=NF4, is_default=True),
        *FROZEN_INPUTS,
        *FROZEN_GATHERED,
        *STORED_SCORES,
    ),
)  # fmt: skip

OF_OTHERS: tuple[Program, ...] = (
    *(RAYBENCH, NEMO_AUTOMODEL, NEMO_RL, PRIME_RL, VERL, OPENRLHF, MEGATRON_DEEPSPEED, INTERNEVO),
    *(DEEPSPEED, DEEPSPEED_CHAT, H2O_LLMSTUDIO, LLAMA_RECIPES),
)
