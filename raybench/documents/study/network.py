"""The answer to a study of networks: their figures, their speedups, and whether each run used its network."""

from collections.abc import Mapping
from typing import Literal

from msgspec import field

from raybench.documents.part import FieldwisePart
from raybench.documents.plain import Json
from raybench.documents.study.answer import NOTHING, Answer, Headline
from raybench.documents.study.cost import RowCost
from raybench.documents.study.ratio import Positive, Ratio
from raybench.documents.study.trial import Amount, Count

ProofVerdict = Literal["proved", "refuted", "unproven"]
_UNDECIDED = ("inconclusive", "no verdict")


class Proof(FieldwisePart, frozen=True, kw_only=True):
    """Whether a run used the network that its label says, with what that rests on."""

    verdict: ProofVerdict
    seen: str
    basis: str


class NetworkRow(FieldwisePart, frozen=True, kw_only=True):
    """One figure over one network: medians over its blocks."""

    network: str
    label: str
    blocks: Count
    seconds: Positive
    samples_per_s: Amount | None
    tokens_per_s: Amount | None
    busbw_gb_per_s: Amount | None
    exposed_seconds: Amount | None
    overhead: Amount | None
    cost: RowCost | None = None


class Speedup(FieldwisePart, frozen=True, kw_only=True):
    """One figure of one network against the baseline.

    ``ratio`` is of times, ``exposed_ratio`` of the time waited for communication. ``self_ratio``: how far one network
    differs from itself between blocks. ``ceiling``: what a network that takes no time would give, where the share of
    waiting is known.
    """

    network: str
    label: str
    ratio: Ratio
    exposed_ratio: Ratio | None
    self_ratio: Positive
    ceiling: Positive | None
    verdict: str


class NetworkAnswer(Answer, frozen=True, kw_only=True, tag="network"):
    """Networks whose label is refuted are in ``refused``, and in no row and no speedup.

    ``worth_it_above`` and ``expected``: the speedups that the verdicts go by.
    """

    baseline: str
    rows: tuple[NetworkRow, ...] = field(name="networks")
    speedups: tuple[Speedup, ...]
    proofs: Mapping[str, Proof]
    refused: tuple[str, ...]
    worth_it_above: float
    expected: tuple[float, float]

    def contradiction(self) -> str | None:
        """Whether each network that has figures has its proof."""
        without = [row.network for row in self.rows if row.network not in self.proofs]
        return f"figures of '{without[0][:80]}', and no proof of it" if without else None

    @property
    def problems(self) -> tuple[str, ...]:
        """Networks that are not what their label says."""
        return tuple(
            f"{name} is refused: its runs did not use that network ({proof.seen}, by {proof.basis})"
            for name, proof in self.proofs.items()
            if proof.verdict == "refuted"
        )

    @property
    def headline(self) -> Headline:
        """The verdict of every speedup."""
        said = "; ".join(f"{one.network} {one.verdict}" for one in self.speedups)
        if all(one.verdict.startswith("no verdict") for one in self.speedups):
            return said or NOTHING, None
        return said, not any(one.verdict.startswith(_UNDECIDED) for one in self.speedups)

    def to_json(self) -> Json:
        """With the price second."""
        content = super().to_json()
        return {"baseline": self.baseline, "price": content["price"]} | content
