"""A memory benchmark's point: what training takes by batch size, and the largest batch that fits."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct, field

from raybench.documents.part import Part
from raybench.documents.plain import Json
from raybench.documents.quantity import Count
from raybench.documents.run.facts import typed
from raybench.documents.run.verdict import Check
from raybench.documents.run.workload import Sample
from raybench.stats import Summary


class EstimatedUse(Struct, frozen=True):
    """The parts of an estimate, in bytes, that are measured as well. ``allocated``: all that it expects at the peak."""

    parameters: int = 0
    gradients: int = 0
    optimizer_state: int = 0
    activations: int = 0
    logits: int = 0
    allocated: int | None = None


FRAGMENTED = 0.10  # of what the allocator holds: twice the usual (docs/methods.md, "Memory")


class Use(Part, frozen=True, kw_only=True):
    """Bytes of one rank at one batch size; all 0 where it did not fit a GPU.

    ``estimate`` holds the parts of performance_model/memory/rank.py.
    """

    batch_size: Count
    fits: bool
    parameters: Count = field(name="parameters_bytes")
    gradients: Count = field(name="gradients_bytes")
    optimizer_state: Count = field(name="optimizer_state_bytes")
    activations: Count = field(name="activations_bytes")
    peak: Count = field(name="peak_bytes")
    reserved: Count = field(name="reserved_bytes")
    estimate: Mapping[str, int] = field(default_factory=dict, name="estimate_bytes")
    DERIVED: ClassVar[frozenset[str]] = frozenset({"fragmentation_bytes", "fragmentation_share", "headroom_bytes"})

    @property
    def fragmentation(self) -> int:
        """What the allocator holds of the device beyond what it ever handed out."""
        return max(self.reserved - self.peak, 0)

    @property
    def fragmentation_share(self) -> float | None:
        """That over what the allocator holds; None where it holds nothing."""
        return self.fragmentation / self.reserved if self.reserved else None

    @property
    def estimated(self) -> EstimatedUse:
        """Those parts of the estimate that have a type."""
        return typed(EstimatedUse, self.estimate)

    @property
    def estimated_bytes(self) -> int | None:
        """What the estimate expects to be allocated at the peak."""
        return self.estimated.allocated

    def to_json(self) -> Json:
        """As in the schema, but for ``headroom_bytes``, which the point knows."""
        return self.with_unknown(
            {
                "batch_size": self.batch_size,
                "fits": self.fits,
                "parameters_bytes": self.parameters,
                "gradients_bytes": self.gradients,
                "optimizer_state_bytes": self.optimizer_state,
                "activations_bytes": self.activations,
                "peak_bytes": self.peak,
                "reserved_bytes": self.reserved,
                "fragmentation_bytes": self.fragmentation,
                "fragmentation_share": self.fragmentation_share,
                "headroom_bytes": None,
                "estimate_bytes": dict(self.estimate),
            }
        )


class MemoryPoint(Part, frozen=True, kw_only=True, tag_field="+kind", tag="memory"):
    """All batch sizes tried. ``emulated``: a process of a CPU against a limit, no device's own memory.

    Not ``complete``: the run ended before the search did, and the largest batch is the largest that was tried and fits.
    ``parameter_count``: of the model, without what LoRA adds; None where it is not known, as in older results.
    """

    label: str
    uses: tuple[Use, ...] = field(name="batch_sizes")
    largest_batch: Count
    reached_most: bool
    limit_bytes: Count
    emulated: bool
    failed: str | None = None
    complete: bool = True
    parameter_count: Count | None = field(default=None, name="parameters")
    is_verifiable: ClassVar[bool] = False
    DERIVED: ClassVar[frozenset[str]] = frozenset({"verified", "wrong_elements"})

    @property
    def verified(self) -> bool | None:
        """Nothing is checked."""
        return None

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
        found += self._in_pieces()
        if self.reached_most:
            found = (*found, f"the largest batch tried, {self.largest_batch}, fits; raise --most-batch for more")
        if not self.complete:
            found = (*found, "partial: the run ended before the search for the largest batch; larger ones may fit")
        return found

    def _in_pieces(self) -> tuple[str, ...]:
        largest = max((use for use in self.uses if use.fits), key=lambda use: use.batch_size, default=None)
        share = largest.fragmentation_share if largest else None
        if largest is None or share is None or share < FRAGMENTED or self.emulated:
            return ()
        pieces = f"at batch {largest.batch_size}, {share:.0%} of what the allocator holds was never in use at once"
        return (f"{pieces}: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins its pieces, and more may fit",)

    @property
    def seconds(self) -> Summary | None:
        """Nothing is timed."""
        return None

    @property
    def slowest_rank(self) -> int | None:
        """Nothing is timed."""
        return None

    def checks(self, *, complete: bool) -> tuple[Check, ...]:
        """That the search came to its end."""
        found = Check(name="memory", outcome="passed", text="the largest batch that fits was found")
        return (found,) if complete else ()

    def row(self) -> Json:
        """Its figures by the columns of ``result_table``; the peak is that of the largest batch that fits."""
        fitting = [use.peak for use in self.uses if use.fits and use.batch_size == self.largest_batch]
        return {
            "label": self.label,
            "largest_batch": self.largest_batch,
            "limit_bytes": self.limit_bytes,
            "peak_memory_bytes": fitting[0] if fitting else None,
            "complete": self.complete,
            "failed": self.failed,
        }

    def samples(self) -> Iterator[Sample]:
        """Nothing is timed."""
        return iter(())

    def to_json(self) -> Json:
        """The point as in the schema."""
        return self.with_unknown(
            {
                "label": self.label,
                "emulated": self.emulated,
                "limit_bytes": self.limit_bytes,
                "largest_batch": self.largest_batch,
                "reached_most": self.reached_most,
                "complete": self.complete,
                "failed": self.failed,
                "parameters": self.parameter_count,
                "batch_sizes": [use.to_json() | {"headroom_bytes": self.headroom_bytes(use)} for use in self.uses],
                "verified": None,
                "wrong_elements": 0,
            }
        )

    def headroom_bytes(self, use: Use) -> int | None:
        """What a batch size leaves of the limit; None where it was not measured."""
        return self.limit_bytes - max(use.reserved, use.peak) if use.peak else None
