"""The answer to a study of strategies: which to use, and why."""

from collections.abc import Mapping

from msgspec import field

from raybench.documents.plain import Json
from raybench.documents.study.answer import Answer, Headline, recommendation
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.row import TrainingRow


class StrategyAnswer(Answer, frozen=True, kw_only=True, tag="strategy"):
    """``recommended`` is None where nothing was measured, or nothing decides."""

    rows: tuple[TrainingRow, ...]
    ratios: Mapping[str, Ratio] = field(name="throughput_over_fastest")
    recommended: str | None
    certain: bool = False  # whether the intervals of all ratios decide it
    why: str

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The first version said in words alone whether it was certain."""
        return {"certain": "likely only" not in str(content.get("why"))} | content

    @property
    def headline(self) -> Headline:
        """What to use."""
        return recommendation(self.recommended, self.why, certain=self.certain)

    def to_json(self) -> Json:
        """The price last."""
        content = super().to_json()
        return {key: content[key] for key in content if key != "price"} | {"price": content["price"]}
