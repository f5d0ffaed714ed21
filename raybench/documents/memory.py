"""A memory benchmark's point: what training takes by batch size, and the largest batch that fits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from raybench.documents.workload import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Bytes of one rank at one batch size; all 0 where it did not fit a GPU. ``estimate``: model/memory.py's parts."""

    batch_size: int
    fits: bool
    parameters: int
    gradients: int
    optimizer_state: int
    activations: int
    peak: int
    reserved: int
    estimate: Mapping[str, int] = field(default_factory=dict)

    @property
    def fragmentation(self) -> int:
        """What the allocator holds of the device beyond what it ever handed out."""
        return max(self.reserved - self.peak, 0)

    def to_json(self, limit_bytes: int) -> Json:
        """As in the schema."""
        return {
            "batch_size": self.batch_size,
            "fits": self.fits,
            "parameters_bytes": self.parameters,
            "gradients_bytes": self.gradients,
            "optimizer_state_bytes": self.optimizer_state,
            "activations_bytes": self.activations,
            "peak_bytes": self.peak,
            "reserved_bytes": self.reserved,
            "fragmentation_bytes": self.fragmentation,
            "headroom_bytes": limit_bytes - max(self.reserved, self.peak) if self.peak else None,
            "estimate_bytes": dict(self.estimate),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPoint:
    """All batch sizes tried. ``emulated``: a process of a CPU against a limit, no device's own memory.

    Not ``complete``: the run ended before the search did, and the largest batch is the largest that was tried and fits.
    """

    label: str
    uses: tuple[Use, ...]
    largest_batch: int
    reached_most: bool
    limit_bytes: int
    emulated: bool
    failed: str | None = None
    complete: bool = True

    @property
    def wrong(self) -> str | None:
        """Nothing is checked."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the figures do not say."""
        found: tuple[str, ...] = ()
        if self.emulated:
            found = (
                "emulated: what PyTorch's allocator gave a CPU's process, against a limit: no device's own memory",
            )
        if self.reached_most:
            found = (*found, f"the largest batch tried, {self.largest_batch}, fits; raise --most-batch for more")
        if not self.complete:
            found = (*found, "partial: the run ended before the search for the largest batch; larger ones may fit")
        return found

    def to_json(self) -> Json:
        """The point as in the schema."""
        return {
            "label": self.label,
            "emulated": self.emulated,
            "limit_bytes": self.limit_bytes,
            "largest_batch": self.largest_batch,
            "reached_most": self.reached_most,
            "complete": self.complete,
            "batch_sizes": [use.to_json(self.limit_bytes) for use in self.uses],
            "verified": None,
            "wrong_elements": 0,
        }
