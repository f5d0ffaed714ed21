"""What to send gradients as, in buckets of which size, by which algorithm? Each beside the first variant. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.study.plan import Study, Variant
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError, unknown_name
from raybench.studies.compare import self_ratio
from raybench.studies.costs import Costing, saving
from raybench.studies.strategy import ALIKE
from raybench.studies.training_rows import fastest, throughput_by_block, throughput_ratio, training_rows

HOOKS = ("none", "fp16", "bf16", "powersgd")
ALGORITHMS = ("ring", "tree")
_CUTTING = HOOKS[1:]
_EARLY = "a loss after so few steps says that gradients still arrive, and not where a long training would end"


def hook_variant(name: str) -> Variant:
    """The variant of a communication hook. Raises UsageError for one that is not known."""
    if name not in HOOKS:
        raise unknown_name("communication hook", name, HOOKS)
    return Variant(name=name, arguments=("--comm-hook", name))


def bucket_variant(text: str) -> Variant:
    """The variant of a bucket size in MiB. Raises UsageError for what is no such number."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise UsageError(f"'{text}' is not a size of buckets; give MiB from 1, such as --bucket-sizes 5,25,100")
    return Variant(name=f"bucket-{int(text)}", arguments=("--bucket-mib", text))


def algorithm_variant(name: str) -> Variant:
    """The variant of an algorithm of NCCL's all_reduce. Raises UsageError for one that is not known.

    ``NCCL_ALGO=allreduce:tree`` (NCCL 2.24 or later): a bare ``Tree`` is an error for what has no tree, as all_gather.
    """
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return Variant(name=name, arguments=("--backend", "nccl", "--env", f"NCCL_ALGO=allreduce:{name}"))


def check_workload(variants: Sequence[Variant], words: Sequence[str]) -> None:
    """Raise UsageError where the workload has no use for what the variants set: all would measure the same."""
    named = _value(words, "--strategy") or ""
    algorithms = [one.name for one in variants if one.name in ALGORITHMS]
    if algorithms and _value(words, "--backend") == "gloo":
        raise UsageError(
            "--algorithms sets NCCL_ALGO, which NCCL alone reads; over gloo there is nothing to choose: leave out "
            "--backend gloo, on nodes with GPUs"
        )
    sized = [one.name for one in variants if "--bucket-mib" in one.arguments]
    if "fsdp" in named and (sized or algorithms):
        what = "--bucket-sizes is of ddp's buckets" if sized else "--algorithms is of all_reduce"
        raise UsageError(f"{what}, and fsdp gathers and scatters block by block; take --strategy ddp")


def _value(words: Sequence[str], option: str) -> str | None:
    """What an option was given, as ``--option value`` or ``--option=value``."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(words[place + 1 : place + 2]), None)
    return None


def answer_communication(
    study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None
) -> StrategyAnswer:
    """Recommend the first variant, unless another is faster beyond its interval and beyond what repeats differ by."""
    rows = tuple(training_rows(study, outcomes, costing))
    price = costing.price if costing else None
    best, remarks = fastest(rows), tuple(_remarks(rows))
    if best is None:
        return StrategyAnswer(
            rows=rows, ratios={}, recommended=None, why="nothing was measured", remarks=remarks, price=price
        )
    base = next(row for row in rows if row.samples_per_s)
    ratios = _over(best, rows, outcomes)
    gains = _over(base, rows, outcomes)
    noise = max(self_ratio(list(throughput_by_block(name, outcomes).values())) for name in (base.variant, *gains))
    faster = {name: gain for name, gain in gains.items() if is_faster(gain, noise)}
    name = max(faster, key=lambda one: faster[one].value, default=base.variant)
    chosen = next(row for row in rows if row.variant == name)
    beside = [row for row in rows if row.variant in gains]
    told = [_told(row, gains[row.variant], base, faster=row.variant in faster) for row in beside]
    return StrategyAnswer(
        rows=rows,
        ratios=ratios,
        recommended=name,
        why="; ".join([*(told or ["it is the only one that was measured"]), *saving(chosen, base, price)]),
        certain=bool(faster) or all(gain.side_of(1 + ALIKE) == "below" for gain in gains.values()),
        remarks=remarks,
        price=price,
    )


def _over(base: TrainingRow, rows: Sequence[TrainingRow], outcomes: Sequence[TrialResult]) -> dict[str, Ratio]:
    others = [row.variant for row in rows if row.variant != base.variant]
    return {name: ratio for name in others if (ratio := throughput_ratio(name, base.variant, outcomes))}


def is_faster(gain: Ratio, noise: float) -> bool:
    """Whether a gain is more than `ALIKE` with its whole interval, and than one variant differs from itself."""
    return gain.side_of(1 + ALIKE) == "above" and gain.value > noise


def _told(row: TrainingRow, gain: Ratio, base: TrainingRow, *, faster: bool) -> str:
    """``fp16 is faster: it reaches 1.31 of the throughput of none (95 % interval 1.22 to 1.40), last loss ...``."""
    between = "" if gain.low is None else f" (95 % interval {gain.low:.2f} to {gain.high:.2f})"
    rate = f"it reaches {gain.text} of the throughput of {base.variant}{between}"
    return f"{row.variant} {_side(gain, faster=faster)}: {rate}{_loss(row, base)}"


def _side(gain: Ratio, *, faster: bool) -> str:
    if faster:
        return "is faster"
    if gain.side_of(1.0) == "below":
        return "is slower"
    return f"gains less than {ALIKE:.0%}" if gain.side_of(1 + ALIKE) == "below" else "shows no clear difference"


def _loss(row: TrainingRow, base: TrainingRow) -> str:
    if row.loss is None or base.loss is None or not base.loss:
        return ", loss unknown" if row.variant in _CUTTING else ""
    return f", last loss {row.loss:.4f} against {base.loss:.4f} ({row.loss / base.loss - 1:+.2%})"


def _remarks(rows: Sequence[TrainingRow]) -> Iterator[str]:
    yield from (f"{row.variant}: {row.failed}" for row in rows if row.failed)
    if any(row.variant in _CUTTING and row.samples_per_s for row in rows):
        yield _EARLY
