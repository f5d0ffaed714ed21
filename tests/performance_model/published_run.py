"""One published training run, as the estimate's own request."""

from dataclasses import dataclass
from pathlib import Path

from raybench.performance_model.request.request import EstimateRequest

FOLDER = Path(__file__).parent / "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One row: what was run, as a request, and what came out: tokens a second of all ranks, and memory of one.

    ``memory_is``: ``allocated`` and ``reserved`` by PyTorch, or all of the ``device``. ``fits`` False: out of memory;
    None: the estimate has no such strategy for memory.
    """

    name: str
    source: str
    request: EstimateRequest
    parameters: int
    tokens_per_second: float | None
    memory_bytes: float | None = None
    memory_is: str = "device"
    fits: bool | None = True

    @property
    def step_seconds(self) -> float | None:
        """The published step time."""
        if self.tokens_per_second is None:
            return None
        setup, layout = self.request.setup, self.request.layout
        return setup.tokens * self.request.accumulation * layout.data / self.tokens_per_second
