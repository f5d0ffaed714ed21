"""What a training run will send, hold, take and cost, before it is run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimate_machine import machine_of, measured_runs, network_of
from raybench.services.planning.counted_model import counted_model, is_import_path
from raybench.services.planning.effects import check_effects
from raybench.services.planning.setup_asked import BYTES, USUAL_DTYPE, lora_targets, setup_asked, whole_weights
from raybench.services.study_options import price_table

if TYPE_CHECKING:
    from raybench.documents.estimate import EstimateReport, MeasuredSetting
    from raybench.hardware.gpus import Gpu
    from raybench.performance_model.cost import Price
    from raybench.performance_model.estimate.request import EstimateRequest
    from raybench.performance_model.layout import Layout, Network
    from raybench.performance_model.models.transformer import Transformer
    from raybench.performance_model.setup.training_setup import Dispatcher, Kernels, Loss, Offload, Optimizer
    from raybench.performance_model.step.efficiency import Efficiency
    from raybench.services.estimate_machine import Machine
    from raybench.services.planning.measured_setting import Setting
    from raybench.services.planning.own_runs import MeasuredRun

_COUNTED_LENGTH = 2048  # tokens of a sample, where nobody says, of a model that is counted
_MOST = 10**12
_USUAL_CURRENCY = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """A training run and the machine that it is to run on, as ``raybench estimate --help`` says of each.

    None: the model's, the machine's, the program's, or not known; ``dtype`` auto: what the GPU has. ``result_file``:
    earlier runs, one or several. An all_reduce gives bandwidth and latency; a train or memory of this very setting
    stands in place of the estimate. ``measured``: other trainings that were run, by which it is corrected.
    """

    model: str = "llama-8b"
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    feedforward: int | None = None
    vocabulary: int | None = None
    world_size: int = 8
    gpus_per_node: int | None = None
    strategy: str | None = None
    tensor_parallel: int = 1
    sequence_parallel: bool | None = None
    overlap: bool | None = None
    pipeline_parallel: int = 1
    virtual_stages: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int | None = None
    token_dispatcher: "Dispatcher | None" = None
    force_load_balancing: bool | None = None
    node_type: str | None = None
    gpu: str | None = None
    memory: str | None = None
    nics: int | None = None
    nic_gbit: float | None = None
    nic_gb_per_s: float | None = None
    node_gb_per_s: float | None = None
    bandwidth: float | None = None
    result_file: str | tuple[str, ...] = ()
    latency_us: float | None = None
    batch_size: int = 1
    sequence_length: int | None = None
    accumulation: int = 1
    program: str | None = None
    reduce_each: bool | None = None
    dtype: str = "auto"
    parameter_dtype: str | None = None
    reduce_dtype: str | None = None
    optimizer: "Optimizer" = "adamw"
    optimizer_dtype: str | None = None
    gradient_dtype: str | None = None
    cpu_offload: "Offload" = "none"
    activation_checkpointing: bool | None = None
    selective_checkpointing: bool = False
    recompute_modules: str | None = None
    activation_func_fp8_input_store: bool | None = None
    use_precision_aware_optimizer: bool | None = None
    offload_activations: bool = False
    no_flash_attention: bool | None = None
    native_attention: bool | None = None
    masked_attention: bool | None = None
    dropout: bool | None = None
    bucket_view: bool | None = None
    kernels: "Kernels | None" = None
    loss: "Loss | None" = None
    compile: bool | None = None
    cuda_graphs: bool | None = None
    power_limit: float | None = None
    mtp_layers: int | None = None
    lora_rank: int = 0
    lora_targets: str | None = None
    lora_dropout: bool | None = None
    autocast: bool | None = None
    qlora: bool = False
    base_dtype: str | None = None
    efficiency: str | None = None
    price: float | None = None
    prices: str | None = None
    currency: str = _USUAL_CURRENCY
    epoch_samples: int | None = None
    mean_tokens: int | None = None
    measured: "tuple[MeasuredRun, ...]" = ()

    def __post_init__(self) -> None:
        from raybench.performance_model.programs.optimizer_names import optimizer_named

        object.__setattr__(self, "optimizer", optimizer_named(self.optimizer))


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEstimate:
    """The estimate as its document."""

    report: "EstimateReport"

    @property
    def exit_code(self) -> int:
        """That of the command: 1 where the model does not fit."""
        return self.report.exit_code


def estimate(options: EstimateOptions) -> FinishedEstimate:
    """Communication, memory, step time, throughput and cost; nothing is run. Raises UsageError for what cannot be."""
    from raybench.performance_model.estimate.estimate import estimate as estimated
    from raybench.performance_model.estimate.report import estimate_report
    from raybench.performance_model.programs.other_programs import other_programs
    from raybench.performance_model.programs.taken import checked, with_program

    settings = measured_settings(options)
    request = with_program(checked(estimate_request(options)))
    check_effects(options, request)
    found = estimated(request)
    told: tuple[MeasuredSetting, ...] = ()
    if settings:
        from raybench.services.planning.measured import with_measured

        taking = with_measured(found, settings)
        found, told = taking.estimate, taking.told
    alone = found
    is_measured = found.measured is not None and found.measured.step_seconds is not None
    if not is_measured and (settings or options.measured):
        from raybench.services.planning.own_runs import own_runs_of, with_corrections

        runs = own_runs_of(options, settings, estimate_request)
        if options.measured and found.traits is None:
            raise UsageError(f"--measured corrects a step time, and none is told here: {'; '.join(found.unknown)}")
        if runs and found.traits is not None:
            found = replace(estimated(replace(request, own_runs=runs)), measured=found.measured)
        if found.traits is not None:
            told = with_corrections(told, runs, settings, options, estimate_request)
    report = replace(estimate_report(found), measured=told, other_programs=other_programs(found))
    if found is not alone:
        report = replace(report, uncorrected_step_seconds=alone.step_seconds)
    return FinishedEstimate(report=report)


def measured_settings(options: EstimateOptions) -> "tuple[Setting, ...]":
    """Every training and memory of the results given. Raises UsageError as ``measured_runs`` does."""
    runs = measured_runs(options)
    if not runs:
        return ()

    from raybench.services.planning.measured_setting import settings_of

    return tuple(setting for _, run in runs for setting in settings_of(run))


def estimate_request(options: EstimateOptions) -> "EstimateRequest":
    """What the options ask for, with the machine looked up. Raises UsageError for what cannot be.

    What a program decides that is named is not in it yet (``performance_model/programs/taken.py``).
    """
    from raybench.performance_model.estimate.request import EstimateRequest
    from raybench.performance_model.programs.program import usual_strategy
    from raybench.performance_model.programs.table import program_named
    from raybench.services.planning.launch import check_is_trained

    machine = machine_of(options)
    program = program_named(options.program) if options.program is not None else None
    if program is not None and program.starts == "raybench":
        check_is_trained(options.model)
    said = _said(options)
    strategy = usual_strategy(program, options.world_size) if options.strategy is None else options.strategy
    options = replace(options, dtype=_dtype(options.dtype, machine.gpu), strategy=strategy)
    layout = _layout(options, machine)
    model, assumed = _with_positions(_model(options), options)
    targets, named = lora_targets(options, model)
    network, why_unknown = _network(options, machine, layout)
    return EstimateRequest(
        model=model,
        setup=setup_asked(options, model, targets),
        layout=layout,
        network=network,
        network_unknown=why_unknown,
        dtype=options.dtype,
        reduce_bytes=BYTES[options.reduce_dtype or USUAL_DTYPE],
        accumulation=options.accumulation,
        gpu=machine.gpu,
        memory_bytes=_memory(options, machine.gpu),
        other_sizes=_other_sizes(options),
        checkpointing_known=_says_checkpointing(options),
        efficiency=_efficiency(options.efficiency) if options.efficiency else None,
        price=_price(options),
        price_unknown=_price_unknown(options),
        epoch_samples=at_least_one(options.epoch_samples, "--epoch-samples"),
        basis={**machine.basis, **_shape_taken(options.model), **assumed, **named, **whole_weights(options)},
        kernels_known=options.kernels is not None,
        loss_known=options.loss is not None,
        power_watts=_power(options.power_limit, machine.gpu),
        gradients_known=options.gradient_dtype is not None,
        adapter_dropout_known=options.lora_dropout is not None,
        streams_known=False,
        mean_tokens=at_least_one(options.mean_tokens, "--mean-tokens"),
        program=program,
        said=said,
    )


def _layout(options: EstimateOptions, machine: "Machine") -> "Layout":
    from raybench.performance_model.layout import Layout

    given_ranks = at_least_one(options.gpus_per_node, "--gpus-per-node")
    at_least_one(options.accumulation, "--gradient-accumulation-steps")
    return Layout(
        world_size=options.world_size,
        ranks_per_node=given_ranks or (machine.node.gpus if machine.node else 8),
        tensor=options.tensor_parallel,
        context=options.context_parallel,
        pipeline=options.pipeline_parallel,
        expert=options.expert_parallel,
        virtual_stages=options.virtual_stages,
        expert_cut=options.expert_tensor_parallel,
    )


def _said(options: EstimateOptions) -> frozenset[str]:
    """The strategy, and the fields of a program's facts, that are given: of flags those that are set."""
    given = {
        "strategy": options.strategy,
        "kernels": options.kernels,
        "loss": options.loss,
        "compiled": options.compile,
        "native_attention": options.native_attention,
        "masked_attention": options.masked_attention,
        "gradient_bytes": options.gradient_dtype or options.reduce_dtype,  # of a model that is cut
        "reduce_bytes": options.reduce_dtype,
        "parameter_bytes": options.parameter_dtype or options.use_precision_aware_optimizer or None,
        "moment_bytes": options.optimizer_dtype,
        "stores_remainders": options.use_precision_aware_optimizer,
        "has_8bit_inner": options.activation_func_fp8_input_store,
        "reduces_each": options.reduce_each,
        "vocabulary_multiple": options.vocabulary,
        "bucket_view": options.bucket_view,
        "sequence_parallel": options.sequence_parallel,
        "overlaps": options.overlap,
        "flash_attention": options.no_flash_attention,
        "offloads_activations": options.offload_activations or None,
        "packing": options.base_dtype,
        "base_bytes": options.base_dtype,
        "autocast": options.autocast,
        "adapter_dropout": options.lora_dropout,
        "drops": options.dropout,
    }
    return frozenset(name for name, value in given.items() if value is not None)


def _dtype(name: str, gpu: "Gpu | None") -> str:
    """The type; of ``auto`` bf16, or fp16 on a GPU that has units for it and none for bf16 (V100, T4)."""
    if name != "auto":
        return name
    lacks_it = gpu is not None and gpu.peak_tflops("bf16") is None
    return "fp16" if gpu is not None and lacks_it and gpu.peak_tflops("fp16") else "bf16"


def _power(watts: float | None, gpu: "Gpu | None") -> float | None:
    from raybench.performance_model.step.work import FULL_WATTS, LEAST_WATTS

    if watts is None:
        return None
    if gpu is None or gpu.name not in FULL_WATTS:
        known = ", ".join(FULL_WATTS)
        raise UsageError(f"what --power-limit costs is known of {known} only; leave it out, or give --efficiency")
    most = FULL_WATTS[gpu.name]
    if not LEAST_WATTS <= watts <= most:
        raise UsageError(
            f"--power-limit is {watts:g}; {gpu.name} takes {LEAST_WATTS:g} to {most:g} W (nvidia-smi -q -d POWER)"
        )
    return watts


def _network(options: EstimateOptions, machine: "Machine", layout: "Layout") -> tuple["Network | None", str | None]:
    """The network, or why nothing that takes its time can be estimated: volumes and memory can be all the same."""
    from raybench.performance_model.layout import UnknownLinksError

    try:
        return network_of(options, machine, layout), None
    except UnknownLinksError as error:
        return None, str(error)


def _model(options: EstimateOptions) -> "Transformer":
    from raybench.performance_model.models.config import is_config, model_of_config
    from raybench.performance_model.models.presets import preset_named
    from raybench.performance_model.models.released import released_names

    names = ("layers", "hidden", "heads", "kv_heads", "feedforward", "vocabulary")
    changes = {
        name: value for name in names if (value := at_least_one(getattr(options, name), f"--{name.replace('_', '-')}"))
    }
    if _is_call(options.model):
        raise UsageError(
            f"--model {options.model} has arguments, and an import path has none; name a function that gives the "
            "module: def make(): return Net(64), and --model package.module:make"
        )
    if is_import_path(options.model):
        return _counted(options, changes)
    if is_config(options.model):
        model = model_of_config(options.model)
    else:
        model = preset_named(options.model, others=released_names())
    length = options.sequence_length or 0
    if changes.keys() - {"vocabulary"} and 0 < model.positions < length:  # another model, with a table of its own
        changes["positions"] = at_least_one(length, "--sequence-length") or length
    model = model.resized(**changes) if changes else model
    ahead = at_least_one(options.mtp_layers, "--mtp-layers")
    if ahead and options.lora_rank:
        raise UsageError("--mtp-layers are of a model that is trained whole; leave them out with adapters")
    model = model.with_prediction(ahead) if ahead else model
    return model if options.dropout is None else replace(model, drops=options.dropout)


def _shape_taken(name: str) -> dict[str, str]:
    """A line of a model that is estimated by the shape of another release of it."""
    from raybench.performance_model.models.config import shape_taken

    released = None if is_import_path(name) else shape_taken(name)
    return {"model": f"{name.strip()} by the shape of {released}, which it shares"} if released else {}


def _is_call(name: str) -> bool:
    """Whether an import path is written as a call: ``package.module:factory(64)``."""
    path, bracket, _ = name.partition("(")
    return bool(bracket) and is_import_path(path)


def _counted(options: EstimateOptions, changes: dict[str, int]) -> "Transformer":
    in_part = options.selective_checkpointing or options.recompute_modules
    if changes or options.lora_rank or in_part or options.dropout is not None or options.mtp_layers:
        part = "--selective-checkpointing" if options.selective_checkpointing else "--recompute-modules"
        rest = part if in_part else "--dropout" if options.dropout is not None else "--mtp-layers"
        given = "its sizes" if changes else "LoRA" if options.lora_rank else rest
        raise UsageError(f"--model {options.model} is taken as it is; {given} cannot be chosen beside an import path")
    length = at_least_one(options.sequence_length, "--sequence-length") or _COUNTED_LENGTH
    return counted_model(options.model, sequence_length=length, dtype=options.dtype)


def _with_positions(model: "Transformer", options: EstimateOptions) -> tuple["Transformer", dict[str, str]]:
    """With a table of positions as long as the samples, where all of it is trained; and a line that says so.

    A model that is trained from the start has the table that it is told (nanoGPT's ``block_size``, Megatron-LM's
    ``--max-position-embeddings``). Raises UsageError for longer samples with adapters: a frozen table has its length.
    """
    length, own = options.sequence_length, model.positions
    if length is None or not 0 < own < length:
        return model, {}
    if options.lora_rank or is_import_path(options.model):
        raise UsageError(
            f"--sequence-length is {length}, and {options.model} has a table of {own} positions; "
            "take a shorter one, or a model with rotary positions such as llama"
        )
    at_least_one(length, "--sequence-length")
    longer = replace(model, positions=length, context=max(model.context, length))
    return longer, {"positions": f"a table of {length}, as --sequence-length asks, in place of {model.name}'s {own}"}


def _memory(options: EstimateOptions, gpu: "Gpu | None") -> int | None:
    from raybench.hardware.gpus import other_sizes, usable_of
    from raybench.units import parse_amount

    if options.memory:
        alike = (gpu, *other_sizes(options.gpu or "")) if gpu else ()
        return usable_of(parse_amount("--memory", options.memory, "64M"), alike)
    return gpu.memory_bytes if gpu else None


def _other_sizes(options: EstimateOptions) -> tuple[int, ...]:
    """Bytes of GPUs that may be meant as well: none where a size, a machine or a run of one says which."""
    from raybench.hardware.gpus import other_sizes

    is_said = options.memory or options.node_type or options.result_file or options.gpu is None
    return () if is_said else tuple(gpu.memory_bytes for gpu in other_sizes(options.gpu or ""))


def _says_checkpointing(options: EstimateOptions) -> bool:
    in_part = options.selective_checkpointing or options.recompute_modules is not None
    return options.activation_checkpointing is not None or in_part


def _efficiency(text: str) -> "Efficiency":
    from raybench.performance_model.step.efficiency import Efficiency

    low, _, high = text.partition(":")
    try:
        shares = float(low), float(high or low)
    except ValueError:
        raise UsageError(f"--efficiency '{text}' is not LOW:HIGH, such as 0.35:0.45") from None
    if shares[1] > 1:  # fitted ones may be above: of all scores of attention
        raise UsageError(f"--efficiency '{text}' is above the peak; give shares of it, such as 0.35:0.45")
    return Efficiency(low=shares[0], high=shares[1], source="given")


def _price(options: EstimateOptions) -> "Price | None":
    from raybench.performance_model.cost import Price, list_price

    if options.price is not None:
        return Price(per_node_hour=options.price, source="given", currency=options.currency)
    if options.prices and not options.node_type:
        raise UsageError("--prices needs --node-type: the name of a line in it")
    listed = list_price(options.node_type, price_table(options.prices)) if options.node_type else None
    if options.currency not in (_USUAL_CURRENCY, listed.currency if listed else None):
        is_in = (
            f"the list price of {options.node_type} is in {listed.currency}" if listed else "there is no other price"
        )
        raise UsageError(f"--currency {options.currency} is of --price, and {is_in}; give --price with it")
    return listed


def _price_unknown(options: EstimateOptions) -> str | None:
    from raybench.performance_model.cost import why_unpriced

    return why_unpriced(options.node_type) if options.node_type else None


def at_least_one(value: int | None, name: str) -> int | None:
    """The value. Raises UsageError for one below 1, and for more than anything has."""
    if value is not None and not 1 <= value <= _MOST:
        raise UsageError(f"{name} is {value}; it must be at least 1 and at most {_MOST}")
    return value
