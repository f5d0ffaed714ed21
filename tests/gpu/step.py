"""A step of the proof, and what it is given: a bench that starts ranks on the GPU, or on the CPU in a dry run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.benchmarks.events import Event, RankFailed, RankReady
from raybench.benchmarks.spec import BenchmarkSpec
from tests.gpu.ranks import Place, each_rank, plan_on_ranks, work_on_ranks
from tests.gpu.record import Comparison


class NotRunError(Exception):
    """The step cannot be done here; the message says why."""


class StepFailedError(Exception):
    """A rank failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step measured, and which of it is compared with what."""

    figures: Mapping[str, Any]
    comparisons: Sequence[Comparison]


@dataclass(slots=True, kw_only=True)
class Bench:
    """Where a step runs. ``devices`` and ``gpus`` fill with what its ranks say that they computed on."""

    on_gpu: bool
    short: bool
    folder: Path
    seconds: float
    nccl_tests: Path | None = None
    devices: set[str] = field(default_factory=set)
    gpus: set[str] = field(default_factory=set)

    def launch(
        self,
        plan: Sequence[BenchmarkSpec],
        ranks: int = 1,
        *,
        before: Callable[[int], None] | None = None,
    ) -> list[list[Event]]:
        """What each of so many ranks said of a plan; ``before(rank)`` is called in each. Raises StepFailedError."""
        heard: list[list[Event]] = each_rank(self._place(ranks), plan_on_ranks(plan, before), self.seconds)
        for event in (event for events in heard for event in events):
            if isinstance(event, RankFailed):
                raise StepFailedError(f"rank {event.rank}: {event.error}")
            if isinstance(event, RankReady):
                self.note(event.facts["device"], event.facts.get("gpu_uuid"))
        return heard

    def on_ranks(self, work: Callable[..., Any], *arguments: Any, ranks: int = 1) -> list[Any]:
        """What ``work(context, *arguments)`` returns in each of so many ranks of a process group."""
        told = each_rank(self._place(ranks), work_on_ranks(work, arguments), self.seconds)
        for facts, _ in told:
            self.note(facts["device"], facts.get("gpu_uuid"))
        return [answer for _, answer in told]

    def note(self, device: str, uuid: str | None) -> None:
        """A rank said what it computed on."""
        self.devices.add(device)
        if device.startswith("cuda") and uuid:
            self.gpus.add(uuid)

    def on_gpu_only(self, what: str, value: float | None, least: float | None, most: float | None) -> Comparison:
        """A comparison that says nothing of a CPU."""
        return Comparison(what=what, value=value, least=least, most=most, judged=self.on_gpu)

    def sized(self, gpu: Any, cpu: Any, short: Any = None) -> Any:
        """What a step takes on a GPU, in a dry run, and in a short one."""
        if self.on_gpu:
            return gpu
        return short if self.short and short is not None else cpu

    def _place(self, ranks: int) -> Place:
        return Place(ranks=ranks, on_gpu=self.on_gpu, folder=self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of the table. ``seconds``: its limit on a GPU. ``compared``: with what, within which tolerance.

    ``gpu_only``: why a dry run does not do it; ``not_short``: nor a short one.
    """

    id: str
    proves: str
    compared: str
    seconds: int
    run: Callable[[Bench], Outcome]
    gpu_only: str | None = None
    not_short: str | None = None
