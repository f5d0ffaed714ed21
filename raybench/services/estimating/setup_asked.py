"""How an estimate's model is trained, by the options that say it."""

from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.performance_model.models.transformer import Transformer
    from raybench.performance_model.setup.adapters import Packing
    from raybench.performance_model.setup.strategies import Strategy
    from raybench.performance_model.setup.training_setup import TrainingSetup
    from raybench.services.estimating.options import EstimateOptions

BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2}  # of an activation: fp8 is of matrix products alone
_PACKED = ("nf4", "int8", "fp8")  # types of a frozen base that is unpacked, or cast, to compute
USUAL_DTYPE = "fp32"  # of weights that are stored, and of gradients that are reduced
_KEEPING = ("ddp", "zero1", "zero2", "zero3")  # their gradients stay where they are from step to step


def lora_targets(options: "EstimateOptions", model: "Transformer") -> tuple[tuple[str, ...], dict[str, str]]:
    """The layers that get adapters, by Llama's names; and what was made of names that have several, or none."""
    if options.lora_targets is None:
        return (), {}

    from raybench.benchmarks.training.options import targets_of
    from raybench.performance_model.models.families.layer_names import NO_LAYER, layers_named

    found = layers_named(model, targets_of(options.lora_targets))
    told = {
        "LoRA targets": "; ".join(
            f"{name} as {', '.join(layers)}, each with an adapter of its own" for name, layers in found.joined
        ),
        "LoRA targets not counted": _left_out(found.outer, "no layer of a block: its adapter is left out"),
        NO_LAYER: _left_out(found.unmatched, f"no layer of {model.name}; peft leaves it out, too"),
    }
    return found.layers, {name: words for name, words in told.items() if words}


def _left_out(names: tuple[str, ...], why: str) -> str:
    return f"{', '.join(names)}: {why}" if names else ""


def setup_asked(options: "EstimateOptions", model: "Transformer", targets: tuple[str, ...]) -> "TrainingSetup":
    """How it is trained, by the options; of what is not said what takes most. Raises UsageError for what cannot be."""
    from raybench.performance_model.memory.recomputed_modules import check_modules, modules_of
    from raybench.performance_model.request.heaviest import heaviest
    from raybench.performance_model.setup.replicas import SENDING_ONCE
    from raybench.performance_model.setup.strategies import is_named_by_megatron, strategy_named
    from raybench.performance_model.setup.training_setup import TrainingSetup

    strategy = strategy_named(options.strategy or "ddp")
    is_aware = strategy == "zero1" and bool(options.use_precision_aware_optimizer)  # which Megatron-LM alone has
    megatrons = is_named_by_megatron(options.strategy or "") or is_aware
    length = options.sequence_length
    setup = TrainingSetup(
        batch_size=options.batch_size,
        sequence_length=min(model.context, 4096) if length is None else length,
        strategy=strategy,
        optimizer=options.optimizer,
        parameter_bytes=BYTES[options.parameter_dtype or USUAL_DTYPE],
        compute_bytes=BYTES[options.dtype],
        checkpointing=bool(options.activation_checkpointing),
        flash_attention=not options.no_flash_attention,
        native_attention=options.native_attention,
        masked_attention=options.masked_attention,
        bucket_view=options.bucket_view is not False,
        gradients_kept=options.accumulation > 1 or _keeps_gradients(options, strategy),
        whole_gradients=options.accumulation > 1 and options.reduce_each is False,
        lora_rank=options.lora_rank,
        autocast=options.autocast is not False,
        lora_targets=targets,
        adapter_dropout=options.lora_dropout is not False,
        quantized=options.qlora or options.base_dtype in _PACKED,
        packing=_packing(options),
        base_bytes=_base_bytes(options, strategy),
        moment_bytes=_moment_bytes(options),
        offloads_activations=options.offload_activations,
        kernels=options.kernels or "plain",
        compiled=options.compile,
        captured=options.cuda_graphs,
        loss=options.loss or "plain",
        own_loop=options.program is None and options.loss == "plain",
        gradient_bytes=_gradient_bytes(options, strategy, is_megatrons=megatrons),
        gradient_buffers=megatrons,
        reduce_bytes=BYTES[options.reduce_dtype or USUAL_DTYPE],
        selective=options.selective_checkpointing,
        recompute_modules=() if options.recompute_modules is None else modules_of(options.recompute_modules),
        offload=options.cpu_offload,
        has_8bit_inner=bool(options.activation_func_fp8_input_store),
        stores_remainders=_stores_remainders(options, strategy),
        fused_optimizer=_is_te_adam(options, strategy),
        sequence_parallel=options.sequence_parallel,
        overlaps=options.overlap,
        sends_once=None if options.token_dispatcher is None else options.token_dispatcher in SENDING_ONCE,
        overlaps_exchange=options.overlap_experts,
        is_balanced=options.force_load_balancing,
    )
    check_modules(model, setup)
    if setup.has_8bit_inner and not model.gated:
        raise UsageError(f"--activation-func-fp8-input-store is of SwiGLU, and {model.name} has none; leave it out")
    return heaviest(setup, kernels_known=options.kernels is not None, loss_known=options.loss is not None)


def _packing(options: "EstimateOptions") -> "Packing":
    if options.qlora and options.base_dtype not in (None, "nf4"):
        raise UsageError(f"--qlora has a base in 4 bits, and --base-dtype is {options.base_dtype}; give one of them")
    if options.base_dtype is not None and not options.lora_rank:
        raise UsageError("--base-dtype is of a frozen base; give --lora-rank of at least 1 with it")
    return "8bit" if options.base_dtype in ("int8", "fp8") else "nf4"


def _base_bytes(options: "EstimateOptions", strategy: "Strategy") -> int:
    """Of a frozen base that is not packed; 0 where nobody says, or it is that of the computation."""
    if options.base_dtype is None or options.base_dtype in _PACKED:
        return 0
    asked, computed = BYTES[options.base_dtype], BYTES[options.dtype]
    if asked < computed:
        raise UsageError(f"a base in {options.base_dtype} is computed in it; give --dtype {options.base_dtype}")
    if asked > computed and strategy.startswith("zero"):
        raise UsageError(
            f"DeepSpeed casts the whole model to --dtype {options.dtype}, its base too; leave --base-dtype out"
        )
    if asked > computed and options.autocast is False:
        raise UsageError("nothing casts a base in fp32 without autocast: the computation is in it; give --dtype fp32")
    return asked


def _moment_bytes(options: "EstimateOptions") -> int:
    if options.optimizer_dtype is None:
        return 0
    if options.optimizer.endswith("8bit") or options.optimizer == "sgd":
        has = "moments in 8 bits" if options.optimizer != "sgd" else "no moments"
        raise UsageError(f"--optimizer {options.optimizer} has {has}; leave --optimizer-dtype out")
    return BYTES[options.optimizer_dtype]


def _stores_remainders(options: "EstimateOptions", strategy: "Strategy") -> bool:
    """Whether the optimizer has the 16 bits of its fp32 weights that those in bf16 lack.

    Of fp16 and fp8 its fp32 weights are whole (megatron/core/optimizer/optimizer_config.py: fp8 recipes but the delayed
    one have them outside of Transformer Engine's Adam; distrib_optimizer.py: remainders with bf16 alone).
    """
    asked = bool(options.use_precision_aware_optimizer)
    if asked and strategy != "zero1" and not strategy.startswith("fsdp"):
        raise UsageError(
            f"--use-precision-aware-optimizer is of Megatron-LM's distributed optimizer, and of Transformer Engine's "
            f"FusedAdam over FSDP, and --strategy is {options.strategy or strategy}; take zero1 or fsdp"
        )
    if asked and (BYTES[options.dtype] >= BYTES[USUAL_DTYPE] or options.parameter_dtype not in (None, "fp32")):
        raise UsageError(
            "--use-precision-aware-optimizer has fp32 weights beside those of the computation; take --dtype bf16, fp16 "
            "or fp8 and --parameter-dtype fp32, or leave it out"
        )
    return asked and options.dtype == "bf16"


def _is_te_adam(options: "EstimateOptions", strategy: "Strategy") -> bool:
    """Whether it is Transformer Engine's Adam over shards, which is one kernel."""
    return bool(options.use_precision_aware_optimizer) and strategy.startswith("fsdp")


def whole_weights(options: "EstimateOptions") -> dict[str, str]:
    """What is made of an optimizer that is aware of precision, where weights lack more of fp32 than it keeps."""
    if not options.use_precision_aware_optimizer or options.dtype == "bf16":
        return {}
    why = f"whole beside {options.dtype}, of which --use-precision-aware-optimizer keeps no remainders"
    return {"fp32 weights": f"{why}; moments are of --optimizer-dtype"}


def _keeps_gradients(options: "EstimateOptions", strategy: str) -> bool:
    """From step to step; DDP's as views of its buckets: others are let go (``zero_grad``, from PyTorch 2.0 on)."""
    has_room = strategy != "ddp" or options.bucket_view is not False
    return strategy in _KEEPING and has_room and options.world_size > 1


def _gradient_bytes(options: "EstimateOptions", strategy: "Strategy", *, is_megatrons: bool) -> int:
    """Of ZeRO-1 and 2: DeepSpeed's are in the compute type; Megatron-LM, which cuts the model, adds bf16 up in fp32.

    Unless it is told another type (``--grad-reduce-in-bf16``), and fp16 ones as they are (megatron/training/
    arguments.py: ``accumulate_allreduce_grads_in_fp32`` is set with bf16 alone).
    """
    if options.gradient_dtype is not None:
        own_type, of = options.parameter_dtype or USUAL_DTYPE, "--parameter-dtype"
        if strategy == "zero3":  # deepspeed/runtime/engine.py, get_data_types: that of the computation unless told
            own_type, of = options.dtype, "--dtype"
        if strategy not in ("zero1", "zero2") and BYTES[options.gradient_dtype] != BYTES[own_type]:
            raise UsageError(
                f"--gradient-dtype is of zero1 and zero2; with {strategy} gradients are in {own_type} here ({of}), "
                "and FSDP reduces them in --reduce-dtype"
            )
        return BYTES[options.gradient_dtype]
    cut = options.tensor_parallel * options.pipeline_parallel * options.context_parallel * options.expert_parallel > 1
    own = USUAL_DTYPE if options.dtype != "fp16" else options.dtype
    return BYTES[options.reduce_dtype or own] if cut or is_megatrons else BYTES[options.dtype]
