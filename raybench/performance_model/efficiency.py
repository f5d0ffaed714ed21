"""How fast a GPU really computes a training step, against its peak and its memory's bandwidth.

One set of constants for all GPUs, fitted to published trainings (`tests/performance_model/published/`, docs/methods.md,
"Step"; `python -m tests.performance_model.leave_one_out` prints how well it predicts those it was not fitted to).
Larger matrices reach a larger share of the peak because less of their time is memory traffic; with few tokens Python
and the start of kernels take longer than the GPU; a 4-bit base is unpacked again in each pass.
"""

import math
from dataclasses import dataclass

from raybench.errors import UsageError
from raybench.hardware.gpus import Gpu, gpu_for
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import Transformer
from raybench.performance_model.work import TYPES, Work, work_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What published trainings reach of each unit.

    ``products``, ``attention``: shares of the peak, of endless matrices and of long sequences; ``half_hidden``: the
    hidden size at which products reach half of theirs. ``elements``, ``logits``, ``adapters``, ``packed``: times the
    work takes at the memory's bandwidth. ``block_seconds``, ``adapter_block_seconds``: to start one block's kernels,
    all passes, without a compiler.
    """

    products: float
    half_hidden: float
    attention: float
    elements: float
    logits: float
    adapters: float
    packed: float
    block_seconds: float
    adapter_block_seconds: float

    def working_seconds(self, work: Work) -> float:
        """Of the GPU."""
        computed = work.products / self.products * (1 + self.half_hidden / work.hidden)
        computed += work.attention / self.attention
        moved = self.elements * work.elements + self.logits * work.logits + self.adapters * work.adapters
        return computed + moved + self.packed * work.packed

    def starting_seconds(self, work: Work) -> float:
        """Of the kernels' starts."""
        return work.blocks * (self.adapter_block_seconds if work.has_adapters else self.block_seconds)

    def seconds(self, work: Work) -> float:
        """Of one micro-batch: the starts hide behind the work where that is much longer."""
        return math.hypot(self.working_seconds(work), self.starting_seconds(work))

    def spread(self, work: Work) -> float:
        """The factor between the prediction and either bound, on a GPU of a family that is among the published rows."""
        if not work.has_adapters:
            return SPREAD
        computed = work.products / self.products + work.attention / self.attention
        return _ADAPTER_SPREAD + _ADAPTER_SPREAD_OF_REST * (
            1 - computed / (self.working_seconds(work) - self.packed * work.packed)
        )


# The fit of `tests/performance_model/calibration_fit.py` to all published rows; a test fits again and compares.
CALIBRATION = Calibration(
    products=0.7106,
    half_hidden=215.4,
    attention=0.5956,
    elements=1.293,
    logits=1.905,
    adapters=3.362,
    packed=26.38,
    block_seconds=0.0018,
    adapter_block_seconds=0.005156,
)
# Of step times around the prediction: of full training; with adapters, where programs differ in all but the products;
# where no such GPU is among the rows.
SPREAD, SPREAD_OF_OTHERS = 1.22, 1.45
_ADAPTER_SPREAD, _ADAPTER_SPREAD_OF_REST = 1.2, 0.3
_STAND_IN = "a100"  # for a GPU that is not known, of which nothing depends on but the range that is shown
_KNOWN = frozenset({"A100", "A800", "H100", "H800", "H200"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Share of the peak, low and high, and where it is from.

    ``least_seconds``: of the start of a micro-batch's kernels, which is in the shares. ``spread``: the factor between
    the middle and either bound. Raises UsageError for what is no range of shares.
    """

    low: float
    high: float
    source: str
    least_seconds: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= 1:
            raise UsageError(
                f"an efficiency of {self.low:g} to {self.high:g} is not a range of shares of the peak, such as 0.3:0.5"
            )

    def micro_batch_seconds(self, peak_seconds: float) -> tuple[float, float]:
        """Shortest and longest time of what takes ``peak_seconds`` at the peak."""
        return peak_seconds / self.high, peak_seconds / self.low


def expected_efficiency(
    gpu: Gpu | None, model: Transformer, setup: TrainingSetup, *, calibration: Calibration = CALIBRATION
) -> Efficiency:
    """What published trainings of such a size on such a GPU reach; wider where none of its family is among them."""
    family = gpu.name.split()[0] if gpu else ""
    known = family in _KNOWN
    stand_in = gpu if gpu is not None and any(map(gpu.peak_tflops, TYPES)) else gpu_for(_STAND_IN)
    work = work_of(stand_in, model, setup)
    spread = calibration.spread(work) if known else SPREAD_OF_OTHERS
    share = work.at_peak / calibration.seconds(work)
    source = f"fitted to published trainings on {family}" if known else "of other GPUs; none of this family is known"
    return Efficiency(
        low=min(1.0, share / spread),
        high=min(1.0, share * spread),
        source=f"{source}; --efficiency replaces it",
        least_seconds=calibration.starting_seconds(work),
        spread=spread,
    )
