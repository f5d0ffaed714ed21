"""What autograd keeps of a transformer, and what comes and goes while gradients are computed. Bytes for each token.

Of raybench's own training code (`benchmarks/training/models/transformer.py`) on a GPU: under autocast a normalisation
is computed in fp32 there, whatever comes in, and each layer that reads it casts it anew. Checked against autograd in
``tests/performance_model/test_saved_activations.py``, and with all the rest of a step in ``test_memory_counted.py``.
"""

from raybench.performance_model.counted_model import CountedModel
from raybench.performance_model.parallel.part import ModelPart
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import OF_EXPERTS, Transformer

_FP32_BYTES = 4
_JOINED = frozenset({"q_proj", "k_proj", "v_proj"})  # where they are; layers of latent attention are each their own
_OF_ATTENTION = _JOINED | {"q_a_proj", "kv_a_proj_with_mqa"}
_OF_MLP = frozenset({"gate_proj", "up_proj"})
_IN_ORDER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")  # as a block computes them
_OF_NORMS = _OF_ATTENTION | _OF_MLP  # linear layers that read what a normalisation gives
_SUM_BYTES = 4  # of a row: FlashAttention's sums of exponentials, a normalisation's deviation


def block_activation_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd keeps of one block.

    Two norms keep their inputs. Linear layers keep their inputs: the norms' outputs (cast anew for each reader under
    autocast), the attention's output, the MLP's inner product. Attention keeps q, the keys and values of every head,
    its output and a 4-byte sum a head, or the probabilities. The output is kept twice with rotary positions: they leave
    q, and with it FlashAttention's output, laid out by heads; not in fp32 on a GPU, where another kernel computes.
    SwiGLU keeps gate, its SiLU and up; GELU its input.
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
    norms = model.norms_per_layer * norm_bytes_per_token(model, setup)
    if model.head_norms:
        norms += (inner + model.key_value_heads * model.head_size) * _norm_width(model, setup)
    read = readers * width * model.hidden / setup.sequence_shards
    masks = 2 * model.hidden / setup.sequence_shards if model.drops else 0  # of what attention and the MLP give
    dropped = _dropout_bytes_per_token(model, setup) + _cast_bytes_per_token(model, setup) + masks
    return norms + read + dropped + attention + feedforward_bytes_per_token(model, setup)


def _keeps_frozen_inputs(setup: TrainingSetup) -> bool:
    """Whether layers of a 4-bit base keep their inputs."""
    return setup.quantized and setup.frozen_inputs != "dropped"


def _readers(kept: frozenset[str], setup: TrainingSetup) -> int:
    """Layers behind norms that each keep a copy of what they read: cast anew, or what their own dropout leaves."""
    joined = len(kept & _JOINED) - 1 if setup.joined_projections and kept & _JOINED else 0
    return len(kept & _OF_NORMS) - joined


def _attention_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """q, keys, values and what attention gives; lean kernels take keys and values of groups of heads as they are.

    FlashAttention's own interface lays its output out by tokens, which the next layer reads as it is; one that keeps
    its input in 8 bits (Transformer Engine) makes a copy.
    """
    if model.key_value_rank:
        return _latent_bytes_per_token(model, setup)
    inner, width = model.heads * model.head_size, setup.compute_bytes
    if setup.keeps_least and setup.flash_attention:
        copied = inner * setup.input_bytes if setup.input_bytes < width else 0
        return float(2 * (inner + model.key_value_heads * model.head_size) * width + copied)
    by_token = model.positions or (setup.on_gpu and width == _FP32_BYTES)
    attention = float((4 if by_token or "o_proj" not in inputs_kept(model, setup) else 5) * inner * width)
    if setup.joined_projections and model.key_value_heads == model.heads and not by_token:
        attention += 2 * inner * width  # v is a view of what rotated q and k were made of
    return attention


def _latent_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Of latent attention: q, every head's keys, what the latent vector is unfolded to (values are a part), the output.

    Beside them latent vectors before and after their norms, and what the router reads, which is in fp32. The output is
    kept once: values are not as wide as keys, which is for another kernel than FlashAttention, as fp32 is.
    """
    unfolded = model.head_size - model.rotary_width + model.value_size
    of_heads = model.heads * (2 * model.head_size + unfolded + model.value_size)
    latent = model.query_rank + model.key_value_rank
    router = _FP32_BYTES * model.hidden if model.experts and not _weighs_within(setup) else 0
    return float((of_heads + latent) * setup.compute_bytes + latent * _norm_width(model, setup) + router)


def score_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Of FlashAttention a sum a head, else the probabilities; where some are dropped, a mask and what it leaves.

    A softmax in fp32, as autocast and transformers compute it, keeps what it gives, and the product with the values its
    cast, or where some are dropped what is left of that.

    Capped scores are no kernel of PyTorch's (transformers computes them operation by operation): kept are what tanh
    gives, the softmax in fp32 and its cast. FlashAttention-2 and 3 cap by themselves: fused kernels.
    """
    if model.caps_scores and setup.kernels == "plain":
        cast = setup.compute_bytes if setup.compute_bytes < _FP32_BYTES else 0
        return float(model.heads * setup.sequence_length * (setup.compute_bytes + _FP32_BYTES + cast))
    if setup.flash_attention:
        return float(_SUM_BYTES * model.heads)
    wide = setup.has_wide_scores
    given = _FP32_BYTES if wide else setup.compute_bytes
    read = setup.compute_bytes if wide or model.drops else 0
    return float(model.heads * setup.sequence_length * (given + read + (1 if model.drops else 0)))


def _dropout_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """A mask and what it leaves of each adapter's input; where that is not kept otherwise, it takes its place."""
    if not (setup.lora_rank and setup.adapter_dropout):
        return 0.0
    linears = model.linears()
    targets = linears.keys() & set(setup.lora_targets or linears)
    if setup.joined_projections and targets & _JOINED and linears.keys() >= _JOINED:
        targets = (targets - _JOINED) | {"q_proj"}
    each = 1 + (setup.compute_bytes if _keeps_frozen_inputs(setup) else 0)
    return float(each * sum(linears[name][0] for name in targets))


def _cast_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """The input of each adapter in its own type, where nothing else casts; a dropout leaves as much in its place."""
    if not setup.casts_inputs:
        return 0.0
    linears = model.linears()
    targets = (name for name in setup.lora_targets or linears if name in linears)
    return float(setup.stored_bytes * sum(linears[name][0] * computing(model, name) for name in targets))


def inputs_kept(model: Transformer, setup: TrainingSetup) -> frozenset[str]:
    """The linear layers whose inputs autograd keeps: those that are trained, or have an adapter.

    bitsandbytes' 4-bit layers kept theirs though they are frozen, up to 0.43.1 (MatMul4Bit, autograd/_functions.py).
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
    kept = 2 * model.hidden + 2 * inner + 2 * shared + (3 if model.gated else 2) * model.feedforward
    return model.norms_per_layer * norm_bytes_per_token(model, setup) + kept * setup.compute_bytes + scores


def selective_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What is kept of a block of which all but attention and every second matrix product is computed again.

    Its input, what attention gives with a sum a head, what the first, third, ... of its matrix products give, and with
    experts over several ranks the tokens that come and go: as torchtitan's selective checkpointing of operations
    (torchtitan/distributed/activation_checkpoint.py of August 2026; before 2026 all_to_all was not on its list).
    """
    attention = model.heads * model.value_size * setup.compute_bytes + _SUM_BYTES * model.heads
    products = _elements_of_every_second(model, setup) * setup.compute_bytes
    return checkpoint_bytes_per_token(model, setup) + attention + products + _exchanged_bytes_per_token(model, setup)


def _exchanged_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What the all_to_all to experts of other ranks gives, and that back, where each token is spread over as many."""
    is_spread = isinstance(model, ModelPart) and model.expert_ranks > 1 and model.experts > 0
    return 2.0 * model.experts_per_token * model.hidden * setup.compute_bytes if is_spread else 0.0


def _elements_of_every_second(model: Transformer, setup: TrainingSetup) -> float:
    """Half of all where which these are is not known: of latent attention.

    Nothing needs what the last product gives, which torch.compile therefore does not keep. What experts compute in one
    grouped product (``aten._grouped_mm``) is on no list of torchtitan's that is kept: all of it is computed again.
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
    """How many of a linear layer a token passes."""
    return model.experts_per_token if model.experts and linear in OF_EXPERTS else 1


def feedforward_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd keeps of the MLP after its first layers' input."""
    elements = inner_widths(model, setup) * model.feedforward
    if "down_proj" not in inputs_kept(model, setup):
        elements -= model.feedforward * setup.input_bytes / setup.compute_bytes
    if model.experts:  # each chosen expert keeps its own, its copy of the token, and what it gives before it is weighed
        copies = 1 if _weighs_within(setup) else 2
        elements = model.experts_per_token * (elements + copies * model.hidden) + _shared_elements(model, setup)
    return elements * setup.compute_bytes + _formula_bytes_per_token(model, setup)


def _weighs_within(setup: TrainingSetup) -> bool:
    """Whether an expert is weighed in its activation function, so that nothing needs what it gives.

    As Megatron-LM (core/transformer/moe/experts.py, bias_act_func with the probabilities), whose router reads its
    input in 16 bits (moe_utils.py, RouterGatingLinearFunction); torchtitan, compiled, and transformers weigh what is
    given.
    """
    return setup.kernels == "fused" and (setup.keeps_least or setup.compiled is False)


def inner_widths(model: Transformer, setup: TrainingSetup) -> float:
    """Elements of the compute type for each of the inner width: gate, its SiLU, up and the product; GELU's two."""
    before = (2 if setup.keeps_least else 3) if model.gated else 1
    return before + setup.input_bytes / setup.compute_bytes


def _shared_elements(model: Transformer, setup: TrainingSetup) -> float:
    """Of the expert that all tokens pass: as of the others; what it gives is kept where it is weighed."""
    inner = inner_widths(model, setup) * model.shared_feedforward
    return inner + (model.hidden if model.shared_gate else 0)


def _formula_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What a GELU of separate operations keeps beside its input: half of that, tanh and one more than tanh.

    Autocast computes the power in fp32, and with it what follows; the input is then kept in fp32 as well.
    """
    if not model.formula_gelu or setup.kernels != "plain":
        return 0.0
    each = 3 * _FP32_BYTES if setup.has_autocast else 3 * setup.compute_bytes
    return float(model.feedforward * each)


def norm_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd keeps of one normalisation."""
    kept = 1 if setup.on_gpu or model.norm != "rms" or _by_hand(model, setup) else 2
    whole = kept * model.hidden * _norm_width(model, setup) + _SUM_BYTES * (1 if model.norm == "rms" else 2)
    return whole / setup.sequence_shards


def _norm_width(model: Transformer, setup: TrainingSetup) -> int:
    """Bytes kept of an element that a normalisation reads; by hand also what its scale is multiplied with."""
    if not _by_hand(model, setup):
        return setup.norm_bytes
    in_one = setup.has_autocast and not setup.loss.startswith("transformers")  # a kernel, as PyTorch's own
    scaled = 0 if setup.lora_rank or in_one or not model.norm_parameters else setup.residual_bytes
    return _FP32_BYTES + scaled


def _by_hand(model: Transformer, setup: TrainingSetup) -> bool:
    """Whether a norm casts what it reads to fp32 and keeps that.

    As transformers, LitGPT and KempnerForge write RMSNorm, and OLMo its LayerNorm without parameters.
    """
    plain = setup.kernels == "plain" and not setup.compiled and not setup.norms_as_read
    return plain and model.norm not in ("layer", "scale") and setup.compute_bytes < _FP32_BYTES


def checkpoint_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What is kept of a block that is computed again: its input, and those of 4-bit layers where they are held."""
    held = 0.0
    if setup.quantized and setup.frozen_inputs == "held":
        inner = model.heads * model.value_size
        held = (2 * model.hidden + inner + model.feedforward) * setup.compute_bytes
    return held + model.hidden * setup.residual_bytes / setup.sequence_shards


def outer_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Of the last normalisation, and the input of an output layer that is trained."""
    if isinstance(model, CountedModel):
        return model.outer_kept_bytes / model.sample_length
    read = 0 if setup.lora_rank else model.hidden * setup.compute_bytes / setup.sequence_shards
    return norm_bytes_per_token(model, setup) + read


def passing_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What a block's backward pass has beside all that its forward pass kept, where it has most: MLP or attention.

    The gradient of the residual stream (and its cast), and those of the MLP's inner activations: SwiGLU's product, gate
    and up, or GELU's output and input; what the last layer kept is gone by then. Where scores are stored their
    gradients may be more: what the MLP kept is gone then.
    """
    stream = setup.residual_bytes + (setup.compute_bytes if setup.residual_bytes != setup.compute_bytes else 0)
    frozen = "down_proj" not in inputs_kept(model, setup)  # whose input is not there to be let go
    inner = ((2 if model.gated else 1) + frozen) * model.feedforward * setup.compute_bytes
    inner += model.feedforward * _cast_gradient_bytes(setup)
    scores = _score_gradient_bytes_per_token(model, setup) - feedforward_bytes_per_token(model, setup)
    return model.hidden * stream + max(inner, scores)


def _cast_gradient_bytes(setup: TrainingSetup) -> int:
    """Of an element that an adapter in fp32 reads of the MLP's inner width: peft casts it, and its gradient back.

    Which trains over transformers' models; raybench's own adapters, and torchtune's, read what there is.
    """
    by_peft = setup.upcast or setup.loss.startswith("transformers")
    has_adapter = setup.lora_rank > 0 and "down_proj" in (setup.lora_targets or ("down_proj",))
    return setup.stored_bytes if by_peft and has_adapter and setup.stored_bytes > setup.compute_bytes else 0


def _score_gradient_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """Of stored scores, beside what is kept of them: of the probabilities, and of what the softmax read.

    A fused softmax writes the second over the first (Megatron-LM's scaled_masked_softmax). One in fp32 has its own
    gradient in fp32, when the cast that the product with the values kept is gone and that of the scores is not there.
    """
    is_stored = not setup.flash_attention or (model.caps_scores and setup.kernels == "plain")
    if not is_stored or setup.compiled:
        return 0.0
    wide = setup.has_wide_scores or model.caps_scores
    each = _FP32_BYTES if wide else setup.compute_bytes * (1 if setup.kernels == "fused" else 2)
    return float(model.heads * setup.sequence_length * each)
