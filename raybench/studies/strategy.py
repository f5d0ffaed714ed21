"""DDP or FSDP? Throughput against the memory that each needs, on the same model and batch. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.price import Price
from raybench.documents.run.training.threshold import TIGHT_MEMORY
from raybench.documents.study.plan import Study, Variant
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.trial import TrialResult
from raybench.errors import unknown_name
from raybench.studies.costs import Costing, saving
from raybench.studies.training_rows import fastest, peak_text, throughput_ratio, training_rows

ALIKE = 0.03  # throughputs within it of each other are no reason to choose: memory decides
LESS = 0.95  # of the memory of the fastest: what needs more than that does not decide, peaks differ by some percent
ENOUGH_BLOCKS = 3  # fewer give no useful interval: a slower median is then taken for slower
_ADAPTERS = ("lora", "qlora")
_STRATEGIES = {
    "ddp": ("--strategy", "ddp"),
    "fsdp": ("--strategy", "fsdp", "--sharding", "full"),
    "fsdp-grad-op": ("--strategy", "fsdp", "--sharding", "grad-op"),
    "fsdp-hybrid": ("--strategy", "fsdp", "--sharding", "hybrid"),
    "lora": ("--strategy", "lora"),
    "qlora": ("--strategy", "qlora"),
}

STRATEGY_NAMES = tuple(_STRATEGIES)


def strategy_variant(name: str) -> Variant:
    """The variant of a strategy. Raises UsageError for one that is not known."""
    if name not in _STRATEGIES:
        raise unknown_name("strategy to compare named", name, _STRATEGIES)
    return Variant(name=name, arguments=_STRATEGIES[name])


def answer_strategy(study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None) -> StrategyAnswer:
    """Recommend the fastest; among those that cannot be distinguished from it, the one that needs least memory."""
    rows = tuple(training_rows(study, outcomes, costing))
    price = costing.price if costing else None
    remarks = tuple(_remarks(rows))
    best = fastest(rows)
    if best is None:
        return StrategyAnswer(
            rows=rows, ratios={}, recommended=None, why="nothing was measured", remarks=remarks, price=price
        )
    ratios = {
        row.variant: ratio
        for row in rows
        if row.variant != best.variant and (ratio := throughput_ratio(row.variant, best.variant, outcomes))
    }
    chosen = _least_memory(best, [row for row in rows if row.variant in ratios and _alike(ratios[row.variant])])
    why = "; ".join([_why(chosen, best, rows, ratios), *_savings(chosen, rows, ratios, price)])
    certain = all(_is_clear(ratio) for ratio in ratios.values())
    return StrategyAnswer(
        rows=rows, ratios=ratios, recommended=chosen.variant, why=why, certain=certain, remarks=remarks, price=price
    )


def _savings(
    chosen: TrainingRow, rows: Sequence[TrainingRow], ratios: dict[str, Ratio], price: Price | None
) -> Iterator[str]:
    """Beside those that are slower for certain: where the throughputs may be the same, the costs may."""
    for row in rows:
        ratio = ratios.get(row.variant)
        if ratio is not None and row is not chosen and ratio.side_of(1.0) == "below" and chosen.variant not in ratios:
            yield from saving(chosen, row, price)


def _is_clear(ratio: Ratio) -> bool:
    """Whether a ratio's whole interval is on one side: slower than the fastest, or as good as it."""
    return ratio.side_of(1 - ALIKE) != "inconclusive"


def _remarks(rows: Sequence[TrainingRow]) -> Iterator[str]:
    yield from (f"{row.variant}: {row.failed}" for row in rows if row.failed)
    adapters = [row.variant for row in rows if row.variant in _ADAPTERS]
    if adapters and len(adapters) < len(rows):
        yield f"{' and '.join(adapters)} train adapters only: another training, not a faster way to do the same one"


def _least_memory(best: TrainingRow, alike: Sequence[TrainingRow]) -> TrainingRow:
    """Of those alike, the one that needs clearly less memory than the fastest; the fastest where one is not known."""
    if best.memory_bytes is None or any(row.memory_bytes is None for row in alike):
        return best
    least = min((best, *alike), key=lambda row: row.memory_bytes or 0)
    return least if (least.memory_bytes or 0) < LESS * best.memory_bytes else best


def _alike(ratio: Ratio) -> bool:
    """Whether a slower variant may well be within `ALIKE` of the fastest."""
    if min(ratio.value, ratio.of_rows or ratio.value) >= 1 - ALIKE:
        return True
    return ratio.blocks >= ENOUGH_BLOCKS and ratio.high is not None and ratio.high >= 1


def _speed_against(chosen: str, best: str, ratio: Ratio) -> str:
    if ratio.side_of(1 - ALIKE) == "above":
        return f"{chosen} is as fast as {best} ({ratio.text} of it)"
    interval = "" if ratio.low is None else f", 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    return f"{chosen} shows no significant difference in speed from {best} ({ratio.text} of it{interval})"


def _why(chosen: TrainingRow, best: TrainingRow, rows: Sequence[TrainingRow], ratios: dict[str, Ratio]) -> str:
    memory = "" if chosen.memory_bytes is None else f", with {peak_text(chosen)}"
    if chosen is best:
        others = {row.variant: row for row in rows}
        slower = [f"{name} reaches {ratio.text} of it{_beside(others[name], chosen)}" for name, ratio in ratios.items()]
        alone = len([row for row in rows if row.samples_per_s]) < 2
        text = f"{chosen.variant} {'is the only one that was measured' if alone else 'is fastest'}{memory}"
        text += f"; {', '.join(slower)}" if slower else ""
    else:
        speed = _speed_against(chosen.variant, best.variant, ratios[chosen.variant])
        text = f"{speed} and needs less memory{memory}{_instead(best)}"
    return "; ".join([text, *_room(chosen, rows), *(f"{row.variant} {_missing(row)}" for row in rows if row.failed)])


def _beside(row: TrainingRow, chosen: TrainingRow) -> str:
    if not row.memory_bytes or not chosen.memory_bytes:
        return ""
    return f" with {row.memory_bytes / chosen.memory_bytes:.2f} of its memory"


def _instead(row: TrainingRow) -> str:
    return "" if row.memory_bytes is None else f" instead of {row.memory_bytes / 2**30:.2f}"


def _missing(row: TrainingRow) -> str:
    return f"could not be measured ({row.failed})"


def _room(chosen: TrainingRow, rows: Sequence[TrainingRow]) -> Iterator[str]:
    """What is left of the device's memory; where it is little, what would leave more."""
    if not chosen.memory_limit_bytes or not chosen.memory_bytes:
        return
    share = chosen.memory_bytes / chosen.memory_limit_bytes
    left = (chosen.memory_limit_bytes - chosen.memory_bytes) / 2**30
    yield f"it leaves {left:.2f} GiB of the device ({1 - share:.0%})"
    smaller = [row for row in rows if row.memory_bytes and row.memory_bytes < chosen.memory_bytes]
    if share > TIGHT_MEMORY and smaller:
        least = min(smaller, key=lambda row: row.memory_bytes or 0)
        yield f"that is tight: for a larger batch or model measure {least.variant} as well"
