"""What a plan took for granted, line by line."""

import math
from typing import TYPE_CHECKING

from raybench.services.planning.as_run import ASSUMED, STORED
from raybench.services.planning.launch import reduces_each, stores_scores

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.ways.way import Way
    from raybench.services.planning.goal import Goal
    from raybench.services.planning.options import PlanOptions

_FEW_STEPS = 100
_EACH = "shards reduce gradients in each micro-batch, as the commands say (Trainer: from transformers of 2026-02 on)"


def machine_assumed(options: "PlanOptions") -> tuple[str, ...]:
    """Which of the GPUs of that name is meant, and how many a node has, where nobody says."""
    from raybench.services.estimating.machine import sizes_meant

    machine = options.machine
    sizes = " or ".join(f"{size / 2**30:.0f}" for size in sizes_meant(machine))
    told = [f"other GPUs called {machine.gpu} have {sizes} GiB (--memory)"] if sizes else []
    return *told, *(() if machine.gpus_per_node or machine.node_type else ("8 GPUs a node (--gpus-per-node)",))


def follows_from(request: "EstimateRequest", per_step: int, goal: "Goal") -> tuple[str, ...]:
    """What follows from what was asked for."""
    from raybench.performance_model.estimate.unknown import caveats_of

    return *_spread(per_step, request), *_few_steps(goal, per_step, request), *caveats_of(request)


def _spread(per_step: int, request: "EstimateRequest") -> tuple[str, ...]:
    """Which ways there are none of, where the ranks are no replicas of their own."""
    ranks = request.layout.world_size
    return (f"nothing but a cut model spreads {per_step} samples over {ranks} ranks",) if per_step % ranks else ()


def _few_steps(goal: "Goal", per_step: int, request: "EstimateRequest") -> tuple[str, ...]:
    """What a training of a few steps spends its time with is no step."""
    tokens = per_step * request.setup.sequence_length
    steps = math.ceil(goal.tokens / tokens) if goal.tokens else _FEW_STEPS
    if steps >= _FEW_STEPS:
        return ()
    return (f"a training of {steps} step{'' if steps == 1 else 's'}: loading and compiling take longer; not counted",)


def as_started(best: "Way", request: "EstimateRequest") -> tuple[str, ...]:
    """What is taken for granted of the program that runs the best way."""
    found, program = best.estimate.request.setup, request.program
    if program is not None and program.starts != "transformers":
        return ()
    as_asked = (found.masked_attention, found.compiled) == (request.setup.masked_attention, request.setup.compiled)
    is_taken = found.lora_rank and not as_asked and not found.masked_attention
    is_stored = (
        not found.flash_attention and stores_scores(best.estimate.request) and not best.estimate.request.layout.is_cut
    )
    told = {_EACH: reduces_each(best), ASSUMED: is_taken, STORED: is_stored}
    return tuple(one for one, is_so in told.items() if is_so)


def program_assumed(best: "Way") -> tuple[str, ...]:
    """What was taken of the program that was named, and what was not tried since it has none."""
    from raybench.performance_model.request.taken import not_tried, taken_in_short

    request = best.estimate.request
    if request.program is None:
        return ()
    taken, lacking = taken_in_short(request), not_tried(request.program, request.layout)
    return (*([taken] if taken else []), *([f"not tried: {lacking}"] if lacking else []))
