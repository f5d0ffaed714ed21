"""Why a number of nodes scales badly, as far as its figures tell. Pure."""

from collections.abc import Iterator

from raybench.documents.run.communication import HIGH_OVERHEAD, band_of_overhead
from raybench.documents.run.training.threshold import HIGH_DATA_SHARE
from raybench.documents.study.row import TrainingRow

SMALL_BATCH = 4
WIDE_SPREAD = 0.10


def likely_causes(row: TrainingRow, base: TrainingRow, *, emulated: bool) -> Iterator[str]:
    """What the row's own figures point to, the strongest first; what cannot be determined says so."""
    if emulated:
        yield "the nodes are EMULATED and share this machine's CPUs: more of them cannot be faster"
    if row.overhead is None:
        yield "how long steps wait for communication is not known; train with --overlap-steps 10 or --profile shows it"
    elif band_of_overhead(row.overhead) == "high":
        yield (
            f"communication: {row.overhead:.0%} of a step waits for it (high above {HIGH_OVERHEAD:.0%}); compare "
            "networks with 'raybench study network', pairs with 'raybench run --suite p2p_matrix'; accumulate gradients"
        )
    elif band_of_overhead(row.overhead) == "moderate":
        yield f"communication: {row.overhead:.0%} of a step waits for it (moderate); a larger batch a rank hides more"
    smallest = min(SMALL_BATCH, base.batch_size_per_rank or 0)
    if row.batch_size_per_rank is not None and row.batch_size_per_rank < smallest:
        yield f"each rank has only {row.batch_size_per_rank} of a batch left: too little work to hide anything behind"
    if row.data_share is not None and row.data_share > HIGH_DATA_SHARE:
        yield f"data loading takes {row.data_share:.0%} of a step: more loader workers, or faster storage"
    if row.step_seconds and row.step_seconds_stddev and row.step_seconds_stddev > WIDE_SPREAD * row.step_seconds:
        spread = row.step_seconds_stddev / row.step_seconds
        yield f"step times differ by {spread:.0%} between repeats: other jobs on the nodes or the network"
