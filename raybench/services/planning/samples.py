"""Samples of a step over all ranks: given, or what people take."""

import math
from typing import TYPE_CHECKING

from raybench.services.estimating.options import at_least_one
from raybench.services.planning.goal_asked import MOST_TOKENS

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.services.planning.options import PlanOptions

_TOKENS_PER_STEP = 1 << 20  # of all ranks, where nobody says: GPT-3 13B's batch, and what many fine-tune with is less
_ADAPTER_SAMPLES = 64  # of a step, with adapters
# Of a step over samples that somebody has: Alpaca, Vicuna and Tulu 3 take 128; of very many a thousandth.
_TUNING_SAMPLES, _TUNING_STEPS = 128, 1000


def samples_per_step(options: "PlanOptions", request: "EstimateRequest") -> tuple[int, tuple[str, ...]]:
    """Samples of a step over all ranks, and what was assumed."""
    ranks = request.layout.world_size
    if options.samples_per_step is not None:
        return at_least_one(options.samples_per_step, "--samples-per-step") or 1, ()
    wanted = _ADAPTER_SAMPLES if options.method != "full" else _usual_samples(options, request)
    samples = ranks * 2 ** max(0, round(math.log2(max(1, wanted) / ranks)))
    tokens = samples * request.setup.sequence_length
    return samples, (f"{samples} samples, {tokens:,} tokens, a step (--samples-per-step)",)


def _usual_samples(options: "PlanOptions", request: "EstimateRequest") -> int:
    """A million tokens; of samples, of which there are so few in fine-tuning, no more than leave it many steps."""
    most = _TOKENS_PER_STEP // request.setup.sequence_length
    if options.samples is None:
        return most
    in_all = options.samples * min(options.epochs, MOST_TOKENS) * request.samples_share
    return min(most, max(_TUNING_SAMPLES, int(in_all / _TUNING_STEPS)))
