"""What an estimate's options ask for, with the machine looked up."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.machine import dtype_on, machine_of, memory_of, power_limit, sizes_meant
from raybench.services.estimating.model import model_asked, shape_basis, with_positions
from raybench.services.estimating.network import network_of
from raybench.services.estimating.options import at_least_one
from raybench.services.estimating.price import price_asked, price_unknown
from raybench.services.estimating.setup_asked import BYTES, USUAL_DTYPE, lora_targets, setup_asked, whole_weights
from raybench.services.estimating.trained import check_is_trained

if TYPE_CHECKING:
    from raybench.performance_model.layout import Layout, Network
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.step.efficiency import Efficiency
    from raybench.services.estimating.machine import Machine
    from raybench.services.estimating.options import EstimateOptions


def estimate_request(options: "EstimateOptions") -> "EstimateRequest":
    """What the options ask for, with the machine looked up. Raises UsageError for what cannot be.

    What a program decides that is named is not in it yet (``performance_model/request/taken.py``).
    """
    from raybench.performance_model.programs.program import usual_strategy
    from raybench.performance_model.programs.table import program_named
    from raybench.performance_model.request.request import EstimateRequest

    machine = machine_of(options)
    program = program_named(options.program) if options.program is not None else None
    if program is not None and program.starts == "raybench":
        check_is_trained(options.model)
    said = _said(options)
    strategy = usual_strategy(program, options.world_size) if options.strategy is None else options.strategy
    options = replace(options, dtype=dtype_on(options.dtype, machine.gpu), strategy=strategy)
    layout = _layout(options, machine)
    model, assumed = with_positions(model_asked(options), options)
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
        memory_bytes=memory_of(options, machine.gpu),
        other_sizes=sizes_meant(options),
        checkpointing_known=_says_checkpointing(options),
        efficiency=_efficiency(options.efficiency) if options.efficiency else None,
        price=price_asked(options),
        price_unknown=price_unknown(options),
        epoch_samples=at_least_one(options.epoch_samples, "--epoch-samples"),
        basis={**machine.basis, **shape_basis(options.model), **assumed, **named, **whole_weights(options)},
        kernels_known=options.kernels is not None,
        loss_known=options.loss is not None,
        power_watts=power_limit(options.power_limit, machine.gpu),
        gradients_known=options.gradient_dtype is not None,
        adapter_dropout_known=options.lora_dropout is not None,
        streams_known=False,
        scales_known=options.base_dtype is not None,
        mean_tokens=at_least_one(options.mean_tokens, "--mean-tokens"),
        program=program,
        said=said,
    )


def _layout(options: "EstimateOptions", machine: "Machine") -> "Layout":
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


def _network(options: "EstimateOptions", machine: "Machine", layout: "Layout") -> tuple["Network | None", str | None]:
    """The network, or why nothing that takes its time can be estimated: volumes and memory can be all the same."""
    from raybench.performance_model.layout import UnknownLinksError

    try:
        return network_of(options, machine, layout), None
    except UnknownLinksError as error:
        return None, str(error)


def _said(options: "EstimateOptions") -> frozenset[str]:
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
        "reduces_last": None if options.reduce_each is None or options.reduce_each else True,
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


def _says_checkpointing(options: "EstimateOptions") -> bool:
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
