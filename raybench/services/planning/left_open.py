"""What nobody says of the best way, and how far that moves its figures, as ``raybench estimate`` tells of that run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raybench.documents.estimate import OtherPrograms

if TYPE_CHECKING:
    from raybench.performance_model.estimate.answer import Estimate
    from raybench.performance_model.programs.program import Program
    from raybench.performance_model.ways.way import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """Open options, the bounds that hold whatever is said of them, and the printed program if it is out of those.

    ``tokens_per_second``: of all ranks, lowest and highest; None: no wider than what is told of the way.
    """

    not_said: tuple[str, ...] = ()
    tokens_per_second: tuple[float, float] | None = None
    other_programs: tuple[OtherPrograms, ...] = ()


def left_open(best: "Way") -> LeftOpen:
    """Nothing of a way that was measured, or that does not fit."""
    from raybench.performance_model.estimate.estimate import with_meant
    from raybench.performance_model.estimate.other_programs import OUTSIDE, other_programs
    from raybench.performance_model.estimate.unknown import unsaid_of

    found = best.estimate
    if best.fits is False or found.measured is not None:
        return LeftOpen()
    whole = with_meant(found)
    is_wider = _wider(found, whole) > OUTSIDE
    return LeftOpen(
        not_said=unsaid_of(found.request) if is_wider else (),
        tokens_per_second=whole.tokens_per_second if is_wider else None,
        other_programs=other_programs(_as_told(whole), _printed(best)),
    )


def _wider(found: "Estimate", whole: "Estimate") -> float:
    own, all_ = found.step_seconds, whole.step_seconds
    return max(own[0] / all_[0], all_[1] / own[1]) if own and all_ else 1.0


def _as_told(whole: "Estimate") -> "Estimate":
    """With what the commands that are printed say: each micro-batch is reduced, by that form of FSDP."""
    return replace(whole, request=replace(whole.request, said=whole.request.said | {"reduces_each", "on_streams"}))


def _printed(best: "Way") -> "tuple[Program, ...]":
    """Whose arguments are printed for a way that several programs run: one that cuts the model is of one alone.

    So is LoRA where raybench train has it not: it is estimated as trl trains it.
    """
    from raybench.performance_model.programs.table import TRANSFORMERS, program_named
    from raybench.services.planning.launch import is_ours

    one = best.estimate.request
    if one.layout.is_cut or one.setup.selective or one.is_of_torchtitan or (one.setup.lora_rank and not is_ours(one)):
        return ()
    return (program_named("trl") if one.setup.lora_rank else TRANSFORMERS,)
