"""What a request may be meant as where options are left open: the fastest and the slowest that saying them makes it.

An estimate of what is left open lies between; the bounds that are told hold for each that may be said. Where no program
is named they also hold for an optimizer that is one kernel. Programs that decide against the default of an option, or
have published step times of their own, are told beside them (``other_programs.py``).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raybench.performance_model.request.forms import layouts_meant
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.step.attention import may_be_masked
from raybench.performance_model.step.links import exchanges_over_nodes, may_send_beside
from raybench.performance_model.step.spreads import may_overlap

_FASTEST: dict[str, Any] = {
    "kernels": "fused",
    "loss": "fused",
    "compiled": True,
    "native_attention": True,
    "overlaps": True,
    "sends_once": True,
    "overlaps_exchange": True,
}
_TUNED: dict[str, Any] = _FASTEST | {"compiled": False}  # whose bounds are others than those of what is compiled
_COMPILED: dict[str, Any] = _FASTEST | {"kernels": "plain"}  # of old GPUs these may store no scores, fused ones do
_SLOWEST: dict[str, Any] = {
    "kernels": "plain",
    "loss": "transformers-kept",
    "compiled": False,
    "native_attention": False,
    "overlaps": False,
    "sends_once": False,
    "overlaps_exchange": False,
}


def said_requests(request: EstimateRequest, *, in_chunks: bool = False) -> Iterator[EstimateRequest]:
    """The request with all said that is open, once each way; nothing where all is said.

    Of what a program that is named leaves open the slowest is what takes most with it. ``in_chunks``: with a loss that
    takes least memory, where it is open, since neither the fastest nor the slowest may fit.
    """
    layouts = layouts_meant(request.model, request.layout)
    names, flags = _open(request), _open_flags(request)
    most = {fact.name: fact.value for fact in request.taken if fact.is_open and fact.name in _SLOWEST}
    sides = [_FASTEST, _SLOWEST | most] if names else []
    sides += [_TUNED] * ("compiled" in names) + [_COMPILED] * ({"kernels", "compiled"} <= names)
    if in_chunks:
        sides = [side | {"loss": "chunked"} for side in sides if "loss" in names]
    lean = replace(request, setup=replace(request.setup, **flags)) if flags else request
    asked = [request, *(_said(one, side) for side in sides for one in ([request, lean] if flags else [request]))]
    asked += [lean] if flags else []
    if request.program is None:
        asked += [_updated_at_once(one) for one in asked]
    every = (replace(one, layout=layout) for layout in layouts for one in asked)
    yield from (one for one in every if one != request)


def _updated_at_once(request: EstimateRequest) -> EstimateRequest:
    """By an optimizer that is one kernel, as most programs have it."""
    return replace(request, setup=replace(request.setup, fused_optimizer=True))


def _open(request: EstimateRequest) -> frozenset[str]:
    """Fields that nobody gives and that hang on nothing else."""
    setup = request.setup
    is_open = {
        "kernels": not request.kernels_known,
        "loss": not request.loss_known,
        "compiled": setup.compiled is None,
        "native_attention": setup.native_attention is None,
        "overlaps": may_overlap(setup, request.layout),
        "sends_once": setup.sends_once is None and exchanges_over_nodes(request),
        "overlaps_exchange": setup.overlaps_exchange is None and may_send_beside(request),
    }
    return frozenset(name for name, value in is_open.items() if value)


def _open_flags(request: EstimateRequest) -> dict[str, Any]:
    """What else its program's release leaves open of attention, as it is where that is not what takes most memory."""
    found = (fact for fact in request.taken if fact.is_open and fact.name == "flash_attention" and not fact.value)
    return {fact.name: not fact.value for fact in found}


def _said(request: EstimateRequest, values: dict[str, Any]) -> EstimateRequest:
    """With each of the values whose option is open, and with what saying it decides.

    Either form of FSDP may still be meant: its streams are those of the request. Of transformers' loss it would be open
    anew whether samples are padded: only where it was before.
    """
    setup, names = request.setup, _open(request)
    given = {name: value for name, value in values.items() if name in names}
    if "kernels" in names:  # what is only so where nobody says the kernels
        given |= {"upcast": False, "holds_inputs": False, "wide_scores": False}
    if not may_be_masked(setup):
        given["masked_attention"] = bool(setup.masked_attention)
    said = heaviest(replace(setup, **given), kernels_known=True, loss_known=True)
    return replace(request, setup=replace(said, on_streams=setup.on_streams), kernels_known=True, loss_known=True)
