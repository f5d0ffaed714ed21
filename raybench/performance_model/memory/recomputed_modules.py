"""Megatron-LM's ``--recompute-granularity selective --recompute-modules``: what stays of a block. Bytes per token.

Not kept are: of ``core_attn``, ``mlp``, ``moe`` and ``shared_experts`` everything but their inputs; of ``layernorm``,
``moe_act`` and ``mla_up_proj`` their outputs, which nothing needs before the backward pass
(core/transformer/transformer_config.py, ``recompute_modules``).
"""

from dataclasses import replace

from raybench.errors import UsageError, unknown_name
from raybench.performance_model.memory.activations import (
    block_activation_bytes_per_token,
    computing,
    feedforward_bytes_per_token,
    inner_widths,
    inputs_kept,
    norm_bytes_per_token,
    score_bytes_per_token,
)
from raybench.performance_model.models.transformer import OF_EXPERTS, SHARED_EXPERT, Transformer
from raybench.performance_model.setup.training_setup import RECOMPUTED_MODULES, RecomputedModule, TrainingSetup

_UP_PROJECTIONS = frozenset({"q_b_proj", "kv_b_proj"})
_NEEDS_EXPERTS = ("moe", "moe_act", "shared_experts")
NORM_PASSES = 2  # a recomputed normalisation reads its input and writes its output


def modules_of(text: str) -> tuple[RecomputedModule, ...]:
    """Modules from ``moe_act,layernorm``, or as Megatron-LM takes them, with spaces. Raises UsageError for others."""
    known: dict[str, RecomputedModule] = {name: name for name in RECOMPUTED_MODULES}
    names = dict.fromkeys(text.replace(",", " ").lower().replace("-", "_").split())
    if not names:
        raise UsageError(f"--recompute-modules '{text}' has no name; give some such as moe_act,layernorm")
    for name in names:
        if name not in known:
            raise unknown_name("module of --recompute-modules", name, known)
    return tuple(known[name] for name in names)


def check_modules(model: Transformer, setup: TrainingSetup) -> None:
    """Raises UsageError for a module that the model does not have."""
    for name in setup.recompute_modules:
        lacks = "experts" if name in _NEEDS_EXPERTS and not model.experts else ""
        lacks = "a shared expert" if name == "shared_experts" and not model.shared_feedforward else lacks
        lacks = "latent attention (MLA)" if name == "mla_up_proj" and not model.key_value_rank else lacks
        if lacks:
            raise UsageError(f"--recompute-modules has {name}, and {model.name} has no {lacks}; leave it out")


def kept_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What is kept of a block until its backward pass; the model's layers are all alike."""
    names = setup.recompute_modules
    dropped = score_bytes_per_token(model, setup) if "core_attn" in names else 0.0
    dropped += _normalised_bytes(model, setup) * norms_again(model, setup)
    if "mla_up_proj" in names and model.key_value_rank:
        unfolded = model.head_size - model.rotary_width + model.value_size
        dropped += model.heads * (2 * model.head_size + unfolded) * setup.compute_bytes
    return block_activation_bytes_per_token(model, setup) - dropped - _feedforward_bytes_dropped(model, setup)


def _feedforward_bytes_dropped(model: Transformer, setup: TrainingSetup) -> float:
    names, whole = setup.recompute_modules, feedforward_bytes_per_token(model, setup)
    if is_feedforward_again(model, setup):  # Transformer Engine's first layer has the norm in it, whose input is kept
        has_norm = setup.kernels == "fused" and not model.experts and not model.parallel
        sums = norm_bytes_per_token(model, setup) - model.hidden * setup.norm_bytes / setup.sequence_shards
        return whole + (_normalised_bytes(model, setup) + max(sums, 0.0) if has_norm else 0.0)
    if not model.experts:
        return 0.0
    dropped = 0.0
    if "shared_experts" in names:
        dropped += whole - feedforward_bytes_per_token(replace(model, shared_feedforward=0, shared_gate=False), setup)
    if "moe_act" in names:
        kept = inner_widths(model, replace(setup, has_8bit_inner=False)) - (2 if model.gated else 1)
        given = kept * setup.compute_bytes
        given -= 0 if "down_proj" in inputs_kept(model, setup) else setup.input_bytes
        dropped += model.experts_per_token * model.feedforward * given
    return dropped


def _normalised_bytes(model: Transformer, setup: TrainingSetup) -> float:
    return setup.input_bytes * model.hidden / setup.sequence_shards


def norms_again(model: Transformer, setup: TrainingSetup) -> int:
    """How many normalisations of a block are modules of their own, and recomputed.

    Transformer Engine has those before q, k and v and before a dense MLP in the linear layer that reads them
    (core/models/gpt/gpt_layer_specs.py), which leaves those before latent attention and before experts.
    """
    if "layernorm" not in setup.recompute_modules:
        return 0
    own = setup.kernels != "fused"
    return (own or bool(model.key_value_rank)) + ((own or bool(model.experts)) and not model.parallel)


def is_feedforward_again(model: Transformer, setup: TrainingSetup) -> bool:
    """Whether the MLP, or all experts, are recomputed; the model's layers are all alike."""
    return ("moe" if model.experts else "mlp") in setup.recompute_modules


def products_share(model: Transformer, setup: TrainingSetup) -> float:
    """Share of the blocks' matrix products that is computed twice."""
    again = sum(kind.layers * _weights_again(kind, setup) for kind in model.kinds())
    return again / (model.block_parameters - model.idle_parameters)


def _weights_again(model: Transformer, setup: TrainingSetup) -> float:
    """Weights of one block that a token's forward pass multiplies twice."""
    names, of = setup.recompute_modules, frozenset[str]()
    of |= _UP_PROJECTIONS if "mla_up_proj" in names else of
    shared = frozenset(name for name in model.linears() if name.startswith(SHARED_EXPERT))
    of |= OF_EXPERTS | shared if is_feedforward_again(model, setup) else of
    of |= shared if "shared_experts" in names else of
    return float(
        sum(
            inputs * outputs * computing(model, name)
            for name, (inputs, outputs) in model.linears().items()
            if name in of
        )
    )


def inner_share(model: Transformer, setup: TrainingSetup) -> float:
    """Share of the layers whose activation function is recomputed."""
    of = (kind.layers for kind in model.kinds() if is_feedforward_again(kind, setup) or _acts_again(kind, setup))
    return sum(of) / model.layers


def _acts_again(model: Transformer, setup: TrainingSetup) -> bool:
    return bool(model.experts) and "moe_act" in setup.recompute_modules
