"""The goal of a plan: its tokens, given or by samples and epochs, its deadline and its budget."""

from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.planning.goal import Goal

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.services.planning.options import PlanOptions

MOST_TOKENS = 10**18  # ten thousand times as many as any training


def goal_asked(options: "PlanOptions", request: "EstimateRequest") -> Goal:
    """The goal. Raises UsageError for one that lacks a part, or says it twice."""
    tokens = options.tokens
    if options.epochs != 1 and options.samples is None:
        raise UsageError("--epochs needs the samples of an epoch: give --samples")
    if options.samples is not None:
        if tokens is not None:
            raise UsageError("--tokens and --samples say the same; give one of them")
        packed = round(request.setup.sequence_length * request.samples_share)
        tokens = _all_tokens(options.samples, options.epochs, packed)
    if tokens is not None and not 1 <= tokens <= MOST_TOKENS:
        raise UsageError(f"a training of {tokens} tokens is none; there must be from 1 to {MOST_TOKENS:.0e}")
    if tokens is None and (options.deadline_seconds is not None or options.budget is not None):
        raise UsageError("--deadline and --budget need the length of the training: give --tokens, or --samples")
    if options.budget is not None and request.price is None:
        how = request.price_unknown or "give --price, or a --node-type with a list price"
        raise UsageError(f"--budget needs a price: {how}")
    return Goal(tokens=tokens, deadline_seconds=options.deadline_seconds, budget=options.budget)


def _all_tokens(samples: int, epochs: float, length: int) -> int:
    if samples * length > MOST_TOKENS or epochs > MOST_TOKENS:
        raise UsageError(f"{epochs:g} epochs of {samples} samples are more than {MOST_TOKENS:.0e} tokens")
    return round(samples * length * epochs)
