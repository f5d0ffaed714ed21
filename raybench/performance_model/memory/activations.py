"""What autograd saves of a transformer, and what comes and goes while gradients are computed. Bytes per token.

As raybench's own training code (`benchmarks/training/models/transformer.py`) does it on a GPU: under autocast a
normalisation computes in fp32, whatever its input, and each layer that reads it casts it anew. Checked against autograd
in ``tests/performance_model/memory/test_saved_activations.py``, and with the rest of a step in
``test_memory_counted.py``.
"""

from raybench.performance_model.models.counted_model import CountedModel
from raybench.performance_model.models.transformer import OF_EXPERTS, Transformer
from raybench.performance_model.parallel.part import ModelPart
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

_JOINED = frozenset({"q_proj", "k_proj", "v_proj"})  # where they are; layers of latent attention are each their own
_OF_ATTENTION = _JOINED | {"q_a_proj", "kv_a_proj_with_mqa"}
_OF_MLP = frozenset({"gate_proj", "up_proj"})
_IN_ORDER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")  # as a block computes them
_OF_NORMS = _OF_ATTENTION | _OF_MLP  # linear layers that read what a normalisation gives
_SUM_BYTES = 4  # of a row: FlashAttention's sums of exponentials, a normalisation's deviation


def block_activation_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd saves of one block.

    - both norms: their inputs
    - linear layers: their inputs, which are the norms' outputs (cast anew for each reader under autocast), the
      attention's output and the MLP's inner product
    - attention: q, the keys and values of every head, its output, and a 4-byte sum per head or the probabilities. With
      rotary positions the output is saved twice: they leave q, and with it FlashAttention's output, laid out by heads
      (not in fp32 on a GPU, where another kernel computes)
    - SwiGLU: gate, its SiLU and up; GELU: its input
    """
    if isinstance(model, CountedModel):
        return model.block_kept_bytes / model.sample_length
    inner, width = model.heads * model.head_size, setup.input_bytes
    if setup.compiled and not model.experts:
        return _compiled_bytes_per_token(model, setup)
    kept = inputs_kept(model, setup)
    drops_anew = setup.adapter_dropout and bool(setup.lora_rank) and not _keeps_frozen_inputs(setup)
    anew = drops_anew or (setup.has_autocast and setup.kernels == "plain" and not setup.norms_as_read)
    readers = _readers(kept, setup) if anew else bool(kept & _OF_ATTENTION) + bool(kept & _OF_MLP)
    if model.parallel and not anew:
        readers = bool(kept & _OF_NORMS)
    attention = _attention_bytes_per_token(model, setup) + score_bytes_per_token(model, setup)
    if setup.math_attention:  # q, keys and values are cast up, each for all heads
        attention += 3 * inner * (FP32_BYTES - setup.compute_bytes)
    norms = model.norms_per_layer * norm_bytes_per_token(model, setup)
    if model.head_norms:
        norms += (inner + model.key_value_heads * model.head_size) * _norm_width(model, setup)
    read = readers * width * model.hidden / setup.sequence_shards
    masks = 2 * model.hidden / setup.sequence_shards if model.drops else 0  # of what attention and the MLP give
    dropped = _dropout_bytes_per_token(model, setup) + _cast_bytes_per_token(model, setup) + masks
    return norms + read + dropped + attention + feedforward_bytes_per_token(model, setup)


def _keeps_frozen_inputs(setup: TrainingSetup) -> bool:
    """Whether layers of a 4-bit base save their inputs."""
    return setup.quantized and setup.frozen_inputs != "dropped"


def _readers(kept: frozenset[str], setup: TrainingSetup) -> int:
    """How many layers that read a norm save a copy of their own: cast anew, or what their own dropout leaves."""
    joined = len(kept & _JOINED) - 1 if setup.joined_projections and kept & _JOINED else 0
    return len(kept & _OF_NORMS) - joined


def _attention_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """q, keys, values and attention's output. Lean kernels take the keys and values of head groups as they are.

    FlashAttention's own interface lays its output out by tokens, so that the next layer reads it as it is; a layer that
    saves its input in 8 bits (Transformer Engine) makes a copy.
    """
    if model.key_value_rank:
        return _latent_bytes_per_token(model, setup)
    inner, width = model.heads * model.head_size, setup.compute_bytes
    if setup.keeps_least and setup.flash_attention:
        copied = inner * setup.input_bytes if setup.input_bytes < width else 0
        return float(2 * (inner + model.key_value_heads * model.head_size) * width + copied)
    by_token = model.positions or (setup.on_gpu and width == FP32_BYTES)
    attention = float((4 if by_token or "o_proj" not in inputs_kept(model, setup) else 5) * inner * width)
    if setup.joined_projections and model.key_value_heads == model.heads and not by_token:
        attention += 2 * inner * width  # v is a view of what rotated q and k were made of
    return attention


def _latent_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Latent attention: q, every head's keys, what the latent vector is unfolded to (values are a part), the output.

    Beside them the latent vectors before and after their norms, and the router's input, which is in fp32. The output is
    saved once: since values are not as wide as keys, another kernel than FlashAttention computes, as with fp32.
    """
    unfolded = model.head_size - model.rotary_width + model.value_size
    of_heads = model.heads * (2 * model.head_size + unfolded + model.value_size)
    latent = model.query_rank + model.key_value_rank
    router = FP32_BYTES * model.hidden if model.experts and not _weighs_within(setup) else 0
    return float((of_heads + latent) * setup.compute_bytes + latent * _norm_width(model, setup) + router)


def score_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """FlashAttention's sum per head, else the probabilities; with dropout a mask, and what it leaves.

    A softmax in fp32, as autocast and transformers compute it, saves its output; the product with the values saves the
    cast of that, or what dropout leaves of it.

    PyTorch's math kernel has scores in fp32 from the first product on, and no cast of them (``_scaled_dot_product_
    attention_math`` in aten/src/ATen/native/transformers/attention.cpp, from 2.5 on).

    PyTorch has no kernel for capped scores, and transformers computes them operation by operation: tanh's output, the
    softmax in fp32 and its cast are saved. FlashAttention-2 and 3 cap by themselves: fused kernels.
    """
    if model.caps_scores and setup.kernels == "plain":
        cast = setup.compute_bytes if setup.compute_bytes < FP32_BYTES else 0
        return float(model.heads * setup.sequence_length * (setup.compute_bytes + FP32_BYTES + cast))
    if setup.flash_attention:
        return float(_SUM_BYTES * model.heads)
    wide = setup.has_wide_scores
    given = FP32_BYTES if wide or setup.math_attention else setup.compute_bytes
    read = setup.compute_bytes if wide or model.drops else 0
    return float(model.heads * setup.sequence_length * (given + read + (1 if model.drops else 0)))


def _dropout_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Adapters' dropout: a mask, and what it leaves of each adapter's input where the input itself is saved too."""
    if not (setup.lora_rank and setup.adapter_dropout):
        return 0.0
    linears = model.linears()
    targets = linears.keys() & set(setup.lora_targets or linears)
    if setup.joined_projections and targets & _JOINED and linears.keys() >= _JOINED:
        targets = (targets - _JOINED) | {"q_proj"}
    each = 1 + (setup.compute_bytes if _keeps_frozen_inputs(setup) else 0)
    return float(each * sum(linears[name][0] for name in targets))


def _cast_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """The input of each adapter in the adapter's own type, where nothing else casts; with dropout what that leaves."""
    if not setup.casts_inputs:
        return 0.0
    linears = model.linears()
    targets = (name for name in setup.lora_targets or linears if name in linears)
    return float(setup.stored_bytes * sum(linears[name][0] * computing(model, name) for name in targets))


def inputs_kept(model: Transformer, setup: TrainingSetup) -> frozenset[str]:
    """The linear layers whose inputs autograd saves: those that are trained, or have an adapter.

    Up to 0.43.1 bitsandbytes' 4-bit layers saved theirs though they are frozen (MatMul4Bit, autograd/_functions.py).
    """
    linears = frozenset(model.linears())
    if setup.casts_inputs and not _keeps_frozen_inputs(setup):  # adapters keep a cast of theirs
        return frozenset()
    if not setup.lora_targets or _keeps_frozen_inputs(setup):
        return linears
    return linears & frozenset(setup.lora_targets)


def _compiled_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """The same compiled: SiLU or GELU is computed again, keys and values are not copied for each head.

    torchtune's Llama 3.2 3B keeps 18 GiB of 8192 tokens so (its README, "Optimization flags"); this says 18.6.
    """
    inner, shared = model.heads * model.head_size, model.key_value_heads * model.head_size
    scores = score_bytes_per_token(model, setup)
    trained = inputs_kept(model, setup)
    readers = bool(trained & _OF_ATTENTION) + bool(trained & _OF_MLP)
    kept = (readers * model.hidden + 2 * inner + 2 * shared) * setup.compute_bytes
    norms = model.norms_per_layer * norm_bytes_per_token(model, setup)
    dropped = _dropout_bytes_per_token(model, setup)
    return norms + kept + feedforward_bytes_per_token(model, setup) + scores + dropped


def selective_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What selective checkpointing keeps of a block, as torchtitan's does by operation.

    The block's input, attention's output with a sum per head, the outputs of the first, third, ... matrix product, and
    with experts over several ranks the tokens that are exchanged, unless it leaves them out. All else is recomputed
    (torchtitan/distributed/activation_checkpoint.py of August 2026).
    """
    attention = model.heads * model.value_size * setup.compute_bytes + _SUM_BYTES * model.heads
    products = _elements_of_every_second(model, setup) * setup.compute_bytes
    return checkpoint_bytes_per_token(model, setup) + attention + products + _exchanged_bytes_per_token(model, setup)


def _exchanged_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Outputs of the all_to_all to experts of other ranks, and of the one back."""
    is_spread = isinstance(model, ModelPart) and model.expert_ranks > 1 and model.experts > 0
    is_kept = is_spread and setup.saves_exchanged
    return 2.0 * model.experts_per_token * model.hidden * setup.compute_bytes if is_kept else 0.0


def _elements_of_every_second(model: Transformer, setup: TrainingSetup) -> float:
    """Outputs of every second matrix product; half of all outputs for latent attention, whose order is not known.

    Nothing needs the last product's output, so torch.compile does not save it. Experts' grouped products
    (``aten._grouped_mm``) are not on torchtitan's list of what to save: all of them are recomputed.
    """
    given = {
        name: outputs / (setup.sequence_shards if outputs == model.hidden else 1)
        for name, (_, outputs) in model.linears().items()
        if not (model.experts and name in OF_EXPERTS)
    }
    if not given.keys() <= set(_IN_ORDER):
        return sum(given.values()) / 2
    every_second = [name for name in _IN_ORDER if name in given][::2]
    return sum(given[name] for name in every_second if not (setup.compiled and name == _IN_ORDER[-1]))


def computing(model: Transformer, linear: str) -> float:
    """How many copies of a linear layer compute a token: one, or as many as experts do."""
    return model.experts_per_token if model.experts and linear in OF_EXPERTS else 1


def feedforward_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd saves of the MLP beside the input of its first layers; compiled, SiLU or GELU is computed again."""
    if setup.compiled and not model.experts:
        widths = (2 if model.gated else 1) + ("down_proj" in inputs_kept(model, setup))
        return float(widths * model.feedforward * setup.compute_bytes)
    elements = inner_widths(model, setup) * model.feedforward
    if "down_proj" not in inputs_kept(model, setup):
        elements -= model.feedforward * setup.input_bytes / setup.compute_bytes
    if model.experts:  # each chosen expert keeps its own, its copy of the token, and what it gives before it is weighed
        copies = 1 if _weighs_within(setup) else 2
        elements = model.experts_per_token * (elements + copies * model.hidden) + _shared_elements(model, setup)
    return elements * setup.compute_bytes + _formula_bytes_per_token(model, setup)


def _weighs_within(setup: TrainingSetup) -> bool:
    """Whether an expert's weight is applied in its activation function, so that its output need not be saved.

    So in Megatron-LM (core/transformer/moe/experts.py, bias_act_func with the probabilities), whose router reads its
    input in 16 bits (moe_utils.py, RouterGatingLinearFunction). torchtitan, compiled, and transformers weigh the
    output.
    """
    return setup.kernels == "fused" and (setup.keeps_least or setup.compiled is False)


def inner_widths(model: Transformer, setup: TrainingSetup) -> float:
    """Elements of the compute type per element of the inner width: gate, its SiLU, up, the product; GELU's two."""
    before: float = (2 if setup.keeps_least else 3) if model.gated else 1
    if setup.has_8bit_inner and model.gated:  # gate and up, of which SiLU is computed again (fused_bias_swiglu.py)
        before = 2 / setup.compute_bytes
    return before + setup.input_bytes / setup.compute_bytes


def _shared_elements(model: Transformer, setup: TrainingSetup) -> float:
    """The same of the expert that all tokens pass, and its output where that is weighed."""
    inner = inner_widths(model, setup) * model.shared_feedforward
    return inner + (model.hidden if model.shared_gate else 0)


def _formula_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What a GELU of separate operations saves beside its input x: x / 2, tanh(...) and 1 + tanh(...).

    Autocast computes the power, and all that follows, in fp32; the input is then saved in fp32 as well.
    """
    if not model.formula_gelu or setup.kernels != "plain":
        return 0.0
    each = 3 * FP32_BYTES if setup.has_autocast else 3 * setup.compute_bytes
    return float(model.feedforward * each)


def norm_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd saves of one normalisation."""
    kept = 1 if setup.on_gpu or model.norm != "rms" or _by_hand(model, setup) else 2
    whole = kept * model.hidden * _norm_width(model, setup) + _SUM_BYTES * (1 if model.norm == "rms" else 2)
    return whole / setup.sequence_shards


def _norm_width(model: Transformer, setup: TrainingSetup) -> int:
    """Bytes saved per element of a normalisation's input; of one written by hand, what its scale multiplies as well."""
    if not _by_hand(model, setup):
        return setup.norm_bytes
    in_one = setup.has_autocast and not setup.loss.startswith("transformers")  # a kernel, as PyTorch's own
    scaled = 0 if setup.lora_rank or in_one or not model.norm_parameters else setup.residual_bytes
    return FP32_BYTES + scaled


def _by_hand(model: Transformer, setup: TrainingSetup) -> bool:
    """Whether a norm is written as separate operations, which cast its input to fp32 and save that.

    So transformers, LitGPT and KempnerForge write RMSNorm, and OLMo its LayerNorm without parameters.
    """
    plain = setup.kernels == "plain" and not setup.compiled and not setup.norms_as_read
    return plain and model.norm not in ("layer", "scale") and setup.compute_bytes < FP32_BYTES


def checkpoint_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What is kept of a recomputed block: its input, and those of 4-bit layers where they are held."""
    held = 0.0
    if setup.quantized and setup.frozen_inputs == "held":
        inner = model.heads * model.value_size
        held = (2 * model.hidden + inner + model.feedforward) * setup.compute_bytes
    return held + model.hidden * setup.residual_bytes / setup.sequence_shards


def outer_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Saved of the last normalisation, and the input of an output layer that is trained."""
    if isinstance(model, CountedModel):
        return model.outer_kept_bytes / model.sample_length
    read = 0 if setup.lora_rank else model.hidden * setup.compute_bytes / setup.sequence_shards
    return norm_bytes_per_token(model, setup) + read


def passing_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What a block's backward pass needs beside what its forward pass saved, at its fullest: in the MLP or attention.

    The gradient of the residual stream (and its cast), and those of the MLP's inner activations: SwiGLU's product, gate
    and up, or GELU's output and input, when what the last layer saved is freed. Where scores are stored, their
    gradients may be more, when what the MLP saved is freed.
    """
    stream = setup.residual_bytes + (setup.compute_bytes if setup.residual_bytes != setup.compute_bytes else 0)
    frozen = "down_proj" not in inputs_kept(model, setup)  # whose input is not there to be let go
    in_place = setup.has_ligers_mlp and not model.experts  # over gate and up, which are let go only then
    inner = ((2 if model.gated and not in_place else 1) + frozen) * model.feedforward * setup.compute_bytes
    inner += model.feedforward * _cast_gradient_bytes(setup)
    scores = _score_gradient_bytes_per_token(model, setup) - feedforward_bytes_per_token(model, setup)
    return model.hidden * stream + max(inner, scores)


def _cast_gradient_bytes(setup: TrainingSetup) -> int:
    """Per element of the MLP's inner width that an fp32 adapter reads: peft casts it, and its gradient back.

    peft trains transformers' models. raybench's own adapters, and torchtune's, read their input as it is.
    """
    by_peft = setup.upcast or setup.loss.startswith("transformers")
    has_adapter = setup.lora_rank > 0 and "down_proj" in (setup.lora_targets or ("down_proj",))
    return setup.stored_bytes if by_peft and has_adapter and setup.stored_bytes > setup.compute_bytes else 0


def _score_gradient_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Gradients of stored scores: of the probabilities, and of the softmax's input.

    A fused softmax writes the second over the first (Megatron-LM's scaled_masked_softmax). A softmax in fp32 has its
    gradient in fp32: by then the saved cast is freed, and the gradient of the scores is not there yet.
    """
    is_stored = not setup.flash_attention or (model.caps_scores and setup.kernels == "plain")
    if not is_stored or setup.compiled:
        return 0.0
    if setup.math_attention:
        return float(model.heads * setup.sequence_length * 2 * FP32_BYTES)
    wide = setup.has_wide_scores or model.caps_scores
    each = FP32_BYTES if wide else setup.compute_bytes * (1 if setup.kernels == "fused" else 2)
    return float(model.heads * setup.sequence_length * each)
