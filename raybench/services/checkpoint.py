"""A checkpoint that was kept, read to its last byte: is it whole?"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from raybench.benchmarks.checkpoint.stores import PLACES, divided
from raybench.errors import UsageError

PLACES_TO_SAVE = f"{PLACES[0].upper()}{PLACES[1:]}"  # each storage backend by its example


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCheckpoint:
    """Whether a checkpoint is whole, with its size; else the ``reason``.

    ``exit_code`` is 0 where it is whole, 1 where it is damaged, 2 where there is none that could be read.
    """

    place: str
    stored_bytes: int = 0
    reason: str = ""
    exit_code: int = 0

    @property
    def whole(self) -> bool:
        """Whether every byte is as it was saved."""
        return not self.exit_code

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        if self.whole:
            return {"place": self.place, "whole": True, "stored_bytes": self.stored_bytes}
        return {"place": self.place, "whole": False, "reason": self.reason}


def check_checkpoint(place: str, options: Mapping[str, Any] = MappingProxyType({})) -> CheckedCheckpoint:
    """Read every byte of a kept checkpoint: a folder, or ``s3://bucket/prefix/NAME``.

    ``options`` are those of CheckpointOptions, of which ``endpoint`` and ``limit_seconds`` matter. Raises UsageError
    for options that cannot be, and for a place that names no checkpoint.
    """
    from raybench.benchmarks.checkpoint.options import CheckpointOptions

    if not place.strip():
        raise UsageError("--inspect is empty; write the folder of a kept checkpoint, or s3://bucket/prefix/NAME")
    chosen = CheckpointOptions(**{**options, "to": (place,)})
    above, folder = _divided(place)
    from raybench.benchmarks.checkpoint.manifest import CheckpointError
    from raybench.benchmarks.checkpoint.storage import check_checkpoint as check  # imports torch
    from raybench.benchmarks.checkpoint.stores import open_store
    from raybench.benchmarks.checkpoint.stores.store import StoreError

    try:
        _look_for(place)
        store = open_store(above, endpoint=chosen.endpoint, limit_seconds=chosen.limit_seconds)
        return CheckedCheckpoint(place=place, stored_bytes=check(store, folder))
    except CheckpointError as error:
        return CheckedCheckpoint(place=place, reason=str(error), exit_code=1)
    except (StoreError, UsageError) as error:
        return CheckedCheckpoint(place=place, reason=str(error), exit_code=2)


def _divided(place: str) -> tuple[str, str]:
    """The place that holds a checkpoint, and its folder there. Raises UsageError where a bucket is all there is."""
    scheme, rest = divided(place)
    above, slash, folder = rest.rstrip("/").rpartition("/")
    if scheme == "file":
        return above or slash or ".", folder
    if not above:
        raise UsageError(f"--inspect {place} names no checkpoint in the bucket; write {place.rstrip('/')}/NAME")
    return f"{scheme}://{above}", folder


def _look_for(place: str) -> None:
    """Raises UsageError where no checkpoint was ever begun: what is not there cannot be damaged."""
    scheme, rest = divided(place)
    if scheme != "file":
        return
    folder = Path(rest)
    if not folder.is_dir():
        raise UsageError(
            f"--inspect {place}: there is no such folder; name one that --keep-checkpoints left, with its own name"
        )
    if not any(folder.glob("rank-*.bin")) and not (folder / "manifest.json").exists():
        raise UsageError(
            f"--inspect {place}: this folder holds no checkpoint; name one that --keep-checkpoints left in it"
        )
