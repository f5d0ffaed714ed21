"""LoRA and QLoRA as the commands that are printed train: what these are told is known, where nobody says otherwise."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.services.planning.launch import is_ours, is_packed, stores_scores

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest

STORED = "scores of attention are stored: no kernel with sinks is known for this GPU (else --flash-attention)"
ASSUMED = "samples are packed and nothing is compiled, as what starts it has it (--masked-attention, --compile)"


def as_run(request: "EstimateRequest", *, is_trained: bool) -> "EstimateRequest":
    """The way as it is started; what was given stays, and so does all of whoever trains a whole model.

    Replicas are started by raybench train (``is_trained``: it has the model) or by trl: neither compiles, nor gives
    attention a mask, and memory lies between the two. All else is started by trl alone: transformers' kernels and loss,
    FlashAttention-2, a base as peft prepares it, and LoRA with a dropout unless it is told none
    (trl/trainer/model_config.py, lora_dropout 0.05). Attention with sinks stores its scores where no kernel has them.
    """
    if stores_scores(request):
        return _with_stored_scores(request)
    if not request.setup.lora_rank or not (is_packed(request) or request.setup.masked_attention):
        return request
    setup = request.setup
    compiled = False if setup.compiled is None else setup.compiled
    setup = replace(setup, compiled=compiled, masked_attention=bool(setup.masked_attention))
    if is_trained and is_ours(request):
        return replace(request, setup=setup)
    return _by_trl(replace(request, setup=setup))


def _with_stored_scores(request: "EstimateRequest") -> "EstimateRequest":
    """By transformers' eager attention: LoRA as trl trains it, which then packs no samples."""
    from raybench.performance_model.request.heaviest import heaviest

    setup = replace(request.setup, flash_attention=False)
    if setup.lora_rank:
        masked = True if setup.masked_attention is None else setup.masked_attention
        setup = replace(setup, compiled=bool(setup.compiled), masked_attention=masked)
        return _by_trl(replace(request, setup=setup))
    if request.program is not None:  # which has it open
        return request
    setup = heaviest(setup, kernels_known=request.kernels_known, loss_known=request.loss_known)
    return replace(request, setup=setup)


def _by_trl(request: "EstimateRequest") -> "EstimateRequest":
    from raybench.performance_model.request.heaviest import heaviest

    setup = heaviest(request.setup, kernels_known=request.kernels_known, loss_known=request.loss_known)
    native = False if setup.native_attention is None and is_packed(request) else setup.native_attention
    setup = replace(setup, loss_open=False, native_attention=native)
    return replace(request, setup=setup, kernels_known=True, loss_known=True, adapter_dropout_known=True)
