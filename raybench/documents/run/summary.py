"""A run's headline figures, without its samples: ``summary.json``. All of it follows from ``result.json``.

Schema ``raybench.summary/1``: keys are added, never renamed or removed. Sizes in bytes, GB are 10^9 bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from raybench.documents.plain import Json, PlainDocument
from raybench.verdicts import Conclusion, RunStatus, Verdict

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(PlainDocument):
    """``results``: kind of workload -> benchmark or point -> its figures by name, with their units in the names.

    ``not_measured``: why, by benchmark. ``dropped_nodes``: those that the run went on without. The first ones had
    neither a verdict nor what was not measured.
    """

    SCHEMA: ClassVar[str] = "raybench.summary/1"
    name: str
    run_id: str
    status: RunStatus
    verdict: Verdict = "unknown"
    verdict_reason: str = "it was written before summaries had a verdict"
    world_size: int
    nodes: int
    emulated: bool
    timestamp: str
    config: Mapping[str, Any]
    results: Mapping[str, Mapping[str, Figures]]
    not_measured: Mapping[str, str | None] = field(default_factory=dict)
    dropped_nodes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The summary; dropped nodes only where there are any."""
        content = PlainDocument.to_json(self)
        return content if self.dropped_nodes else {key: one for key, one in content.items() if key != "dropped_nodes"}

    @property
    def conclusion(self) -> Conclusion:
        """The run's verdict, with the exit code."""
        return Conclusion(verdict=self.verdict, reason=self.verdict_reason)
