"""What a trial of a study found out: times, throughput, memory, and the network that its logs prove."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from diagnostics.findings import Finding
from raybench.documents.part import FieldwisePart
from raybench.documents.plain import Json
from raybench.documents.study.plan import Trial

TrialStatus = Literal["complete", "partial", "failed", "missing"]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0, lt=1e30)]
Amount = Annotated[float, Meta(ge=0, lt=1e30)]


class Measured(FieldwisePart, frozen=True, kw_only=True):
    """One figure of a run: ``all_reduce float32 sum 16 MiB``, ``ddp tiny``.

    ``seconds``: of one operation (the median) or one training step (the mean, so that samples/s follows from it).
    ``exposed_seconds``: communication that the step waits for, and ``overhead`` its share of the step;
    ``hidden_seconds``: that beside which it computes. ``loss`` and ``first_loss``: of the last and of the
    first timed step; ``validation_loss`` and ``validation_accuracy``: of the evaluation with the least loss; ``data``:
    what was learned. What the run has no figure of is None.
    """

    label: str
    seconds: Positive
    samples_per_s: Amount | None = None
    tokens_per_s: Amount | None = None
    busbw_gb_per_s: Amount | None = None
    exposed_seconds: Amount | None = None
    hidden_seconds: float | None = None
    overhead: Amount | None = None
    data_share: Amount | None = None
    memory_bytes: Count | None = None
    loss: float | None = None
    first_loss: float | None = None
    validation_loss: float | None = None
    validation_accuracy: Amount | None = None
    data: str | None = None
    dtype: str | None = None
    batch_size_per_rank: Count | None = None
    verified: bool | None = None
    steps: Count | None = None
    parameters: Count | None = None
    tflop_per_s_per_rank: Amount | None = None
    mfu: Amount | None = None
    memory_limit_bytes: Count | None = None
    memory_kind: str | None = None  # cuda: the device's; rss: that of the rank's process


class LogFacts(FieldwisePart, frozen=True, kw_only=True):
    """What a run's NCCL logs cover, and what they say beside the name of the network.

    ``networks`` by rank as its log names it, None where it does not. ``unseen_nodes`` have no rank in any log;
    ``strange``: not one process in the logs is one of the run's. ``gdr_share``: of channels over the network.
    """

    networks: Mapping[str, str | None] = field(default_factory=dict)
    unseen_nodes: tuple[str, ...] = ()
    strange: bool = False
    gdr_share: float | None = None
    providers: tuple[str, ...] = ()  # of libfabric


class TrialResult(FieldwisePart, frozen=True, kw_only=True):
    """One trial's run. ``network`` and ``gdr`` are what its NCCL logs prove; ``sent_bytes`` by node and device.

    ``reason`` says why it is not complete, or has nothing to show. ``run`` is its folder below the trial's.
    """

    trial: Trial = field(name="+trial")
    status: TrialStatus
    measured: tuple[Measured, ...] = ()
    world_size: Count = 0
    nodes: tuple[str, ...] = ()
    emulated: bool = False
    backend: str = "unknown"
    network: str = "unknown"
    gdr: bool | None = None
    log: LogFacts = field(default_factory=LogFacts)
    sent_bytes: Mapping[str, Mapping[str, Count]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    started_at: str | None = None
    seconds: float | None = None  # of the whole run, its start and end included
    wrong: bool = False
    reason: str | None = None
    does_not_fit: bool = False
    run: str | None = None
    verdict: str | None = None  # of the run, with its reason; None of a run that has none
    verdict_reason: str | None = None
    findings: tuple[Finding, ...] = ()  # those of the run, then those of its logs, without the lines they rest on
    DERIVED: ClassVar[frozenset[str]] = frozenset({"number", "block", "variant", "folder"})

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The trial's own keys stand beside the others."""
        trial = {key: content[key] for key in ("number", "block", "variant") if key in content}
        return {**content, "+trial": trial}

    @property
    def answered(self) -> bool:
        """Whether doing the trial again can add nothing: it is complete, or its model does not fit into memory."""
        return self.status == "complete" or self.does_not_fit

    @property
    def node_count(self) -> int:
        """Nodes that the ranks were on."""
        return len(self.nodes)

    def figure(self, label: str) -> Measured | None:
        """The figure of that label."""
        return next((one for one in self.measured if one.label == label), None)

    def to_json(self) -> Json:
        """The trial's own keys, then what came of it."""
        return {**self.trial.to_json(), "folder": self.trial.folder, **FieldwisePart.to_json(self)}
