"""What a way computes again: no activations, all, or as much as a program can in part. Pure."""

from dataclasses import replace

from raybench.performance_model.parallel.part import spare_places
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import refused, with_program
from raybench.performance_model.request.torchtitan import by_torchtitan
from raybench.performance_model.setup.training_setup import TrainingSetup

_LEAST_BLOCKS = 2


def all_again(setup: TrainingSetup) -> TrainingSetup:
    """With all activations computed again."""
    return replace(setup, checkpointing=True, recompute_modules=())


def nothing_again(request: EstimateRequest) -> TrainingSetup:
    """With activations kept, but for the modules that are asked for where Megatron-LM is the program."""
    modules = request.setup.recompute_modules
    theirs = request.layout.is_cut and request.setup.strategy == "zero1"  # of any program
    has = theirs if request.program is None else request.program.recomputes_modules
    return replace(request.setup, checkpointing=False, recompute_modules=modules if has else ())


def selectively_recomputed(request: EstimateRequest) -> EstimateRequest | None:
    """With activations computed again in part, as torchtitan does; None where that cannot run it."""
    if request.setup.strategy != "fsdp":
        return None
    setup = replace(request.setup, checkpointing=False, selective=True, recompute_modules=())
    if request.program is None:
        return by_torchtitan(request, setup)
    asked = replace(request, setup=setup)
    if refused(request.program, asked) is not None:
        return None
    return asked if request.taken else with_program(asked, planned=True)


def half_recomputed(request: EstimateRequest) -> EstimateRequest | None:
    """With half of a stage's blocks computed again, as Megatron-LM does (``--recompute-method block``).

    None where another program runs it, or the stages have no two blocks each or not as many each. What Megatron-LM
    calls selective computes attention again, of which flash attention keeps next to nothing.
    """
    layout = request.layout
    places = request.model.layers + spare_places(request.model, layout.pipeline)
    chunk, rest = divmod(places, layout.pipeline * layout.virtual_stages)
    theirs = request.program is None or request.program.starts == "megatron-lm"
    if request.setup.strategy != "zero1" or not theirs or rest or chunk < _LEAST_BLOCKS:
        return None
    setup = replace(all_again(request.setup), recomputed_share=chunk // 2 / chunk)
    return replace(request, setup=setup)
