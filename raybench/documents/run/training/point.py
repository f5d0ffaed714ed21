"""A training benchmark's point: the steps of all ranks, and what follows from them."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from raybench.documents.part import Part, take
from raybench.documents.plain import Json
from raybench.documents.quantity import Count, Seconds
from raybench.documents.run.communication import Communication
from raybench.documents.run.facts import ReferenceFacts, TrainingFacts, damage_of, typed
from raybench.documents.run.profile import Profile
from raybench.documents.run.training.memory_growth import MemoryGrowth
from raybench.documents.run.training.stored import launches_of, rank_steps_of
from raybench.documents.run.training.straggler import Straggler
from raybench.documents.run.training.validation import ValidationPoint
from raybench.documents.run.training.written import point_json
from raybench.documents.run.verdict import Check
from raybench.documents.run.workload import Sample, seconds_row
from raybench.stats import Summary, median_interval, summarize


class TrainingPoint(Part, frozen=True, kw_only=True, tag_field="+kind", tag="training"):
    """One strategy on one model.

    ``launches[launch][step]``: seconds, the slowest rank deciding. ``batch_size`` is samples a rank and step, all
    micro-batches together; ``tokens_per_sample`` is None for models without tokens. ``peak_tflops`` is that of the
    hardware table, None with a ``peak_reason``. ``verified`` is None where there was no reference, with the reason.
    Not ``complete``: the run ended within the only launch; the steps are those of ``steps_asked`` that all ranks did.
    ``cut_seconds``: the steps of a launch that was cut after whole ones, which are in no other figure.
    ``straggler_undecided``: a rank took far longer than the others, and ``straggler_reason`` is why nobody is named.
    ``rank_step_seconds``: of each timed step the fastest and the slowest rank's own time, from its end to its end.
    ``profile``: what the first launch's traces say, where they were kept. ``memory_growth``: ranks whose memory grew in
    every launch.
    """

    label: str
    world_size: Annotated[int, Meta(ge=1)]
    launches: tuple[tuple[Seconds, ...], ...] = field(name="+launches")
    rank_seconds: tuple[Seconds, ...]
    batch_size: Annotated[int, Meta(ge=1)] = field(name="batch_size_per_rank")
    tokens_per_sample: Count | None
    flop_per_sample: float
    phases: Mapping[str, float] = field(name="phases_seconds")
    losses: tuple[float, ...] = field(name="+losses")
    validation: tuple[ValidationPoint, ...] = ()
    memory: Mapping[str, Any]
    utilization: Mapping[str, float | None]
    communication: Communication
    facts: Mapping[str, Any]
    verified: bool | None
    check: Mapping[str, Any] = field(name="reference")
    stragglers: tuple[Straggler, ...] = ()
    straggler_reason: str | None = None
    straggler_undecided: bool = False
    peak_tflops: float | None = None
    peak_reason: str | None = None
    recorded_interval: tuple[Seconds, Seconds] | None = field(default=None, name="ci95_seconds")  # as it was written
    failed: str | None = None
    steps_asked: int | None = None
    complete: bool = True
    cut_seconds: tuple[Seconds, ...] = field(default=(), name="+cut_seconds")
    rank_step_seconds: tuple[tuple[float, float], ...] = field(default=(), name="+rank_step_seconds")
    profile: Profile | None = None
    memory_growth: tuple[MemoryGrowth, ...] = ()
    is_verifiable: ClassVar[bool] = True
    DERIVED: ClassVar[frozenset[str]] = frozenset(
        [
            "steps",
            "seconds",
            "samples_seconds",
            "launch_steps",
            "rank_step_seconds",
            "slowest_rank",
            "global_batch_size",
            "samples_per_s",
            "tokens_per_s",
            "flop_per_step_per_rank",
            "tflop_per_s_per_rank",
            "mfu",
            "loss",
            "data_share",
            "overhead",
            "overhead_band",
            "overhead_ci95",
            "overhead_reason",
            "wrong_elements",
            "repeats",
            "cut_launch",
        ]
    )

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Steps by launch, and what an older document has only as a product of two."""
        batch = take(content, "batch_size_per_rank", of=int) or 1
        together = take(content, "global_batch_size", of=int)
        flop = take(content, "flop_per_step_per_rank", of=float)
        losses = take(content, "loss", "steps", of=tuple[float | None, ...])
        return {
            **({} if together is None else {"world_size": max(together // batch, 1)}),
            **({} if flop is None else {"flop_per_sample": flop / batch}),
            **content,
            "+launches": launches_of(content),
            "+losses": [math.nan if one is None else one for one in losses or ()],
            "+cut_seconds": take(content, "cut_launch", "samples_seconds", of=list[Seconds]) or [],
            "+rank_step_seconds": rank_steps_of(content),
        }

    def contradiction(self) -> str | None:
        """Whether anything can be derived from it."""
        if not self.samples_seconds or self.seconds.mean <= 0:
            return "a training without a step"
        if min(self.samples_seconds) <= 0:
            return "a step that took no time"
        if not self.rank_seconds:
            return "no rank_seconds"
        sizes = {name: size for name, size in self.memory.items() if name != "kind"}
        strange = [name for name, size in sizes.items() if not isinstance(size, int | float | None)]
        if strange:
            return f"memory.{strange[0]} is not a number"
        return damage_of(TrainingFacts, self.facts, ".facts") if self.losses else "no loss"

    @cached_property
    def samples_seconds(self) -> tuple[float, ...]:
        """Every timed step of every launch."""
        return tuple(step for launch in self.launches for step in launch)

    @cached_property
    def seconds(self) -> Summary:
        """Statistics of the step time."""
        return summarize(self.samples_seconds)

    @cached_property
    def interval_seconds(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of the median, over launches and, within each, blocks of consecutive steps."""
        return self.recorded_interval or median_interval([_blocks(launch) for launch in self.launches])

    @property
    def best_validation(self) -> ValidationPoint | None:
        """The evaluation with the least loss; None where there was none, or no loss is a number."""
        known = [one for one in self.validation if one.loss is not None and math.isfinite(one.loss)]
        return min(known, key=lambda one: one.loss or 0.0, default=None)

    @property
    def learns(self) -> bool | None:
        """Whether the loss of held-out samples fell; None where that was not evaluated twice."""
        if len(self.validation) < 2:
            return None
        first, last = self.validation[0].loss, self.validation[-1].loss
        return first is not None and last is not None and last < first

    @property
    def slowest_rank(self) -> int:
        """The rank with the largest mean step of its own."""
        return max(range(len(self.rank_seconds)), key=self.rank_seconds.__getitem__)

    @property
    def samples_per_s(self) -> float:
        """Batch size x world size / mean step time: total samples over total time."""
        return self.batch_size * self.world_size / self.seconds.mean

    @property
    def tokens_per_s(self) -> float | None:
        """Of all ranks; None for models without tokens."""
        return None if self.tokens_per_sample is None else self.samples_per_s * self.tokens_per_sample

    @property
    def tflop_per_s_per_rank(self) -> float:
        """10^12 operations of the model's formula per second on each rank; recomputation is not counted."""
        return self.samples_per_s * self.flop_per_sample / self.world_size / 1e12

    @property
    def mfu(self) -> float | None:
        """Model FLOP utilisation: of the peak in the hardware table; None for a device that it does not know."""
        return self.tflop_per_s_per_rank / self.peak_tflops if self.peak_tflops else None

    @property
    def data_share(self) -> float:
        """Share of the step that waits for data."""
        return self.phases.get("data", 0.0) / self.seconds.mean

    @property
    def peak_memory_bytes(self) -> int | None:
        """The largest of its memory figures that is a peak; None where there is none."""
        peaks = [value for name, value in self.memory.items() if "peak" in name and isinstance(value, int | float)]
        return int(max(peaks)) if peaks else None

    @property
    def memory_limit_bytes(self) -> int | None:
        """Memory of the device; None where it is not known."""
        total = self.memory.get("total_bytes")
        return int(total) if isinstance(total, int | float) and total else None

    @property
    def memory_kind(self) -> str | None:
        """``cuda``: the device's memory; ``rss``: that of the rank's process."""
        kind = self.memory.get("kind")
        return kind if isinstance(kind, str) else None

    @property
    def peak_allocated_bytes(self) -> int | None:
        """The most that tensors took of a GPU, or that the process took where there is none; None where unknown."""
        peak = self.memory.get("peak_allocated_bytes", self.memory.get("peak_bytes"))
        return int(peak) if isinstance(peak, int | float) and peak else None

    @property
    def cpu_utilization(self) -> float | None:
        """Share of the processors that its ranks had."""
        return self.utilization.get("cpu")

    @property
    def gpu_utilization(self) -> float | None:
        """Share of the time that a GPU was busy; None where it is not known."""
        return self.utilization.get("gpu")

    @property
    def gpu_utilization_reason(self) -> str | None:
        """Why it is not known how busy the GPU was; None where it is, or there is no GPU."""
        if not self.known_facts.gpu or self.gpu_utilization is not None:
            return None
        return self.known_facts.gpu_utilization_unknown or "NVML was not asked"

    @property
    def check_reason(self) -> str | None:
        """Why it was not compared with a single process."""
        return self.check.get("reason") or None

    @property
    def reference(self) -> ReferenceFacts:
        """How it compares with a single process; nothing is known where there was none."""
        return typed(ReferenceFacts, self.check)

    @property
    def parameter_count(self) -> int | None:
        """Parameters of the model."""
        return self.known_facts.parameters

    @cached_property
    def known_facts(self) -> TrainingFacts:
        """Those of its facts that have a type."""
        return typed(TrainingFacts, self.facts)

    @property
    def overhead(self) -> float | None:
        """Share of the step that is exposed communication; None where it is not known, as it is where it exceeds 1."""
        return self.communication.overhead(self.seconds.mean)

    @property
    def overhead_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the share, within 0 to 1; None where differencing is not what it comes from."""
        return self.communication.overhead_interval(self.seconds.mean)

    @property
    def overhead_band(self) -> str | None:
        """``low``, ``moderate`` or ``high``; two of them, or ``unknown``, by the interval."""
        return self.communication.overhead_band(self.seconds.mean)

    @property
    def overhead_reason(self) -> str | None:
        """Why the overhead is unknown; None where it is known, or was not measured."""
        return self.communication.overhead_reason(self.seconds.mean)

    @property
    def wrong(self) -> str | None:
        """How it differs from the single-process reference; None where it does not, or there is none."""
        if self.verified is not False:
            return None
        return (
            f"losses or gradient norms differ from a single process by {self.check['max_relative_difference']:.2g} "
            f"(allowed {self.check['tolerance']:.2g})"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Stability warnings of the step time."""
        found = []
        if not self.complete:
            found.append(self._partial())
        elif len(self.samples_seconds) < 10:
            found.append(f"only {len(self.samples_seconds)} steps were timed; raise --steps to 50 or more")
        interval = self.interval_seconds
        if self.complete and interval and (interval[1] - interval[0]) / 2 > 0.05 * self.seconds.median:
            half = (interval[1] - interval[0]) / 2 / self.seconds.median
            found.append(f"95 % CI half-width of the median step {half:.0%}; raise --steps, look for other jobs")
        if self.cut_seconds:
            found.append(f"a further launch was cut after {len(self.cut_seconds)} steps; they are in no figure")
        return tuple(found)

    def _partial(self) -> str:
        done = len(self.samples_seconds)
        if done == self.steps_asked:
            return f"partial: the run ended after the {done} timed steps, before what follows them was through"
        return f"partial: the run ended after {done} of {self.steps_asked} timed steps"

    def checks(self, *, complete: bool) -> tuple[Check, ...]:
        """That the training still had numbers at its end, and whether a rank may have held up the others."""
        finite = all(map(math.isfinite, self.losses[-1:]))
        found = [Check(name="loss", outcome="passed", text="losses finite")] if self.losses and finite else []
        if self.straggler_undecided:
            text = f"{self.label}: ranks not compared ({self.straggler_reason})"
            found.append(Check(name="ranks", outcome="not judged", text=text, undecided=True))
        return tuple(found)

    def row(self) -> Json:
        """Its figures by the columns of ``result_table``."""
        return {
            "label": self.label,
            **seconds_row(self.seconds, len(self.samples_seconds), self.interval_seconds),
            "samples_per_s": self.samples_per_s,
            "tokens_per_s": self.tokens_per_s,
            "tflop_per_s_per_rank": self.tflop_per_s_per_rank,
            "mfu": self.mfu,
            "overhead": self.overhead,
            "overhead_band": self.overhead_band,
            "peak_memory_bytes": self.peak_memory_bytes,
            "complete": self.complete,
            "verified": self.verified,
            "failed": self.failed,
        }

    def samples(self) -> Iterator[Sample]:
        """Every step, in the order of measuring."""
        for launch, steps in enumerate(self.launches):
            yield from ((launch, None, seconds) for seconds in steps)

    def to_json(self) -> Json:
        """The point as in the schema."""
        return self.with_unknown(point_json(self))


def _blocks(steps: tuple[float, ...]) -> tuple[tuple[float, ...], ...]:
    """Consecutive steps in five blocks: neighbours are alike, and are resampled together."""
    length = max(len(steps) // 5, 1)
    return tuple(steps[start : start + length] for start in range(0, len(steps), length))
