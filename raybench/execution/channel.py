"""Where a run says what it does, whoever listens: see ``driver_channel``."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from raybench.benchmarks.events import RankMark
from raybench.benchmarks.workload import Progress
from raybench.execution.live.warning import LiveWarning
from raybench.execution.record import RunRecord


class Channel(Protocol):
    """What a run says, and asks."""

    def mark(self, phase: str, limit_seconds: float, record: RunRecord) -> None:
        """A phase begins, which the run itself ends within that time."""

    def joining(self, address: str) -> None:
        """The cluster at HOST:PORT is joined next."""

    def consult(self, record: RunRecord) -> None:
        """There is trouble, and all processes are still as they were."""

    def outliving(self, name: str, count: int) -> None:
        """So many node actors, of a group of that name, do not end with this process."""

    def failed(self, raised: BaseException) -> None:
        """The run ends early, by this."""

    def keep(self, record: RunRecord) -> None:
        """This is known by now."""

    def end(self) -> None:
        """Nothing more will be said."""

    def heard(self, launch: int, data: bytes) -> None:
        """An event of a rank that has to do with samples."""

    def logs(self, logs: dict[str, bytes]) -> None:
        """The ranks' logs."""

    def record(self, entry: Mapping[str, Any]) -> None:
        """One complete point of raw samples, for the journal."""

    def start(self, total_steps: int, title: str) -> None:
        """Begin a run of so many steps."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say what begins now."""

    def warned(self, warning: LiveWarning) -> None:
        """Say a warning of the run that goes on."""

    def marked(self, marks: Sequence[RankMark]) -> None:
        """Pass on how far the ranks of a node have come."""

    def agent_said(self, node: int, data: bytes) -> None:
        """Pass on what the agent of the machine of a node said."""

    def clock_read(self, node: int, asked_seconds: float, there_seconds: float, answered_seconds: float) -> None:
        """Pass on what the clock of a node's machine said between a question and its answer."""

    def progress(self, progress: Progress) -> None:
        """Say how far the point is that is measured now."""

    def note(self, text: str) -> None:
        """Say something that stays."""
