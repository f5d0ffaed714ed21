"""How throughput and memory change with the batch, or with the model. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raybench.errors import UsageError
from raybench.studies.design import Study, Variant
from raybench.studies.outcome import Outcome
from raybench.studies.training_rows import TrainingRow, fastest, training_rows

KNEE_GAIN = 0.10  # doubling the batch for less than this much more throughput is past the knee


def batch_variant(text: str) -> Variant:
    """The variant of a batch size a rank. Raises UsageError for what is no such number."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise UsageError(f"'{text}' is no batch size; give numbers from 1, such as --batch-sizes 1,2,4,8")
    return Variant(name=f"batch-{int(text)}", arguments=("--batch-size", text), facts={"batch_size": int(text)})


def model_variant(text: str) -> Variant:
    """The variant of a model, by the name that ``raybench train --model`` takes. Raises UsageError for an empty one."""
    name = text.strip()
    if not name or "/" in name or name.startswith("-"):
        raise UsageError(f"'{text}' is no name of a model; 'raybench train --help' lists them")
    return Variant(name=name, arguments=("--model", name), facts={"model": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer:
    """The rows and what follows: the fastest variant, and for batches where more stops to help."""

    rows: tuple[TrainingRow, ...]
    best: str | None
    knee: str | None
    remarks: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """None: a batch or a model that does not fit is an answer."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "fastest": self.best,
            "knee": self.knee,
        }


def answer_sweep(study: Study, outcomes: Sequence[Outcome]) -> SweepAnswer:
    """Order by what was swept; models keep the order that was asked for, and have no knee."""
    rows = training_rows(study, outcomes)
    best = fastest(rows)
    remarks = [f"{row.variant}: {row.failed}" for row in rows if row.failed]
    knee = None
    if study.kind == "batch-size":
        sizes = {variant.name: int(variant.facts["batch_size"]) for variant in study.variants}
        rows.sort(key=lambda row: sizes[row.variant])
        knee = knee_of([(sizes[row.variant], row.samples_per_s) for row in rows if row.samples_per_s])
        if knee is not None:
            remarks.append(f"beyond batch {knee} a rank, doubling it gains less than {KNEE_GAIN:.0%} throughput")
    return SweepAnswer(
        rows=tuple(rows),
        best=best.variant if best else None,
        knee=None if knee is None else f"batch-{knee}",
        remarks=tuple(remarks),
    )


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
