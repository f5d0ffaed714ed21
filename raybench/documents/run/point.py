"""A point of a collective or of a pair of ranks: one message size, all of its samples, and what follows from them."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Annotated, ClassVar

from msgspec import Meta, field

from raybench.documents.part import DamageError, Part, take
from raybench.documents.plain import Json
from raybench.documents.quantity import Count, Seconds
from raybench.documents.run.workload import Sample, seconds_row
from raybench.stats import Summary, median, median_interval, summarize

_Lengths = tuple[tuple[Count, ...], ...]


class Expected(Part, frozen=True, kw_only=True):
    """What a healthy system of the run's shape reaches at a point, and the reason for the figure.

    ``bus_gb_per_s`` is None where nothing is known; ``basis`` then says why. ``limit`` is the share of it below which a
    large message is slow; None where the figure is shown and nothing is judged by it.
    """

    bus_gb_per_s: float | None = field(default=None, name="busbw_gb_per_s")
    limit: float | None = None
    basis: str
    DERIVED: ClassVar[frozenset[str]] = frozenset({"ratio", "unknown"})

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Where nothing is expected the reason has a key of its own."""
        return {"basis": content["unknown"]} if "unknown" in content else content

    def to_json(self) -> Json:
        """Without the ratio, which is the point's."""
        if self.bus_gb_per_s is None:
            return self.with_unknown({"unknown": self.basis})
        return self.with_unknown(
            {"busbw_gb_per_s": self.bus_gb_per_s, "ratio": None, "limit": self.limit, "basis": self.basis}
        )


class Point(Part, frozen=True, kw_only=True):
    """One message size of one benchmark.

    ``launches[launch][block][iteration]`` are seconds per operation, each taken as the slowest rank: the time between
    the moments at which the last rank completed one operation and the next. ``rank_seconds[rank]`` is that rank's own
    mean. ``bus_factor`` turns algbw into busbw (derived in docs/methods.md). ``wrong_elements`` counts elements over
    all ranks that differ from the exact expected value; ``verified`` is None when the check was switched off.
    """

    message_bytes: Count
    element_count: Count
    bus_factor: Annotated[float, Meta(ge=0, lt=1e6)]
    launches: tuple[tuple[tuple[Seconds, ...], ...], ...] = field(name="+launches")
    rank_seconds: tuple[Seconds, ...]
    verified: bool | None
    wrong_elements: Count
    source_rank: Count | None = None  # of a pair in a point-to-point matrix
    destination_rank: Count | None = None
    ranks: tuple[Count, ...] = field(default=(), name="+ranks")  # of rank_seconds; all, in order, where empty
    wrong_by_rank: Mapping[int, int] = field(default_factory=dict, name="wrong_elements_by_rank")  # those that have any
    algorithm: str | None = None  # what NCCL chose, where its log says so
    expected: Expected | None = None
    recorded_interval: tuple[Seconds, Seconds] | None = field(default=None, name="ci95_seconds")  # as it was written
    own_seconds: tuple[tuple[Seconds, ...], ...] = ()  # [rank][sample], of the same local work in every rank
    DERIVED: ClassVar[frozenset[str]] = frozenset(
        [
            "iterations",
            "seconds",
            "samples_seconds",
            "block_iterations",
            "algbw_gb_per_s",
            "busbw_gb_per_s",
            "slowest_rank",
            "repeats",
        ]
    )

    @classmethod
    def stored(cls, content: Json) -> Json:
        """Launches out of the samples; the factor of a document that has none follows from its bandwidths."""
        pair = [content.get("source_rank"), content.get("destination_rank")]
        times = content.get("rank_seconds")
        is_theirs = None not in pair and isinstance(times, list) and len(times) == len(pair)
        return {
            **_bus_factor(content),
            **content,
            "+launches": _launches(content),
            "+ranks": sorted(pair) if is_theirs else [],
        }

    def contradiction(self) -> str | None:
        """Whether anything can be derived from it."""
        samples = self.samples_seconds
        if not samples or (min(samples) <= 0 and median(samples) <= 0):
            return "a point without a time"
        measured = (block for launch in self.launches if any(launch) for block in launch)
        if any(not block or (min(block) <= 0 and median(block) <= 0) for block in measured):
            return "a block without a time"
        if self.recorded_interval and self.recorded_interval[1] <= 0:
            return "an interval that ends at 0"
        return None if self.rank_seconds else "no rank_seconds"

    @cached_property
    def samples_seconds(self) -> tuple[float, ...]:
        """Every timed operation of every launch and block, in order."""
        return tuple(sample for launch in self.launches for block in launch for sample in block)

    @cached_property
    def seconds(self) -> Summary:
        """Statistics over all samples."""
        return summarize(self.samples_seconds)

    @cached_property
    def interval_seconds(self) -> tuple[float, float] | None:
        """95 % bootstrap interval of the median; None where there are fewer than two blocks."""
        return self.recorded_interval or median_interval(self.launches)

    @property
    def launch_medians_seconds(self) -> tuple[float, ...]:
        """The median of each launch (``--repeats``): their spread is what one launch cannot show."""
        pooled = ([sample for block in launch for sample in block] for launch in self.launches)
        return tuple(summarize(samples).median for samples in pooled if samples)

    @property
    def algbw_gb_per_s(self) -> float:
        """Message size over median time."""
        return self.message_bytes / self.seconds.median / 1e9

    @property
    def busbw_gb_per_s(self) -> float:
        """algbw times the bus factor: comparable with the link's own bandwidth whatever the number of ranks."""
        return self.algbw_gb_per_s * self.bus_factor

    @property
    def expected_ratio(self) -> float | None:
        """Measured over expected bus bandwidth; None where nothing is expected."""
        known = self.expected.bus_gb_per_s if self.expected else None
        return self.busbw_gb_per_s / known if known else None

    @property
    def expected_text(self) -> str:
        """``0.97``; ``1.84, not judged`` where the figure beside it is only shown; empty where there is none."""
        if self.expected is None or self.expected_ratio is None:
            return ""
        return f"{self.expected_ratio:.2f}" + (", not judged" if self.expected.limit is None else "")

    @property
    def slowest_rank(self) -> int:
        """The rank with the largest mean time of its own."""
        index = max(range(len(self.rank_seconds)), key=self.rank_seconds.__getitem__)
        return self.ranks[index] if self.ranks else index

    def row(self) -> Json:
        """Its figures by the columns of ``result_table``."""
        return {
            "message_bytes": self.message_bytes,
            "source_rank": self.source_rank,
            "destination_rank": self.destination_rank,
            **seconds_row(self.seconds, len(self.samples_seconds), self.interval_seconds),
            "algbw_gb_per_s": self.algbw_gb_per_s,
            "busbw_gb_per_s": self.busbw_gb_per_s,
            "expected_ratio": self.expected_ratio,
            "verified": self.verified,
            "wrong_elements": self.wrong_elements,
        }

    def samples(self) -> Iterator[Sample]:
        """Every time, in the order of measuring."""
        for launch, blocks in enumerate(self.launches):
            for block, times in enumerate(blocks):
                yield from ((launch, block, seconds) for seconds in times)

    def to_json(self) -> Json:
        """The point as in the schema."""
        point: Json = {
            "message_bytes": self.message_bytes,
            "element_count": self.element_count,
            "bus_factor": self.bus_factor,
            "iterations": len(self.samples_seconds),
            "seconds": _summary_json(self.seconds),
            "ci95_seconds": list(self.interval_seconds) if self.source_rank is None and self.interval_seconds else None,
            "samples_seconds": list(self.samples_seconds),
            "block_iterations": [[len(block) for block in launch] for launch in self.launches],
            "rank_seconds": list(self.rank_seconds),
            "algbw_gb_per_s": self.algbw_gb_per_s,
            "busbw_gb_per_s": self.busbw_gb_per_s,
            "verified": self.verified,
            "wrong_elements": self.wrong_elements,
            "slowest_rank": self.slowest_rank,
        }
        if len(self.launches) > 1:
            launches = summarize(self.launch_medians_seconds)
            point["repeats"] = {"medians_seconds": list(self.launch_medians_seconds), **_summary_json(launches)}
        if self.wrong_by_rank:
            point["wrong_elements_by_rank"] = {str(rank): count for rank, count in self.wrong_by_rank.items()}
        if self.source_rank is not None:
            point |= {"source_rank": self.source_rank, "destination_rank": self.destination_rank}
        if self.own_seconds:
            point["own_seconds"] = [list(samples) for samples in self.own_seconds]
        if self.algorithm is not None:
            point["algorithm"] = self.algorithm
        if self.expected is not None:
            ratio = {} if self.expected.bus_gb_per_s is None else {"ratio": self.expected_ratio}
            point["expected"] = self.expected.to_json() | ratio
        return self.with_unknown(point)


def _bus_factor(content: Json) -> Json:
    if "bus_factor" in content:
        return {}
    bus, algorithm = (take(content, key, of=float) for key in ("busbw_gb_per_s", "algbw_gb_per_s"))
    return {"bus_factor": bus / algorithm} if bus and algorithm else {}


def _launches(content: Json) -> list[list[tuple[float, ...]]]:
    """Samples by launch and block. Raises DamageError where their number is not that of all blocks together."""
    samples = take(content, "samples_seconds", of=tuple[Seconds, ...]) or ()
    lengths = take(content, "block_iterations", of=_Lengths)
    if lengths is None:
        return [[samples]]
    if sum(map(sum, lengths)) != len(samples):
        raise DamageError(".samples_seconds", f"{len(samples)} samples in blocks of {sum(map(sum, lengths))}")
    left = iter(samples)
    return [[tuple(islice(left, length)) for length in launch] for launch in lengths]


def _summary_json(summary: Summary) -> Json:
    return {
        "median": summary.median,
        "mean": summary.mean,
        "min": summary.min,
        "max": summary.max,
        "p99": summary.p99,
        "stddev": summary.stddev,
    }
