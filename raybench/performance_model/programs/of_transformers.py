"""Programs that train models of transformers, each with what its files say (read in November 2026)."""

from types import MappingProxyType

from raybench.performance_model.programs.program import (
    COMPILED,
    COMPUTED,
    FSDP,
    NF4,
    NOT_ROTARY,
    OF_LAYER_NORM,
    Fact,
    Families,
    Method,
    Program,
)
from raybench.performance_model.programs.releases import Releases
from raybench.performance_model.programs.releases_of_transformers import (
    AXOLOTL_NEEDS,
    CUTS_OF_RELEASES,
    FMS_HF_TUNING_NEEDS,
    GATHERED_TO_SAVE,
    LLAMA_FACTORY_NEEDS,
    LOSS_OF_RELEASES,
    MS_SWIFT_NEEDS,
    OPEN_INSTRUCT_NEEDS,
    PACKED_EXPERTS,
    STORED_SCORES,
    TRAINER_OF_RELEASES,
    TRL_NEEDS,
    UNSLOTH_NEEDS,
)
from raybench.performance_model.setup.strategies import Strategy

_ADAPTERS: tuple[Method, ...] = ("lora", "qlora")
_EVERY: tuple[Strategy, ...] = ("ddp", "zero1", "zero2", "zero3", *FSDP)
_WHOLE: tuple[Strategy, ...] = ("ddp", "zero1", "zero2", "zero3")
_ITS_LOSS = "transformers/loss/loss_utils.py, ForCausalLMLoss"
_LIGER = "liger_kernel/ops/fused_linear_cross_entropy.py"
# One kernel in the place of PyTorch's cross entropy is given logits that transformers has cast up, in all its releases:
# in the model's forward pass up to 4.44, in its loss function since.
FUSED_LOSS = Fact(name="loss", value="fused-fp32", source=f"{_ITS_LOSS}: logits.float()")

# What the Trainer of transformers with accelerate has for all of them; first what is so without accelerate's plug-ins.
_OF_ANY_TRAINER: tuple[Fact, ...] = (
    Fact(name="compiled", value=False, source="transformers/training_args.py, torch_compile", is_default=True),
    Fact(name="gradient_bytes", value=COMPUTED, source="deepspeed/runtime/engine.py, get_data_types",
         strategies=("zero1", "zero2"), is_default=True),
    Fact(name="parameter_bytes", value=4, source="accelerate/accelerator.py, upcast under FSDP's mixed precision",
         strategies=FSDP, methods=("full",), is_default=True),
)  # fmt: skip
_WITHOUT_ATTENTION: tuple[Fact, ...] = (
    *_OF_ANY_TRAINER,
    *PACKED_EXPERTS,
    *GATHERED_TO_SAVE,
    *TRAINER_OF_RELEASES,
    Fact(name="reduce_bytes", value=COMPUTED, source="accelerate/utils/dataclasses.py, set_mixed_precision",
         strategies=FSDP, is_default=True),
    Fact(name="reduces_each", value=False, source="accelerate/accelerator.py, no_sync, which FSDP2 has not before "
         "accelerate 1.11 (October 2025, accelerate pull request 3762)", strategies=FSDP, is_open=True),
    Fact(name="bucket_view", value=False, source="accelerate/utils/dataclasses.py, gradient_as_bucket_view",
         strategies=("ddp",), is_default=True),
    Fact(name="fused_optimizer", value=False, source="transformers/training_args.py, adamw_torch, its fused one from "
         "transformers 5 on", is_open=True),
    Fact(name="on_streams", value=True, source="accelerate/utils/dataclasses.py, fsdp_version: 1 by default",
         strategies=FSDP, is_open=True),
    Fact(name="holds_inputs", value=True, source="transformers/modeling_utils.py, use_reentrant up to transformers 4",
         strategies=FSDP, methods=_ADAPTERS, needs={"checkpointing": True}, is_open=True),
)  # fmt: skip
OF_THE_TRAINER: tuple[Fact, ...] = (
    *_WITHOUT_ATTENTION,
    *STORED_SCORES,
    Fact(name="flash_attention", value=True, source="transformers/modeling_utils.py: sdpa where none is named, from "
         "4.36 (December 2023) on; older ones store scores (transformers==4.35)", is_default=True),
)  # fmt: skip
# Dropout of peft's adapters is their user's choice.
WITH_PEFT: tuple[Fact, ...] = (
    Fact(name="adapter_dropout", value=True, source="peft/tuners/lora/config.py, lora_dropout 0.0; 0.05 in "
         "trl/trainer/model_config.py and axolotl's examples/llama-3/qlora.yml", methods=_ADAPTERS, is_open=True),
)  # fmt: skip
# Whether the scales of a 4-bit base are in 8 bits themselves is its user's choice.
SINGLE_SCALES = Fact(name="packing", value="nf4-single", methods=("qlora",), needs=NF4, is_open=True,
                     source="transformers/utils/quantization_config.py, bnb_4bit_use_double_quant False")  # fmt: skip
# Liger's kernels are their user's choice.
WITH_LIGER: tuple[Fact, ...] = (
    Fact(
        name="keeps_least",
        value=True,
        source="liger_kernel/ops/swiglu.py; xformers' and flash-attn's keep SiLU as well",
        needs={"kernels": "fused"},
        is_default=True,
    ),
    Fact(name="loss", value="chunked", source=_LIGER, needs={"kernels": "fused"}),
    *LOSS_OF_RELEASES,
    Fact(name="loss", value="transformers", source=_ITS_LOSS, needs={"kernels": "plain"}),
    Fact(
        name="loss", value="transformers", source=f"{_ITS_LOSS}; in chunks with --kernels fused (Liger)", is_open=True
    ),
)

# TRL's own, which it has since 1.4 (May 2026), by itself since 1.7.
_CHUNKED_NLL = "trl/trainer/sft_config.py, loss_type chunked_nll"

_TRL = (
    "--per_device_train_batch_size {{batch}} --gradient_accumulation_steps {{accumulation}} {} {{length}} "
    "--packing true --gradient_checkpointing {{checkpointing}}"
)

TRL = Program(
    name="trl",
    title="TRL",
    timing="transformers",
    fused_loss=FUSED_LOSS,
    chunked_loss=Fact(name="loss", value="chunked-fp32", source=_CHUNKED_NLL),
    aliases=("sfttrainer", "sft-trainer", "alignment-handbook"),
    strategies=_EVERY,
    cuts=("tensor", "context"),
    deals_sequences=True,  # as transformers, by accelerate
    trains_given=True,  # trl/trainer/sft_trainer.py, model: its name, or a model
    methods=("full", *_ADAPTERS),
    settings=_TRL.format("--max_length"),
    old_settings=MappingProxyType({"0.16": _TRL.format("--max_seq_length")}),  # trl/trainer/sft_config.py of 0.15
    requirements=TRL_NEEDS,
    late_cuts=CUTS_OF_RELEASES,
    facts=(
        Fact(name="checkpointing", value=False, source="trl/trainer/sft_config.py, gradient_checkpointing False up to "
             "0.21, which many set", releases=Releases(until="0.22"), is_open=True),
        Fact(name="checkpointing", value=True, source="trl/trainer/base_config.py, gradient_checkpointing, from 0.22 "
             "(September 2025) on", releases=Releases(since="0.22"), is_default=True),
        Fact(name="loss", value="chunked", source=_LIGER, needs={"kernels": "fused"}),
        Fact(name="loss", value="chunked-fp32", source=f"{_CHUNKED_NLL}, from 1.7 on",
             releases=Releases(since="1.7"), is_default=True),
        *LOSS_OF_RELEASES,
        Fact(name="loss", value="transformers", source="trl/trainer/sft_config.py, loss_type: nll up to 1.6, in "
             "chunks from 1.7 (June 2026) on", is_open=True),
        *WITH_LIGER[:1],
        Fact(name="upcast", value=True, source="trl/trainer/sft_trainer.py, prepare_model_for_kbit_training, up to "
             "0.26", strategies=_WHOLE, methods=("qlora",), releases=Releases(until="0.27"), is_default=True),
        Fact(name="upcast", value=False, source="trl/trainer/sft_trainer.py, without prepare_model_for_kbit_training "
             "from 0.27 on", strategies=_WHOLE, methods=("qlora",), releases=Releases(since="0.27")),
        Fact(name="upcast", value=True, source="peft/utils/other.py, prepare_model_for_kbit_training, which "
             "trl/trainer/sft_trainer.py calls up to 0.26 (December 2025)", strategies=_WHOLE, methods=("qlora",),
             is_open=True),
        Fact(name="packing", value="nf4-single", source="trl/trainer/model_config.py, use_bnb_nested_quant False",
             methods=("qlora",), needs=NF4, is_open=True),
        *WITH_PEFT,
        *OF_THE_TRAINER,
    ),
)  # fmt: skip

AXOLOTL = Program(
    name="axolotl",
    title="Axolotl",
    timing="transformers",
    fused_loss=FUSED_LOSS,
    strategies=_EVERY,
    cuts=("tensor", "context", "expert"),
    methods=("full", *_ADAPTERS),
    settings=(
        "micro_batch_size: {batch}, gradient_accumulation_steps: {accumulation}, sequence_len: {length}, "
        "sample_packing: true, gradient_checkpointing: {checkpointing}"
    ),
    requirements=AXOLOTL_NEEDS,
    late_cuts=CUTS_OF_RELEASES,
    facts=(
        *WITH_LIGER[:-1],
        Fact(name="loss", value="transformers", source=f"{_ITS_LOSS}; in chunks with the plugins CutCrossEntropy, "
             "of half of examples/, and Liger", is_open=True),
        Fact(name="default_bucket", value=False, source="deepspeed_configs/zero3.json: auto", strategies=("zero3",),
             is_default=True),
        Fact(name="upcast", value=False, source="src/axolotl/loaders/model.py, _configure_embedding_dtypes: norms "
             "go back to 16 bits", methods=("qlora",)),
        *WITH_PEFT,
        *OF_THE_TRAINER,
    ),
)  # fmt: skip

LLAMA_FACTORY = Program(
    name="llama-factory",
    title="LLaMA-Factory",
    timing="transformers",
    fused_loss=FUSED_LOSS,
    aliases=("llamafactory",),
    strategies=_EVERY,
    methods=("full", *_ADAPTERS),
    settings=(
        "per_device_train_batch_size: {batch}, gradient_accumulation_steps: {accumulation}, cutoff_len: "
        "{length}, packing: true, disable_gradient_checkpointing: {kept}"
    ),
    requirements=LLAMA_FACTORY_NEEDS,
    facts=(
        Fact(name="checkpointing", value=True, source="src/llamafactory/hparams/model_args.py, "
             "disable_gradient_checkpointing False", is_default=True),
        *WITH_LIGER,
        Fact(name="upcast", value=True, source="src/llmtuner/tuner/core/utils.py, prepare_model_for_training: norms in "
             "fp32, up to 0.1", methods=("qlora",), releases=Releases(until="0.2")),
        Fact(name="adapter_dropout", value=True, source="src/llmtuner/hparams/finetuning_args.py, lora_dropout 0.1, up "
             "to 0.4", methods=_ADAPTERS, releases=Releases(until="0.5"), is_default=True),
        Fact(name="parameter_bytes", value=4, source="src/llamafactory/model/adapter.py, "
             "cast_trainable_params_to_fp32", is_default=True),
        Fact(name="default_bucket", value=False, source="examples/deepspeed/ds_z3_config.json: auto",
             strategies=("zero3",), is_default=True),
        Fact(name="upcast", value=False, source="src/llamafactory/hparams/model_args.py, upcast_layernorm",
             methods=("qlora",), is_default=True),
        Fact(name="adapter_dropout", value=False, source="src/llamafactory/hparams/finetuning_args.py, lora_dropout",
             methods=_ADAPTERS, is_default=True),
        *OF_THE_TRAINER,
    ),
)  # fmt: skip

FMS_HF_TUNING = Program(
    name="fms-hf-tuning",
    title="fms-hf-tuning",
    timing="transformers",
    fused_loss=FUSED_LOSS,
    aliases=("fms-acceleration",),
    strategies=_EVERY,
    methods=("full", *_ADAPTERS),
    settings=(
        "--per_device_train_batch_size {batch} --gradient_accumulation_steps {accumulation} "
        "--max_seq_length {length} --gradient_checkpointing {checkpointing}"
    ),
    requirements=FMS_HF_TUNING_NEEDS,
    facts=(
        Fact(name="loss", value="fused-fp32", source="fms_acceleration_foak/kernels/unsloth/cross_entropy_loss.py, "
             "on logits that transformers casts up", needs={"kernels": "fused"},
             is_default=True),
        *WITH_LIGER[2:],
        Fact(name="masked_attention", value=False, source="tuning/config/configs.py, use_flash_attn",
             is_default=True),
        Fact(name="upcast", value=False, source="fms_acceleration_peft/framework_plugin_bnb.py, "
             "_prepare_model_for_kbit_training", methods=("qlora",)),
        Fact(name="adapter_dropout", value=True, source="tuning/config/peft_config.py, lora_dropout 0.05",
             methods=_ADAPTERS, is_default=True),
        *_WITHOUT_ATTENTION,
    ),
)  # fmt: skip

UNSLOTH = Program(
    name="unsloth",
    title="Unsloth",
    strategies=("ddp",),
    # what its own kernels are not of it leaves to transformers since March 2025, and refused before
    families=Families(
        none_of=(*NOT_ROTARY, *OF_LAYER_NORM),
        has="models with rotary positions, RMSNorm and gated MLPs, and leaves others to transformers",
        source="unsloth/models/loader.py, dispatch_model: llama, mistral, gemma, qwen2, qwen3",
    ),
    requirements=UNSLOTH_NEEDS,
    methods=("full", *_ADAPTERS),
    settings=(
        "per_device_train_batch_size={batch}, gradient_accumulation_steps={accumulation}, "
        "max_seq_length={length}"
    ),
    facts=(
        Fact(name="checkpointing", value=True, source="unsloth/models/llama.py, use_gradient_checkpointing of "
             "get_peft_model", methods=_ADAPTERS, is_default=True),
        Fact(name="kernels", value="fused", source="unsloth/kernels/rms_layernorm.py, rope_embedding.py, swiglu.py"),
        Fact(name="keeps_least", value=True, source="unsloth/kernels/fast_lora.py, LoRA_MLP",
             needs={"kernels": "fused"}),
        Fact(name="loss", value="narrow", source="unsloth/kernels/cross_entropy_loss.py, of whole logits in 16 bits, "
             "and accelerate/utils/operations.py, convert_outputs_to_fp32, of what the model gives: up to 2024.11.7",
             releases=Releases(until="2024.11.8"), is_default=True),
        Fact(name="loss", value="chunked", source="unsloth/models/llama.py, unsloth_fused_ce_loss, from "
             "August 2025 on; Cut Cross-Entropy from November 2024 on"),
        Fact(name="offloads_activations", value=False, source="unsloth/models/llama.py, use_gradient_checkpointing "
             "alone, before 2024.4", needs={"checkpointing": True}, releases=Releases(until="2024.4")),
        Fact(name="offloads_activations", value=True, source="unsloth/models/llama.py, use_gradient_checkpointing "
             "unsloth", needs={"checkpointing": True}, is_default=True),
        Fact(name="masked_attention", value=False, source="unsloth/models/llama.py, flash_attn and is_causal"),
        Fact(name="flash_attention", value=True, source="unsloth/models/llama.py: xformers' where flash-attn is not"),
        Fact(name="upcast", value=False, source="unsloth/models/llama.py, patch_peft_model", methods=("qlora",)),
        Fact(name="adapter_dropout", value=False, source="unsloth/models/llama.py, lora_dropout 0.0",
             methods=_ADAPTERS, is_default=True),
        *_WITHOUT_ATTENTION,
    ),
)  # fmt: skip

MS_SWIFT = Program(
    name="ms-swift",
    title="ms-swift",
    timing="transformers",
    aliases=("swift", "modelscope"),
    strategies=_EVERY,
    unplanned_cuts=("context",),  # swift/arguments/base_args/template_args.py, sequence_parallel_size
    methods=("full", *_ADAPTERS),
    settings=(
        "--per_device_train_batch_size {batch} --gradient_accumulation_steps {accumulation} --max_length "
        "{length} --packing true --gradient_checkpointing {checkpointing}"
    ),
    requirements=MS_SWIFT_NEEDS,
    facts=(
        Fact(name="checkpointing", value=True, source="swift/trainers/arguments.py, gradient_checkpointing",
             is_default=True),
        *WITH_LIGER,
        Fact(name="adapter_dropout", value=True, source="swift/arguments/tuner_args.py, lora_dropout 0.05",
             methods=_ADAPTERS, is_default=True),
        Fact(name="default_bucket", value=False, source="swift/config/zero3.json: auto", strategies=("zero3",),
             is_default=True),
        Fact(name="upcast", value=False, source="swift/pipelines/train/tuner.py", methods=("qlora",)),
        *OF_THE_TRAINER,
    ),
)  # fmt: skip

XTUNER = Program(
    name="xtuner",
    title="XTuner",
    strategies=("ddp", "zero1", "zero2", "zero3", *FSDP),
    cuts=("context", "expert"),
    methods=("full", *_ADAPTERS),
    facts=(
        # its V1 trains by fully_shard, V0 by DDP and DeepSpeed
        Fact(name="checkpointing", value=True, source="xtuner/v1/config/fsdp.py, recompute_ratio 1.0; V0's "
             "xtuner/model/sft.py, use_activation_checkpointing", is_default=True),
        Fact(name="compiled", value=True, source="xtuner/v1/config/fsdp.py, torch_compile", strategies=FSDP,
             is_default=True),
        Fact(name="kernels", value="fused", source="xtuner/v1/config/fsdp.py, torch_compile",
             strategies=FSDP, needs=COMPILED),
        Fact(name="loss", value="plain", source="xtuner/v1/loss/ce_loss.py, mode eager; others in chunks",
             strategies=FSDP, is_open=True),
        Fact(name="parameter_bytes", value=4, source="xtuner/v1/config/fsdp.py, param_dtype of FSDP's policy alone",
             strategies=FSDP, is_default=True),
        Fact(name="reduce_bytes", value=COMPUTED, source="xtuner/v1/config/fsdp.py, reduce_dtype", strategies=FSDP,
             is_default=True),
        Fact(name="on_streams", value=False, source="xtuner/v1/model/base.py, fully_shard", strategies=FSDP),
        Fact(name="kernels", value="plain", source="xtuner/model/modules/dispatch/__init__.py, USE_TRITON_KERNEL",
             is_default=True),
        Fact(name="loss", value="transformers", source=_ITS_LOSS, is_default=True),
        Fact(name="masked_attention", value=False, source="xtuner/model/modules/dispatch/attention.py, flash-attn",
             is_default=True),
        Fact(name="upcast", value=True, source="xtuner/model/sft.py, prepare_model_for_kbit_training",
             methods=("qlora",)),
        Fact(name="adapter_dropout", value=True, source="xtuner/configs/llama/llama3_8b_instruct/"
             "llama3_8b_instruct_qlora_alpaca_e3.py, lora_dropout 0.1", methods=_ADAPTERS, is_default=True),
        *_OF_ANY_TRAINER,
    ),
)  # fmt: skip

OPEN_INSTRUCT = Program(
    name="open-instruct",
    title="open-instruct",
    timing="transformers",
    aliases=("tulu",),
    strategies=("ddp", "zero2", "zero3"),
    cuts=("context",),
    methods=("full", *_ADAPTERS),
    settings=(
        "--per_device_train_batch_size {batch} --gradient_accumulation_steps {accumulation} "
        "--max_seq_length {length} --gradient_checkpointing {checkpointing}"
    ),
    requirements=OPEN_INSTRUCT_NEEDS,
    facts=(
        *WITH_LIGER,
        Fact(name="masked_attention", value=False, source="open_instruct/model_utils.py, "
             "detect_hf_attn_implementation", is_default=True),
        Fact(name="compiled", value=False, source="open_instruct/finetune.py"),
        Fact(name="gradient_bytes", value=COMPUTED, source="deepspeed/runtime/engine.py, get_data_types",
             strategies=("zero2",), is_default=True),
        Fact(name="fused_optimizer", value=True, source="open_instruct/finetune.py, fused_optimizer",
             is_default=True),
        Fact(name="adapter_dropout", value=True, source="open_instruct/finetune.py, lora_dropout 0.1",
             methods=_ADAPTERS, is_default=True),
    ),
)  # fmt: skip

FSDP_QLORA = Program(
    name="fsdp-qlora",
    title="fsdp_qlora",
    strategies=("ddp", *FSDP),
    methods=("full", *_ADAPTERS),
    facts=(
        Fact(name="checkpointing", value=True, source="train.py, use_gradient_checkpointing", is_default=True),
        Fact(name="kernels", value="plain", source="train.py, models of transformers"),
        Fact(name="loss", value="transformers-kept", source="train.py, output.loss, whose logits are there until "
             "the backward pass is over"),
        Fact(name="compiled", value=False, source="train.py"),
        Fact(name="parameter_bytes", value=COMPUTED, source="train.py, precision bf16", is_default=True),
        Fact(name="reduce_bytes", value=COMPUTED, source="train.py, precision bf16", is_default=True),
        Fact(name="reduces_each", value=True, source="train.py, no_sync", is_default=True),
        Fact(name="on_streams", value=True, source="train.py, FSDP"),
        Fact(name="upcast", value=False, source="train.py, no preparation by peft", methods=("qlora",)),
        Fact(name="adapter_dropout", value=True, source="train.py, lora_dropout 0.1", methods=_ADAPTERS,
             is_default=True),
        Fact(name="holds_inputs", value=False, source="train.py, checkpoint_wrapper without reentry",
             methods=_ADAPTERS),
        Fact(name="fused_optimizer", value=False, source="train.py, optimizer adamw", is_default=True),
    ),
)  # fmt: skip

OF_TRANSFORMERS: tuple[Program, ...] = (
    *(TRL, AXOLOTL, LLAMA_FACTORY, FMS_HF_TUNING, UNSLOTH, MS_SWIFT, XTUNER, OPEN_INSTRUCT, FSDP_QLORA),
)
