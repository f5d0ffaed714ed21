"""Whose memory is measured, as data that travels from the command line to every rank. No torch here."""

from dataclasses import asdict, dataclass
from typing import Any

from raybench.benchmarks.training.options import TrainingOptions
from raybench.errors import UsageError
from raybench.units import parse_bytes

STRATEGIES = ("single", "lora", "qlora")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """A model on one rank, as DDP, LoRA or QLoRA hold it; ``limit``: memory it may take, else what the device has.

    ``batch_sizes`` are measured each; the search goes on from there up to ``most_batch``.
    """

    model: str = "small"
    strategy: str = "single"
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8)
    sequence_length: int | None = None
    dtype: str | None = None
    optimizer: str = "adamw"
    checkpoint_activations: bool = False
    limit: str | None = None
    most_batch: int = 4096
    limit_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(f"--strategy '{self.strategy}' is not known; there are: {', '.join(STRATEGIES)}")
        if not self.batch_sizes or any(not 1 <= size <= self.most_batch for size in self.batch_sizes):
            raise UsageError(f"--batch-sizes must be from 1 to --most-batch ({self.most_batch}), such as 1,2,4")
        if self.limit is not None:
            parse_bytes(self.limit)
        self.training(self.batch_sizes[0])

    def training(self, batch_size: int) -> TrainingOptions:
        """The training whose memory it is."""
        return TrainingOptions(
            model=self.model,
            batch_size=batch_size,
            sequence_length=self.sequence_length,
            dtype=self.dtype,
            optimizer=self.optimizer,
            checkpoint_activations=self.checkpoint_activations,
        )

    def parameters(self) -> dict[str, Any]:
        """What a result records of it."""
        return asdict(self)
