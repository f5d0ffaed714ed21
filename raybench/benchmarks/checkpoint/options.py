"""What to save, where and how, as data that travels from the command line to every rank. No torch here."""

from dataclasses import asdict, dataclass
from typing import Any

from raybench.benchmarks.checkpoint.stores import PLACES, endpoint_refusal, refusal
from raybench.errors import UsageError, unknown_value
from raybench.secret_values import without_secrets

LAYOUTS, MODES, COMPRESSIONS = ("sharded", "full"), ("sync", "async"), ("none", "zstd", "zlib")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """``to``: folders or addresses of a backend (``stores.BACKENDS``). Each is saved to in every layout and mode.

    ``limit_seconds``: how long one request to a storage may take; a storage that is not there fails within it.
    """

    to: tuple[str, ...] = ("checkpoints",)
    model: str = "small"
    layouts: tuple[str, ...] = LAYOUTS
    modes: tuple[str, ...] = MODES
    compression: str = "none"
    saves: int = 3
    endpoint: str | None = None
    limit_seconds: float = 30.0
    keep: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in (("layouts", LAYOUTS), ("modes", MODES)):
            for value in getattr(self, name):
                _check_choice(name, value, choices)
        _check_choice("compression", self.compression, COMPRESSIONS)
        if not self.to or not self.layouts or not self.modes:
            raise UsageError("a checkpoint needs a place (--to), a layout and a mode")
        if not 1 <= self.saves <= 1000:
            raise UsageError(f"--saves is {self.saves}; it must be from 1 to 1000")
        if not 0 < self.limit_seconds <= 86400:
            raise UsageError(f"--request-timeout is {self.limit_seconds}; it must be above 0 and at most 86400")
        for place in self.to:
            if not place.strip():
                raise UsageError(f"--to is empty; write {PLACES}")
            if reason := refusal(place):
                raise UsageError(f"--to '{place}' {reason}")
        if self.endpoint and (reason := endpoint_refusal(self.to)):
            raise UsageError(f"--endpoint {reason}")

    def labels(self) -> tuple[str, ...]:
        """One name a place, layout and mode, in the order in which they are saved."""
        return tuple(f"{layout} {mode} {place}" for place in self.to for layout in self.layouts for mode in self.modes)

    def parameters(self) -> dict[str, Any]:
        """What a result records of it: addresses without the passwords in them."""
        recorded: dict[str, Any] = without_secrets(asdict(self))
        return recorded


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise unknown_value(name, value, choices)
