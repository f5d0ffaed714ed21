"""The programs that are known, each with what its files say."""

from types import MappingProxyType

from raybench.errors import nearest, unknown_name
from raybench.performance_model.programs.of_megatron import (
    LOSS_IN_PLACE,
    OF_MEGATRON,
    OF_MEGATRON_CORE,
    compiles_functions_alone,
)
from raybench.performance_model.programs.of_others import OF_OTHERS
from raybench.performance_model.programs.of_pytorch import OF_PYTORCH
from raybench.performance_model.programs.of_release import of_release
from raybench.performance_model.programs.of_transformers import (
    FUSED_LOSS,
    OF_THE_TRAINER,
    OF_TRANSFORMERS,
    SINGLE_SCALES,
    WITH_LIGER,
    WITH_PEFT,
)
from raybench.performance_model.programs.program import (
    AS_THE_MODEL,
    COMPILED,
    EAGER,
    FSDP,
    NOT_ROTARY,
    OF_LAYER_NORM,
    SELECTIVE,
    Fact,
    Families,
    Lack,
    Program,
    every_name,
)
from raybench.performance_model.programs.releases import Releases, name_and_release
from raybench.performance_model.programs.releases_of_transformers import (
    CUTS_OF_RELEASES,
    PLANNED_OF_RELEASES,
    SYNC_EACH,
)

TORCHTITAN = Program(
    name="torchtitan",
    title="torchtitan",
    timing="torchtitan",
    strategies=(*FSDP, "ddp"),  # torchtitan/config/configs.py, data_parallel_shard_degree -1
    cuts=("tensor", "context", "pipeline", "expert"),
    dtensors=True,  # torchtitan/models/llama3/infra/parallelize.py
    lacks=(
        Lack(option="--reduce-last", name="reduces_each", value=False, source="torchtitan/trainer.py sets no gradient "
             "sync"),
        Lack(option="--dropout", name="drops", value=True, source="torchtitan/models, which drop nothing"),
    ),
    families=Families(
        none_of=(*NOT_ROTARY, *OF_LAYER_NORM),
        has="models with rotary positions and RMSNorm",
        source="torchtitan/models: llama3, llama4, qwen3, deepseek_v3, gpt_oss",
    ),
    selective=True,
    whole_experts=True,  # ranks of experts are those of shards and tensors (torchtitan/models/common/MOE_SHARDING.md)
    # torchtitan/config/job_config.py of 0.2.0 to 0.2.2, expert_tensor_parallel_degree; gone since April 2026
    cut_experts=Releases(since="0.2", until="0.3"),
    starts="torchtitan",
    # some of its configurations compile, most do not; a plan has it told to
    planned=(Fact(name="compiled", value=True, source="--compile.enable, as a plan has it told"),),
    facts=(
        Fact(name="kernels", value="fused", source="torchtitan/config/configs.py, CompileConfig.components",
             needs=COMPILED),
        Fact(name="loss", value="plain", source="torchtitan/components/loss.py, not compiled before 0.1 (April 2025)",
             releases=Releases(until="0.1")),
        Fact(name="loss", value="fused", source="torchtitan/components/loss.py, build_cross_entropy_loss, compiled, of "
             "0.1 and 0.2", needs=COMPILED, releases=Releases(until="0.2.3")),
        Fact(name="loss", value="plain", source="torchtitan/components/loss.py, cross_entropy_loss of 0.1 and 0.2",
             needs=EAGER, releases=Releases(until="0.2.3")),
        Fact(name="native_attention", value=True, source="torchtitan/models/attention.py, CUDNN_ATTENTION first, of "
             "0.2", releases=Releases(since="0.2", until="0.2.3"), is_default=True),
        Fact(name="loss", value="fused", source="torchtitan/config/configs.py, CompileConfig.components; compiled from "
             "April 2025 on (torchtitan/components/loss.py), in chunks from April 2026 on", needs=COMPILED,
             is_open=True),
        Fact(name="loss", value="plain", source="torchtitan/components/loss.py, cross_entropy_loss; in chunks from "
             "April 2026 on", needs=EAGER, is_open=True),
        Fact(name="kernels", value="plain", source="torchtitan/models/common/nn_modules.py; PyTorch's RMSNorm is one "
             "kernel from 2.8 on", needs=EAGER, is_open=True),
        Fact(name="saves_exchanged", value=False, source="torchtitan/models/*/infra/parallelize.py, _save_list before "
             "0.2, without all_to_all", needs=SELECTIVE, releases=Releases(until="0.2")),
        Fact(name="saves_exchanged", value=False, source="torchtitan/models/qwen3/infra/parallelize.py, "
             "_op_sac_save_list of 0.2, without all_to_all", needs=SELECTIVE, families=("qwen3_moe",),
             releases=Releases(until="0.2.3")),
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
    counts_apart=("megatron-swift",),
    restarted="2",  # Megatron-LM 2.5 and 3.0 are of 2021 and 2022, Megatron-Core 0.1 of 2023
    late_cuts={"context": Releases(since="0.4")},  # megatron/arguments.py, --context-parallel-size
    strategies=("ddp", "zero1"),
    unplanned=("fsdp", "fsdp-hybrid"),  # megatron/training/arguments.py, --use-megatron-fsdp and --use-torch-fsdp2
    plain_loss=LOSS_IN_PLACE,  # without --cross-entropy-loss-fusion it is its own all the same
    lacks=(compiles_functions_alone("megatron/core/jit.py"),),
    cuts=("tensor", "context", "pipeline", "expert"),
    selective="it computes attention again alone, of which flash attention keeps next to nothing",
    recomputes_modules=True,
    predicts_ahead=True,  # megatron/core/transformer/multi_token_prediction.py
    starts="megatron-lm",
    planned=(Fact(name="drops", value=AS_THE_MODEL, source="--hidden-dropout and --attention-dropout, as a plan has "
                  "them told"),
             Fact(name="overlaps", value=True, source="--overlap-grad-reduce and --overlap-param-gather, as a plan has "
                  "them told", strategies=("zero1",), releases=Releases(since="0.5"))),
    facts=(
        Fact(name="kernels", value="fused", source="megatron/core/transformer/transformer_config.py, "
             "transformer_impl", is_default=True),
        LOSS_IN_PLACE,
        Fact(name="flash_attention", value=False, source="megatron/arguments.py, transformer_impl local without "
             "--use-flash-attn, up to core 0.5; with it --flash-attention", releases=Releases(until="0.6"),
             is_default=True),
        Fact(name="native_attention", value=False, source="megatron/core/transformer/dot_product_attention.py and "
             "flash-attn 2, up to core 0.5", releases=Releases(until="0.6"), is_default=True),
        Fact(name="keeps_least", value=False, source="megatron/core/fusions: no fused_bias_swiglu.py up to core 0.4",
             needs={"kernels": "fused"}, releases=Releases(until="0.5")),
        Fact(name="native_attention", value=True, source="megatron/core/transformer/transformer_config.py, "
             "attention_backend", is_default=True),
        Fact(name="gradient_bytes", value=4, source="megatron/training/arguments.py, "
             "accumulate_allreduce_grads_in_fp32", strategies=("zero1",), is_default=True),
        Fact(name="overlaps", value=False, source="megatron/training/arguments.py, DDP without overlap_grad_reduce",
             strategies=("ddp",), is_default=True),
        *OF_MEGATRON_CORE,
        Fact(name="vocabulary_multiple", value=128, source="megatron/training/arguments.py, "
             "make_vocab_size_divisible_by, of each tensor rank", is_default=True),
        Fact(name="drops", value=True, source="megatron/core/transformer/transformer_config.py, hidden_dropout 0.1; 0 "
             "in examples/llama/train_llama3_8b_h100_fp8.sh", is_open=True),
    ),
)  # fmt: skip

TRANSFORMERS = Program(
    name="transformers",
    title="transformers",
    timing="transformers",
    fused_loss=FUSED_LOSS,
    aliases=("hf", "huggingface", "trainer", "accelerate", "peft", "fastchat", "lmflow"),
    late_cuts=CUTS_OF_RELEASES,
    counts_apart=("accelerate", "peft", "fastchat", "lmflow"),
    strategies=("ddp", "zero1", "zero2", "zero3", *FSDP),
    cuts=("tensor", "context"),
    # docs/source/en/expert_parallelism.md: enable_expert_parallel spreads experts over the ranks of tp_size
    instead=MappingProxyType({"expert": "its experts are spread over tensor ranks (--tensor-parallel)"}),
    methods=("full", "lora", "qlora"),
    # accelerate's ParallelismConfig: PyTorch's context_parallel, balanced unless it is told otherwise
    # (torch/distributed/tensor/experimental, enable_load_balance)
    deals_sequences=True,
    trains_given=True,  # transformers/trainer.py, model
    starts="transformers",
    planned=(*PLANNED_OF_RELEASES, Fact(name="reduces_each", value=True, source=SYNC_EACH)),
    facts=(*WITH_LIGER, SINGLE_SCALES, *WITH_PEFT, *OF_THE_TRAINER),
)  # fmt: skip

PROGRAMS: tuple[Program, ...] = (
    *(MEGATRON_LM, TORCHTITAN, TRANSFORMERS),
    *OF_PYTORCH,
    *OF_MEGATRON,
    *OF_TRANSFORMERS,
    *OF_OTHERS,
)

# Of one kind, or of one house: whoever has one of them may well take another that can be told what it can not.
KIN: tuple[tuple[str, ...], ...] = (
    ("megatron-lm", "megatron-bridge", "megatron-deepspeed", "nemo-automodel"),
    ("torchtitan", "torchtune", "nemo-automodel", "prime-rl"),
    ("deepspeed-chat", "deepspeed", "transformers"),
    ("unsloth", "trl", "axolotl", "llama-factory"),
    ("ms-swift", "megatron-lm"),
    ("verl", "megatron-lm"),
    ("gpt-neox", "megatron-deepspeed", "deepspeed", "transformers"),
)


def program_named(asked: str) -> Program:
    """A program by one of its names, or a release of it as pip writes it: ``transformers==4.35``.

    Raises UsageError for a name that is not known, with all that are, and for what is no release.
    """
    name, release = name_and_release(asked)
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    found = next((one for one in PROGRAMS if key in one.names), None)
    if found is None:
        known = every_name(PROGRAMS)
        other = "" if nearest(name, known) else "leave --program out, and options say what a program would decide"
        raise unknown_name("program", name, known, else_=other)
    return found if release is None else of_release(found, key, release)
