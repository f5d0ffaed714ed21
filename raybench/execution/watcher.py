"""What a launch tells whoever started it, while it runs."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from diagnostics.findings import Finding
from raybench.benchmarks.events import RankMark
from raybench.benchmarks.spec import RankSamples
from raybench.benchmarks.workload import RankRecord
from raybench.execution.live.warning import LiveWarning


class Watcher(Protocol):
    """What a launch tells while it runs."""

    def ready(self, rank: int, facts: Mapping[str, str]) -> None:
        """A rank has joined the process group."""

    def heard(self, data: bytes) -> None:
        """An event, encoded, that has samples or says that they are complete."""

    def troubled(self) -> None:
        """Something broke; nothing has been ended yet."""

    def warned(self, warning: LiveWarning) -> None:
        """Something is wrong now, and the ranks go on."""

    def marked(self, marks: Sequence[RankMark]) -> None:
        """How far the ranks of a node have come."""

    def agent_said(self, node: int, data: bytes) -> None:
        """The agent of the machine of a node, by its index, has said something."""

    def found(self, finding: Finding) -> None:
        """A finding that the result has to have."""

    def started(self, benchmark: int) -> None:
        """The ranks turn to a benchmark of the plan."""

    def measured(self, benchmark: int, samples: Mapping[int, RankSamples]) -> None:
        """All ranks have measured a point."""

    def on_record(self, benchmark: int, records: Mapping[int, RankRecord]) -> None:
        """All ranks have measured a point of a workload."""

    def on_partial(self, benchmark: int, rank: int, part: RankRecord) -> None:
        """A rank goes on with a point of a workload, and says what it has by now."""
