"""A training run before it is run: volume and time of communication, memory, step time, throughput and cost.

Pure arithmetic over the other modules of this package. Each figure carries the formula it comes from; what is not known
(the peak of a GPU, a price) is said to be unknown, with what to give.
"""

from dataclasses import replace

from raybench.performance_model.communication import Traffic
from raybench.performance_model.estimate.answer import Estimate, needs_no_more, outermost
from raybench.performance_model.estimate.nearest import nearest_of
from raybench.performance_model.estimate.said import said_requests
from raybench.performance_model.estimate.step_time import StepTime
from raybench.performance_model.estimate.unknown import unknown_of
from raybench.performance_model.memory.rank import MemoryEstimate, estimate_memory
from raybench.performance_model.request.forms import largest_batches, least_memory, least_peak, most_peak
from raybench.performance_model.request.own_runs import correction_of
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import decided_anew
from raybench.performance_model.step.bounds import computation_of, fitted_steps, peak_tflops, step_bounds
from raybench.performance_model.step.links import has_open_fabric, linked_layout, linked_network
from raybench.performance_model.step.traffic import training_traffic
from raybench.performance_model.step.update import update_seconds


def estimate(request: EstimateRequest, *, alone: bool = True) -> Estimate:
    """All figures that the request allows.

    Not ``alone``: one of many that are compared, without largest batches, the nearest fit and values of open options.
    """
    traffic = training_traffic(
        request.model,
        request.setup,
        linked_layout(request),
        accumulation=request.accumulation,
        reduce_bytes=request.reduce_bytes,
    )
    limit = request.memory_bytes
    memory = estimate_memory(request.model, request.setup, request.layout, accumulation=request.accumulation)
    most, least = most_peak(request, memory.peak), least_memory(request)
    found = Estimate(
        request=request,
        traffic=traffic,
        communication_seconds=_communication_seconds(request, traffic),
        memory=memory,
        least_memory=least,
        largest_batch=largest_batches(request) if limit and alone else None,
        nearest=nearest_of(request) if alone and limit is not None and most > request.sure_bytes else None,
        step=_step_time(request, traffic, least),
        unknown=unknown_of(request, peak_tflops(request)),
        recomputed=_recomputed(request, least) if alone else None,
        most_peak=most,
        lean_peak=least_peak(request),
    )
    traits = found.traits if request.own_runs else None
    if traits is not None:
        correction = correction_of(traits, found.said, request.own_runs)
        found = replace(found, step=replace(found.step, correction=correction))
    return with_meant(found) if alone else found


def _step_time(request: EstimateRequest, traffic: Traffic, least: MemoryEstimate) -> StepTime:
    """Whatever runs of one's own say. ``least``: memory of the form that needs least, which may fill the GPU."""
    peak, efficiency = peak_tflops(request), computation_of(request)
    told = replace(request, efficiency=efficiency)  # so that it is computed once
    fastest, slowest = step_bounds(told, traffic, peak)
    return StepTime(
        request=request,
        fastest=fastest,
        slowest=slowest,
        fitted=fitted_steps(told, traffic, peak),
        optimizer_seconds=update_seconds(request.model, request.setup, request.layout, request.gpu),
        efficiency=efficiency,
        is_pressed=_is_pressed(request, least),
    )


def _is_pressed(request: EstimateRequest, least: MemoryEstimate) -> bool:
    """Whether blocks that wait for other streams fill the GPU, and are freed and allocated again each step."""
    limit = request.memory_bytes
    room = float("inf") if limit is None else limit - least.context
    return request.setup.on_streams and least.allocated + least.waiting > room


def _recomputed(request: EstimateRequest, least: MemoryEstimate) -> MemoryEstimate | None:
    """The least memory with blocks computed again, where that alone decides, and nobody says it."""
    limit = request.memory_bytes
    if limit is None or request.checkpointing_known or needs_no_more(request, least, limit):
        return None
    found = least_memory(_checkpointed(request))
    return found if needs_no_more(request, found, limit) else None


def _checkpointed(request: EstimateRequest) -> EstimateRequest:
    asked = request.asked or request
    setup = replace(asked.setup, checkpointing=True)
    return decided_anew(replace(asked, setup=setup, checkpointing_known=True))


def with_meant(found: Estimate) -> Estimate:
    """The estimate with bounds that hold for every value of open options with which the training can run."""
    if found.recomputed is None:
        way = found.request
        asked = [*said_requests(way)]  # beside itself, whose bounds the estimate has
    else:
        way = _checkpointed(found.request)
        asked = [way, *said_requests(way)]
    can_run = _that_can_run(asked)
    if len(can_run) < len(asked):
        can_run += _that_can_run([*said_requests(way, in_chunks=True)])
    return replace(
        found,
        meant_seconds=outermost(*(one.step_seconds for one in can_run)),
        meant_computation=outermost(*(one.computation_seconds for one in can_run)),
    )


def _that_can_run(requests: list[EstimateRequest]) -> list[Estimate]:
    """The estimates of those that are not told to have too little memory."""
    found = (estimate(one, alone=False) for one in requests)
    return [one for one in found if one.fits is not False]


def _communication_seconds(request: EstimateRequest, traffic: Traffic) -> float | None:
    network = None if has_open_fabric(request) else linked_network(request)
    return None if network is None else traffic.seconds(network)
