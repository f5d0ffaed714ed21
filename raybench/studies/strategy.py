"""DDP or FSDP? Throughput against the memory that each needs, on the same model and batch. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from raybench.errors import UsageError
from raybench.studies.compare import Ratio
from raybench.studies.design import Study, Variant
from raybench.studies.outcome import Outcome
from raybench.studies.training_rows import TrainingRow, fastest, throughput_ratio, training_rows

ALIKE = 0.03  # throughputs within it of each other are no reason to choose: memory decides
_ADAPTERS = ("lora", "qlora")
_STRATEGIES = {
    "ddp": ("--strategy", "ddp"),
    "fsdp": ("--strategy", "fsdp", "--sharding", "full"),
    "fsdp-grad-op": ("--strategy", "fsdp", "--sharding", "grad-op"),
    "fsdp-hybrid": ("--strategy", "fsdp", "--sharding", "hybrid"),
    "lora": ("--strategy", "lora"),
    "qlora": ("--strategy", "qlora"),
}


def strategy_variant(name: str) -> Variant:
    """The variant of a strategy. Raises UsageError for one that is not known."""
    if name not in _STRATEGIES:
        raise UsageError(f"'{name}' is no strategy to compare; there are: {', '.join(_STRATEGIES)}")
    return Variant(name=name, arguments=_STRATEGIES[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyAnswer:
    """What to use and why. ``recommended`` is None where nothing was measured, or nothing decides."""

    rows: tuple[TrainingRow, ...]
    ratios: dict[str, Ratio]  # throughput over that of the fastest
    recommended: str | None
    why: str
    certain: bool = False  # whether the intervals of all ratios decide it
    remarks: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """None: a strategy that is slow or does not fit is an answer."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "throughput_over_fastest": {name: asdict(ratio) for name, ratio in self.ratios.items()},
            "recommended": self.recommended,
            "certain": self.certain,
            "why": self.why,
        }


def answer_strategy(study: Study, outcomes: Sequence[Outcome]) -> StrategyAnswer:
    """Recommend the fastest; among those that cannot be told from it, the one that needs least memory."""
    rows = tuple(training_rows(study, outcomes))
    remarks = tuple(_remarks(rows))
    best = fastest(rows)
    if best is None:
        return StrategyAnswer(rows=rows, ratios={}, recommended=None, why="nothing was measured", remarks=remarks)
    ratios = {
        row.variant: ratio
        for row in rows
        if row.variant != best.variant and (ratio := throughput_ratio(row.variant, best.variant, outcomes))
    }
    alike = [best, *(row for row in rows if row.variant in ratios and _alike(ratios[row.variant]))]
    known = [row for row in alike if row.memory_bytes is not None]
    chosen = min(known, key=lambda row: row.memory_bytes or 0) if len(known) == len(alike) else best
    why = _why(chosen, best, rows, ratios)
    certain = all(_is_clear(ratio) for ratio in ratios.values())
    return StrategyAnswer(
        rows=rows, ratios=ratios, recommended=chosen.variant, why=why, certain=certain, remarks=remarks
    )


def _is_clear(ratio: Ratio) -> bool:
    """Whether a ratio's whole interval is on one side: slower than the fastest, or as good as it."""
    return ratio.side_of(1 - ALIKE) != "inconclusive"


def _remarks(rows: Sequence[TrainingRow]) -> Iterator[str]:
    yield from (f"{row.variant}: {row.failed}" for row in rows if row.failed)
    adapters = [row.variant for row in rows if row.variant in _ADAPTERS]
    if adapters and len(adapters) < len(rows):
        yield f"{' and '.join(adapters)} train adapters only: another training, not a faster way to do the same one"


def _alike(ratio: Ratio) -> bool:
    """Whether a slower variant may well be within `ALIKE` of the fastest."""
    return ratio.value >= 1 - ALIKE or (ratio.high is not None and ratio.high >= 1)


def _why(chosen: TrainingRow, best: TrainingRow, rows: Sequence[TrainingRow], ratios: dict[str, Ratio]) -> str:
    memory = "" if chosen.memory_bytes is None else f", with {chosen.memory_bytes / 2**30:.2f} GiB at its peak"
    if chosen is best:
        slower = [f"{name} reaches {ratio.value:.2f} of it" for name, ratio in ratios.items()]
        text = f"{chosen.variant} is fastest{memory}" + (f"; {', '.join(slower)}" if slower else "")
    else:
        gap = ratios[chosen.variant]
        text = f"{chosen.variant} is as fast as {best.variant} ({gap.value:.2f} of it) and needs less memory{memory}"
    return "; ".join([text, *(f"{row.variant} could not be measured ({row.failed})" for row in rows if row.failed)])
