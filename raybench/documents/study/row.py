"""A row of a training study: one variant, with medians over its blocks."""

from typing import Annotated

from msgspec import Meta

from raybench.documents.part import FieldwisePart
from raybench.documents.study.cost import RowCost
from raybench.documents.study.trial import Amount, Count, Positive


class TrainingRow(FieldwisePart, frozen=True, kw_only=True):
    """A variant's figures: medians over its blocks. ``failed`` says why there are none."""

    variant: str
    label: str = ""
    blocks: Count = 0
    world_size: Count = 0
    node_count: Count = 0
    batch_size_per_rank: Annotated[int, Meta(ge=1)] | None = None
    step_seconds: Positive | None = None
    step_seconds_stddev: Amount | None = None  # between blocks
    samples_per_s: Amount | None = None
    tokens_per_s: Amount | None = None
    memory_bytes: Count | None = None
    exposed_seconds: Amount | None = None
    overhead: Amount | None = None
    data_share: Amount | None = None
    loss: float | None = None
    validation_loss: float | None = None
    validation_accuracy: Amount | None = None
    parameters: Count | None = None
    tflop_per_s_per_rank: Amount | None = None
    mfu: Amount | None = None
    memory_limit_bytes: Count | None = None  # of the device
    memory_kind: str | None = None  # cuda: the device's; rss: that of the rank's process
    cost: RowCost | None = None
    verified: bool | None = None
    failed: str | None = None

    def contradiction(self) -> str | None:
        """Whether a row that was measured has the times that everything else is shown beside."""
        return None if self.failed or self.step_seconds is not None else "a row without a step time"

    @property
    def spread(self) -> float | None:
        """How far step times differ between blocks, as a share; None with one block."""
        if self.step_seconds is None or self.step_seconds_stddev is None or self.blocks < 2:
            return None
        return self.step_seconds_stddev / self.step_seconds
