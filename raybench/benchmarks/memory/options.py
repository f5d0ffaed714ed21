"""Whose memory is measured, as data that travels from the command line to every rank. No torch here."""

from dataclasses import asdict, dataclass
from typing import Any

from raybench.benchmarks.training.options import TrainingOptions
from raybench.errors import UsageError, unknown_value
from raybench.units import parse_amount

STRATEGIES = ("single", "fsdp", "lora", "qlora")
SHARDINGS = ("full", "grad-op")
_MOST_SHARDS = 1 << 20
# Where the search ends if nobody says: a CPU takes minutes for what tells nothing of a GPU.
DEFAULT_MOST = {"cuda": 4096, "cpu": 8}
_LONGEST_SECONDS, _MOST_BATCH = 86_400, 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """A model on one rank, as DDP, FSDP, LoRA or QLoRA hold it; ``limit``: memory it may take, else what there is.

    ``batch_sizes`` are measured each; the search goes on from there up to ``most_batch``. ``shards``: the ranks over
    which fsdp spreads the model, None for those of the run; one rank is enough to measure what one of a thousand holds.
    ``model_name``: as of a training.
    """

    model: str = "small"
    model_name: str | None = None
    layers: int | None = None
    hidden_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    intermediate_size: int | None = None
    vocabulary: int | None = None
    strategy: str = "single"
    sharding: str = "full"
    shards: int | None = None
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8)
    sequence_length: int | None = None
    dtype: str | None = None
    optimizer: str = "adamw"
    checkpoint_activations: bool = False
    limit: str | None = None
    most_batch: int | None = None
    limit_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise unknown_value("strategy", self.strategy, STRATEGIES)
        if self.sharding not in SHARDINGS:
            raise unknown_value("sharding", self.sharding, SHARDINGS)
        if self.shards is not None and not 1 <= self.shards <= _MOST_SHARDS:
            raise UsageError(f"--shards is {self.shards}; it must be from 1 to {_MOST_SHARDS}")
        if self.strategy != "fsdp" and (self.shards is not None or self.sharding != "full"):
            raise UsageError("--shards and --sharding are of --strategy fsdp")
        if not 0 < self.limit_seconds <= _LONGEST_SECONDS:
            raise UsageError(
                f"--trial-timeout is {self.limit_seconds:g}; it must be above 0, at most {_LONGEST_SECONDS}"
            )
        if self.most_batch is not None and not 1 <= self.most_batch <= _MOST_BATCH:
            raise UsageError(f"--most-batch is {self.most_batch}; it must be from 1 to {_MOST_BATCH}")
        most = self.most_batch or DEFAULT_MOST["cuda"]
        if not self.batch_sizes or any(not 1 <= size <= most for size in self.batch_sizes):
            raise UsageError(f"--batch-sizes must be from 1 to --most-batch ({most}), such as 1,2,4")
        if self.limit is not None:
            parse_amount("--memory-limit", self.limit, "1M")  # no training fits into less
        self.training(self.batch_sizes[0])

    def training(self, batch_size: int) -> TrainingOptions:
        """The training whose memory it is."""
        return TrainingOptions(
            model=self.model,
            model_name=self.model_name,
            layers=self.layers,
            hidden_size=self.hidden_size,
            heads=self.heads,
            kv_heads=self.kv_heads,
            intermediate_size=self.intermediate_size,
            vocabulary=self.vocabulary,
            batch_size=batch_size,
            sequence_length=self.sequence_length,
            dtype=self.dtype,
            optimizer=self.optimizer,
            checkpoint_activations=self.checkpoint_activations,
            sharding=self.sharding,
        )

    @property
    def called(self) -> str:
        """What the model is called in labels and messages."""
        return self.model_name or self.model

    def search_end(self, device: str) -> int:
        """The largest batch that the search tries on a kind of device."""
        return self.most_batch or max(DEFAULT_MOST.get(device, DEFAULT_MOST["cpu"]), *self.batch_sizes)

    def parameters(self) -> dict[str, Any]:
        """What a result records of it."""
        return asdict(self)
