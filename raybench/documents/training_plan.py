"""Ways to train a model on a machine, and the best of them (``raybench plan --json``). Nothing is measured.

Schema ``raybench.training-plan/1``: keys are added, never renamed or removed. Ranges are (low, high); None is unknown.
"""

from dataclasses import dataclass
from typing import ClassVar

from raybench.documents.estimate import MeasuredSetting, OtherPrograms, OwnRunTold
from raybench.documents.plain import PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWay(PlainPart):
    """One way: ``peak`` bytes of a GPU, ``least_peak`` with fused kernels and loss where those are not known.

    ``fits`` is None where that hangs on them; ``why_not`` says why it is not the best. ``command`` trains so, and
    ``launch`` has what it is started with by what people train with themselves.
    ``measured_by``: runs of this way whose figures stand here in place of the estimate. ``least_needed``: of
    ``least_peak`` what PyTorch's allocator cannot let go of, where it may fit by that alone. ``experts_left_by``: who
    may leave experts of a packed base in 16 bits, as ``peak`` has them, where it hangs on that.
    """

    strategy: str
    activation_checkpointing: bool
    batch_size: int
    accumulation: int
    peak: int
    least_peak: int
    fits: bool | None
    tokens_per_second: Range | None
    mfu: Range | None
    hours: Range | None
    cost: Range | None
    limit: str | None
    why_not: str
    command: str
    # The first version had none of these.
    tensor_parallel: int = 1
    context_parallel: int = 1
    pipeline_parallel: int = 1
    virtual_stages: int = 1
    expert_parallel: int = 1
    selective_checkpointing: bool = False
    recomputed_share: float = 1.0  # of the blocks, where activations are computed again
    launch: tuple[str, ...] = ()
    measured_by: tuple[str, ...] = ()
    expert_tensor_parallel: int | None = None  # ranks that each expert is cut over, where experts are
    recompute_modules: tuple[str, ...] = ()  # of each block, by Megatron-LM
    least_needed: int | None = None
    experts_left_by: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether no rank has the whole model's layers, or its sequence."""
        return self.tensor_parallel * self.context_parallel * self.pipeline_parallel * self.expert_parallel > 1

    @property
    def has_whole_experts(self) -> bool:
        """Whether tensor ranks have experts of their own, and none of them is cut."""
        return self.expert_parallel > 1 and self.expert_tensor_parallel == 1 < self.tensor_parallel

    @property
    def name(self) -> str:
        """``zero1, TP 4, PP 4x5, recomputed``: as people write it; ``selective``: in part; ``50%`` of the blocks.

        ``ETP 1``: with whole experts on tensor ranks; else they are cut as all else.
        """
        degrees = (
            ("TP", self.tensor_parallel, 1),
            ("CP", self.context_parallel, 1),
            ("PP", self.pipeline_parallel, self.virtual_stages),
            ("EP", self.expert_parallel, 1),
        )
        cuts = [f"{name} {ranks}{f'x{chunks}' if chunks > 1 else ''}" for name, ranks, chunks in degrees if ranks > 1]
        cuts += ["ETP 1"] if self.has_whole_experts else []
        share = "" if self.recomputed_share == 1 else f" {self.recomputed_share:.0%}"
        again = [f"recomputed{share}"] if self.activation_checkpointing else []
        again += [f"recomputed {' '.join(self.recompute_modules)}"] if self.recompute_modules else []
        return ", ".join([self.strategy, *cuts, *again, *(["selective"] if self.selective_checkpointing else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class FewestNodes(PlainPart):
    """The best way on fewer nodes, in halves of those asked for, or on more that are in time."""

    nodes: int
    way: str
    peak: int
    tokens_per_second: Range | None
    hours: Range | None
    cost: Range | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan(PlainDocument):
    """The plan: its ``ways``, the best first. ``assumed`` says what was not given and how it was chosen."""

    SCHEMA: ClassVar[str] = "raybench.training-plan/1"
    model: str
    parameters: int
    method: str
    world_size: int
    nodes: int
    gpu: str | None
    device_bytes: int | None
    sequence_length: int
    samples_per_step: int
    tokens: int | None
    currency: str | None
    verdict: Verdict
    reason: str
    ways: tuple[TrainingWay, ...]
    launch: tuple[str, ...]
    assumed: tuple[str, ...]
    unknown: tuple[str, ...]
    measured: tuple[MeasuredSetting, ...] = ()  # the first versions had none
    fewest_nodes: FewestNodes | None = None  # None: no fewer, or nothing fits
    nodes_in_time: FewestNodes | None = None  # in doublings, where the deadline may be missed; None: no such number
    links_measured: str | None = None  # by which run, on how many ranks
    price: str | None = None  # of a node for an hour, and where it is from
    program: str | None = None  # as asked; what was taken of it is in ``assumed``
    own_runs: tuple[OwnRunTold, ...] = ()  # that correct the step times of all ways
    first_without_runs: str | None = None  # the way that is, where another is first and no run of it was given
    not_said: tuple[str, ...] = ()  # options that widen the bounds of the best way
    open_tokens_per_second: Range | None = None  # of the best way whatever is said of them; None: no wider than its own
    other_programs: tuple[OtherPrograms, ...] = ()  # out of those bounds, where none is asked for
    nearest: tuple[str, ...] = ()  # options that something is sure to fit with, and what, where nothing is without

    @property
    def exit_code(self) -> int:
        """That of the command: 1 where nothing fits, or the deadline or the budget is missed; 3 where that is open."""
        return exit_code_of(self.verdict)
