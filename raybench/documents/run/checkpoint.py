"""A checkpoint benchmark's point: one place, layout and mode of saving."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta, field

from raybench.documents.part import Part
from raybench.documents.plain import Json
from raybench.documents.quantity import Count, PositiveSeconds
from raybench.documents.run.verdict import Check
from raybench.documents.run.workload import Sample, seconds_row, summary_json
from raybench.stats import Summary, median, summarize


class CheckpointPoint(Part, frozen=True, kw_only=True, tag_field="+kind", tag="checkpoint"):
    """Seconds by repetition, the slowest rank deciding. Bytes are all ranks' together, as tensors and as stored.

    ``verified``: what was loaded is bit for bit what was saved; None where it was not compared. ``kept``:
    where the last one was left, for ``raybench checkpoint --inspect``. Not ``complete``: the run ended before all of
    ``saves_asked`` were through.
    """

    label: str
    blocked_seconds: tuple[PositiveSeconds, ...] = field(default=(), name="blocked_samples_seconds")
    durable_seconds: tuple[PositiveSeconds, ...] = field(default=(), name="samples_seconds")
    load_seconds: tuple[PositiveSeconds, ...] = field(default=(), name="load_samples_seconds")
    writing_ranks: Annotated[int, Meta(ge=1)] = 1
    tensor_bytes: Count = 0
    stored_bytes: Count = 0
    wrong_elements: Count = 0
    verified: bool | None = None
    failed: str | None = None
    complete: bool = True
    saves_asked: int | None = None
    kept: str | None = None
    is_verifiable: ClassVar[bool] = True
    DERIVED: ClassVar[frozenset[str]] = frozenset(
        [
            "blocked_seconds",
            "durable_seconds",
            "load_seconds",
            "save_gb_per_s",
            "save_gb_per_s_per_rank",
            "load_gb_per_s",
            "load_gb_per_s_per_rank",
        ]
    )

    @property
    def save_gb_per_s(self) -> float | None:
        """Tensor bytes of all ranks over the median time until they are stored, 10^9 bytes a second."""
        return self.tensor_bytes / median(self.durable_seconds) / 1e9 if self.durable_seconds else None

    @property
    def load_gb_per_s(self) -> float | None:
        """The same of loading."""
        return self.tensor_bytes / median(self.load_seconds) / 1e9 if self.load_seconds else None

    @property
    def wrong(self) -> str | None:
        """What differs after loading."""
        if self.wrong_elements:
            return f"{self.wrong_elements} elements differ after loading"
        return "what was loaded is not what was saved" if self.verified is False else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Stability warnings of the times."""
        if not self.complete:
            return (f"partial: the run ended after {len(self.durable_seconds)} of {self.saves_asked} saves",)
        if self.failed is None and len(self.durable_seconds) < 3:
            return (f"saved {len(self.durable_seconds)} times only; raise --saves to 3 or more",)
        return ()

    @property
    def seconds(self) -> Summary | None:
        """Statistics of the times until all is stored; None where nothing was."""
        return summarize(self.durable_seconds) if self.durable_seconds else None

    @property
    def slowest_rank(self) -> int | None:
        """Ranks are not timed one by one."""
        return None

    def checks(self, *, complete: bool) -> tuple[Check, ...]:
        """Nothing beside its data."""
        return ()

    def row(self) -> Json:
        """Its figures by the columns of ``result_table``; times are those until all is stored."""
        durable = self.durable_seconds
        return {
            "label": self.label,
            **(seconds_row(self.seconds, len(durable)) if self.seconds else {}),
            "tensor_bytes": self.tensor_bytes,
            "stored_bytes": self.stored_bytes,
            "save_gb_per_s": self.save_gb_per_s,
            "load_gb_per_s": self.load_gb_per_s,
            "complete": self.complete,
            "verified": self.verified,
            "wrong_elements": self.wrong_elements,
            "failed": self.failed,
        }

    def samples(self) -> Iterator[Sample]:
        """Every save until all is stored."""
        return ((0, None, seconds) for seconds in self.durable_seconds)

    def to_json(self) -> Json:
        """The point as in the schema."""
        times = {"blocked": self.blocked_seconds, "durable": self.durable_seconds, "load": self.load_seconds}
        save, load = self.save_gb_per_s, self.load_gb_per_s
        return self.with_unknown(
            {
                "label": self.label,
                "complete": self.complete,
                "saves_asked": self.saves_asked,
                **{
                    f"{name}_seconds": summary_json(summarize(values)) if values else None
                    for name, values in times.items()
                },
                "samples_seconds": list(self.durable_seconds),
                "blocked_samples_seconds": list(self.blocked_seconds),
                "load_samples_seconds": list(self.load_seconds),
                "tensor_bytes": self.tensor_bytes,
                "stored_bytes": self.stored_bytes,
                "writing_ranks": self.writing_ranks,
                "save_gb_per_s": save,
                "save_gb_per_s_per_rank": None if save is None else save / self.writing_ranks,
                "load_gb_per_s": load,
                "load_gb_per_s_per_rank": None if load is None else load / self.writing_ranks,
                "verified": self.verified,
                "wrong_elements": self.wrong_elements,
                "failed": self.failed,
                "kept": self.kept,
            }
        )
