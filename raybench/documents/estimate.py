"""What a training run is estimated to send, hold, take and cost (``raybench estimate --json``).

Nothing is measured, but by earlier runs that were given: ``measured``.
Schema ``raybench.estimate/1``: keys are added, never renamed or removed. Ranges are (low, high); None is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from raybench.documents.plain import PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of

Range = tuple[float, float]
_TOLD = 0.045  # of a ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize(PlainPart):
    """The model, by its shape."""

    name: str
    parameters: int
    trainable_parameters: int
    flops_per_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVolume(PlainPart):
    """Collectives of one kind in a step: ``count`` of ``message_bytes`` each, over ``ranks`` on ``nodes``."""

    operation: str
    phase: str
    message_bytes: int
    count: int
    ranks: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationEstimate(PlainPart):
    """Of one rank and step. ``seconds`` is its time alone, ``exposed_seconds`` what of it computation cannot hide."""

    collectives_per_step: int
    message_bytes: int
    wire_bytes_per_rank: float
    seconds: float | None
    exposed_seconds: Range | None
    messages: tuple[MessageVolume, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParts(PlainPart):
    """Bytes of one GPU; ``peak`` is what must fit into ``device_bytes``.

    Where kernels or loss are not said, ``peak`` is with those that take most and ``least_peak`` with those that take
    least; ``likely_peak``, between them, is what published trainings that say as little held. ``fits`` is None where
    the device is between the two. ``nearest_options`` would make it fit, with
    ``nearest_peak``; none where nothing that was tried does. ``largest_batch_size`` fits whatever is not said;
    ``lean_batch_size``, where it is larger, with ``lean_is``. ``recomputed_peak``: the least with activations computed
    again, where it fits only so and nobody says it. ``other_device_bytes``: of GPUs that have the same name, where it
    hangs on which is meant. ``least_needed``: of ``least_peak`` what PyTorch's allocator cannot let go of, where it may
    fit by that alone. ``experts_left_by``: who may leave experts of a packed base in 16 bits, as ``peak``
    has them, where it hangs on that.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    buffers: int
    activations: int
    logits: int
    optimizer_temporaries: int
    context: int
    fragmentation: int
    allocated: int
    peak: int
    fullest_moment: str | None = None  # the first version had none
    fullest_moment_bytes: int | None = None  # nor this
    device_bytes: int | None
    fits: bool | None
    largest_batch_size: int | None
    least_peak: int | None = None  # the first versions had none
    likely_peak: int | None = None  # nor this
    nearest_options: tuple[str, ...] = ()  # nor this
    nearest_peak: int | None = None  # nor this
    lean_batch_size: int | None = None  # nor this
    lean_is: str = ""
    recomputed_peak: int | None = None
    other_device_bytes: tuple[int, ...] = ()
    least_needed: int | None = None
    experts_left_by: str = ""

    @property
    def gradients_come_and_go(self) -> bool:
        """Whether gradients are freed after a step, and are part of its fullest moment."""
        stays = self.parameters + self.gradients + self.optimizer_state
        moment = self.fullest_moment_bytes
        return moment is not None and self.gradients > 0 and self.allocated < stays + moment


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPrograms(PlainPart):
    """Programs that are as far out of the bounds, where none is named.

    Steps up to ``faster`` times as fast, ``slower`` times as long; ``more_memory`` and ``less_memory`` the same of the
    peak; 1: inside. ``why``: which of their facts do that.
    """

    names: tuple[str, ...]
    faster: float
    slower: float
    more_memory: float
    less_memory: float
    why: tuple[str, ...]

    @property
    def most(self) -> float:
        """How far out in what is furthest out."""
        return max(self.faster, self.slower, self.more_memory, self.less_memory)

    @property
    def how(self) -> str:
        """``1.4x memory, 1.1x time``: as it is told."""
        ratios = (1 / self.faster, self.slower, self.more_memory, 1 / self.less_memory)
        kinds = ("time", "time", "memory", "memory")
        out = [f"{ratio:.2g}x {kind}" for ratio, kind in zip(ratios, kinds, strict=True) if abs(ratio - 1) > _TOLD]
        return ", ".join(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyRange(PlainPart):
    """Share of the GPU's peak that computation is taken to reach, and where that is from."""

    range: Range
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate(PlainPart):
    """Cost in a currency, of the fastest and the slowest step. ``per_epoch`` where an epoch's samples are given."""

    currency: str
    per_hour: float
    per_1k_samples: tuple[float | None, ...]
    per_million_tokens: tuple[float | None, ...]
    per_epoch: tuple[float | None, ...] | None
    epoch_samples: int | None = None  # the first versions had none
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSetting(PlainPart):
    """A ``train`` or ``memory`` of an earlier run that was given. ``taken``: which figures it gives; none: ``why_not``.

    ``way``: which of a plan's ways it is of, or nearest to. ``step_seconds``: its median with the 95 % interval, else
    the shortest and longest step; ``estimated_step_seconds`` what it stands in place of. ``memory_ratios``: measured
    over estimated allocation, by batch size; shown, and applied to nothing. ``run_verdict``: the
    run's own, as it may have found a fault that its figures have in them.
    """

    kind: str
    run_id: str
    taken: tuple[str, ...]
    why_not: str
    way: str | None = None
    median_step_seconds: float | None = None
    step_seconds: Range | None = None
    estimated_step_seconds: Range | None = None
    peak_bytes: int | None = None
    estimated_peak_bytes: int | None = None
    memory_ratios: Mapping[str, float] = field(default_factory=dict)
    run_verdict: str | None = None
    corrects: bool = False  # by being of another setting: the bounds are moved and narrower
    is_odd: bool = False  # of this setting, and further off the estimate than nearly all trainings are


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRunTold(PlainPart):
    """A training that was run and corrects the estimate of this one: its step, and the likely one it was told.

    ``is_odd``: it is further off than nearly all trainings are: mistyped, or something slows it. ``by_others_seconds``:
    of a run that the other runs contradict, the step that they say it takes.
    """

    text: str
    step_seconds: float
    told_seconds: float
    is_odd: bool = False
    by_others_seconds: float | None = None


def links_measured(basis: Mapping[str, str]) -> str | None:
    """By which run the links between all ranks, or those within a node, were measured; None: by none."""
    told = (basis.get(name, "") for name in ("all ranks", "links within a node"))
    return next((text for text in told if text.startswith("measured by")), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateReport(PlainDocument):
    """The whole estimate. ``formulas`` has the formula of each figure, ``basis`` where its inputs are from.

    ``advice``: what is slower than it needs to be. ``not_said``: options that are left open, and widen the bounds.
    ``counted_tokens_per_second``: without padding, where samples are padded from a mean length that was given.
    ``epoch_seconds``: what ``epoch_samples`` take, where they are given.
    """

    SCHEMA: ClassVar[str] = "raybench.estimate/1"
    model: ModelSize
    world_size: int
    nodes: int
    strategy: str
    batch_size: int
    sequence_length: int
    samples_per_step: int
    gpu: str | None
    communication: CommunicationEstimate
    memory: MemoryParts
    computation_seconds: Range | None = None  # the first versions had none
    step_seconds: Range | None
    tokens_per_second: Range | None
    samples_per_second: Range | None
    mfu: Range | None
    efficiency: EfficiencyRange
    cost: CostEstimate | None
    formulas: Mapping[str, str]
    basis: Mapping[str, str]
    unknown: tuple[str, ...]
    # The first versions had none of these.
    data_parallel: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    virtual_stages: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    pipeline_bubble_seconds: Range | None = None
    advice: tuple[str, ...] = ()
    not_said: tuple[str, ...] = ()
    counted_tokens_per_second: Range | None = None
    expert_tensor_parallel: int | None = None  # as asked
    measured: tuple[MeasuredSetting, ...] = ()
    program: str | None = None  # as asked; what was taken of it is in ``basis``
    taken: str | None = None  # what matters most of it, in short
    other_programs: tuple[OtherPrograms, ...] = ()  # where none is asked for
    own_runs: tuple[OwnRunTold, ...] = ()  # that correct the step's bounds
    uncorrected_step_seconds: Range | None = None  # without them
    epoch_samples: int | None = None
    epoch_seconds: Range | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the model fits into the GPU's memory; None where the memory is not known."""
        if self.memory.device_bytes is None:
            return None
        return "unknown" if self.memory.fits is None else "ok" if self.memory.fits else "critical"

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return exit_code_of(self.verdict)
