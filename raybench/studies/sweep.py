"""How throughput and memory change with the batch, or with the model. Pure."""

import math
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from raybench.documents.study.plan import Study, Variant, VariantFacts
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.sweep import SweepAnswer
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError
from raybench.studies.costs import Costing
from raybench.studies.sweep_fit import linear_fit, power_fit
from raybench.studies.training_rows import fastest, peak_text, training_rows

KNEE_GAIN = 0.10  # doubling the batch for less than this much more throughput is past the knee


def batch_variant(text: str) -> Variant:
    """The variant of a batch size a rank. Raises UsageError for what is no such number."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise UsageError(f"'{text}' is not a batch size; give numbers from 1, such as --batch-sizes 1,2,4,8")
    return Variant(
        name=f"batch-{int(text)}", arguments=("--batch-size", text), facts=VariantFacts(batch_size=int(text))
    )


def model_variant(text: str) -> Variant:
    """The variant of a model, by the name that ``raybench train --model`` takes, or ``mlp-64x3``: width and depth.

    Raises UsageError for an empty one.
    """
    name = text.strip()
    sized = re.fullmatch(r"mlp-(\d{1,6})x(\d{1,3})", name)
    if sized and int(sized[1]) and int(sized[2]):
        dims = ",".join([sized[1]] * int(sized[2]))
        return Variant(name=name, arguments=("--model", "mlp", "--hidden-dims", dims), facts=VariantFacts(model=name))
    if not name or "/" in name or name.startswith("-"):
        raise UsageError(f"'{text}' is not the name of a model; 'raybench train --help' lists them")
    return Variant(name=name, arguments=("--model", name), facts=VariantFacts(model=name))


def answer_sweep(study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None) -> SweepAnswer:
    """Order by what was swept; models keep the order that was asked for, and have no knee."""
    rows = training_rows(study, outcomes, costing)
    best = fastest(rows)
    remarks = tuple(f"{row.variant}: {row.failed}" for row in rows if row.failed)
    answer = SweepAnswer(
        rows=tuple(rows),
        best=best.variant if best else None,
        knee=None,
        recommended=None,
        why="nothing was measured",
        fit=None,
        remarks=remarks,
        price=costing.price if costing else None,
    )
    if best is None:
        return answer
    return _of_batches(study, answer, best) if study.kind == "batch-size" else _of_models(answer)


def _of_batches(study: Study, answer: SweepAnswer, best: TrainingRow) -> SweepAnswer:
    """Use the knee: beyond it a larger batch costs memory, and convergence, for little."""
    sizes = {variant.name: variant.facts.batch_size or 0 for variant in study.variants}
    rows = sorted(answer.rows, key=lambda row: sizes[row.variant])
    measured = [(sizes[row.variant], row) for row in rows if row.samples_per_s and row.step_seconds]
    knee = knee_of([(size, row.samples_per_s or 0.0) for size, row in measured])
    chosen = best if knee is None else next(row for size, row in measured if size == knee)
    remarks = answer.remarks
    if knee is not None:
        remarks = (*remarks, f"beyond batch {knee} a rank, doubling it gains less than {KNEE_GAIN:.0%} throughput")
    return replace(
        answer,
        rows=tuple(rows),
        knee=None if knee is None else f"batch-{knee}",
        recommended=chosen.variant,
        why=_why_batch(chosen, best, rows, measured[-1][1], is_knee=knee is not None),
        fit=linear_fit([(size, row.step_seconds or 0.0) for size, row in measured]),
        remarks=remarks,
    )


def _why_batch(
    chosen: TrainingRow, best: TrainingRow, rows: Sequence[TrainingRow], largest: TrainingRow, *, is_knee: bool
) -> str:
    share = (chosen.samples_per_s or 0.0) / (best.samples_per_s or 1.0)
    if is_knee:
        text = f"doubling it gains less than {KNEE_GAIN:.0%}; it has {share:.0%} of the most throughput measured"
    elif chosen is largest and len([row for row in rows if row.samples_per_s]) < 2:
        text = "it is the only one that was measured: nothing to compare it with"
    elif chosen is largest:
        text = "throughput still grows there"
        unfit = [row.variant for row in rows if row.failed]
        text += f", and {', '.join(unfit)} could not be measured" if unfit else "; measure larger ones"
    else:
        text = "it has the most throughput, though a larger one gains again: raise --repeats"
    if chosen.memory_bytes is not None:
        text += f"; {peak_text(chosen)}"
        if largest is not chosen and largest.memory_bytes:
            text += f", {largest.variant} {largest.memory_bytes / 2**30:.2f}"
    return text + "".join(_caveats(rows))


def _caveats(rows: Sequence[TrainingRow]) -> Iterator[str]:
    """The batch whose repeats differ by more than the gain that decides."""
    known = [(row.step_seconds_stddev / row.step_seconds, row.variant) for row in rows
             if row.step_seconds and row.step_seconds_stddev is not None]  # fmt: skip
    spread, variant = max(known, default=(0.0, ""))
    if spread > KNEE_GAIN:
        yield f"; likely only, since repeats of {variant} differ by {spread:.0%}: raise --repeats or --steps"


def _of_models(answer: SweepAnswer) -> SweepAnswer:
    """The largest that could be trained, and how well it uses the device beside the others."""
    done = [row for row in answer.rows if row.samples_per_s and row.step_seconds]
    known = [row for row in done if row.parameters]
    if len(known) < len(done):
        return replace(answer, why="the parameters of some models are not known: nothing to order them by")
    chosen = max(known, key=lambda row: row.parameters or 0)
    return replace(
        answer,
        recommended=chosen.variant,
        why=_why_model(chosen, known, [row.variant for row in answer.rows if row.failed]),
        fit=power_fit([(float(row.parameters or 0), row.step_seconds or 0.0) for row in known]),
    )


def _why_model(chosen: TrainingRow, rows: Sequence[TrainingRow], failed: Sequence[str]) -> str:
    parts = [f"the largest that was trained, {(chosen.parameters or 0) / 1e6:.3g} M parameters"]
    if chosen.memory_bytes is not None:
        parts.append(peak_text(chosen))
    used = max(rows, key=lambda row: row.tflop_per_s_per_rank or 0.0)
    if used.tflop_per_s_per_rank and chosen.tflop_per_s_per_rank:
        share = chosen.tflop_per_s_per_rank / used.tflop_per_s_per_rank
        parts.append(
            "no other computes as much a second"
            if used is chosen
            else f"it computes {share:.0%} of what {used.variant} does a second"
        )
    if failed:
        parts.append(f"{', '.join(failed)} could not be measured")
    return "; ".join(parts)


def knee_of(points: Sequence[tuple[int, float]]) -> int | None:
    """The first batch from which every doubling measured gains less than `KNEE_GAIN`; None where the last still gains.

    Steps that are no doubling are converted: a gain g over a factor f is (1 + g)^(1/log2 f) - 1 a doubling.
    """
    for index in range(len(points) - 1):
        gains = [_gain_a_doubling(points[one], points[one + 1]) for one in range(index, len(points) - 1)]
        if all(gain < KNEE_GAIN for gain in gains):
            return points[index][0]
    return None


def _gain_a_doubling(before: tuple[int, float], after: tuple[int, float]) -> float:
    doublings = math.log2(after[0] / before[0])
    ratio: float = (after[1] / before[1]) ** (1 / doublings)
    return ratio - 1
