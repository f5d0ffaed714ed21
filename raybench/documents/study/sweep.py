"""The answer to a study of batches or of models: how throughput and memory change, and which to use."""

from typing import ClassVar, Literal

from msgspec import field

from raybench.documents.part import DamageError, FieldwisePart
from raybench.documents.plain import Json
from raybench.documents.study.answer import Answer, Headline, recommendation
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.trial import Amount


class LinearFit(FieldwisePart, frozen=True, kw_only=True, tag_field="+kind", tag="linear"):
    """``t(b) = fixed + each b`` in seconds: what a step takes whatever its batch, and what a sample a rank adds."""

    fixed_seconds: Amount
    each_seconds: Amount
    worst_relative_error: Amount
    DERIVED: ClassVar[frozenset[str]] = frozenset({"half_batch"})

    def contradiction(self) -> str | None:
        """Whether a step takes any time."""
        return None if self.fixed_seconds + self.each_seconds > 0 else "a fit of no time at all"

    @property
    def half_batch(self) -> float | None:
        """The batch with half of the throughput that an endless one would have; None where a sample adds nothing."""
        return self.fixed_seconds / self.each_seconds if self.each_seconds > 0 else None

    def to_json(self) -> Json:
        """With the batch that follows."""
        return super().to_json() | {"half_batch": self.half_batch}


class PowerFit(FieldwisePart, frozen=True, kw_only=True, tag_field="+kind", tag="power"):
    """``t(N) = scale N^exponent`` in seconds; an exponent of 1 is time in proportion to the parameters."""

    scale_seconds: Amount
    exponent: float
    worst_relative_error: Amount


class SweepAnswer(Answer, frozen=True, kw_only=True, tag="sweep"):
    """The rows and what follows: the fastest variant, for batches where more stops to help, and what to use and why."""

    rows: tuple[TrainingRow, ...]
    best: str | None = field(name="fastest")
    knee: str | None
    recommended: str | None
    why: str
    fit: LinearFit | PowerFit | None

    @classmethod
    def stored(cls, content: Json) -> Json:
        """A fit is marked with what it has: a power of the parameters, or a line over the batch."""
        fit = content.get("fit")
        if fit is None:
            return content
        if not isinstance(fit, dict):
            raise DamageError(".fit", f"Expected `object`, got `{type(fit).__name__}`")
        kind: Literal["power", "linear"] = "power" if "exponent" in fit else "linear"
        return content | {"fit": fit | {"+kind": kind}}

    @property
    def headline(self) -> Headline:
        """What to use."""
        return recommendation(self.recommended, self.why, certain="likely only" not in self.why)

    def to_json(self) -> Json:
        """The price last."""
        content = super().to_json()
        return {key: content[key] for key in content if key != "price"} | {"price": content["price"]}
