"""What trainings of any program print at their end: how long they took, on how many ranks, and what was learned. Pure.

The words are those of Lightning, transformers' Trainer and people's own scripts (``Total training time: 362.45
seconds``, ``'train_runtime': 362.45``, ``Best validation loss: 0.1187``, ``val_acc=0.953``, ``World size: 8``).
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NUMBER = r"['\"]?\s*[:=]\s*['\"]?([0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,3})?)"
_TIME = re.compile(rf"\b(?:(?:total )?training time|train_runtime){_NUMBER}\s*(\w*)", re.IGNORECASE)
_LOSS = re.compile(rf"\b(?:val|valid|validation|eval)[ _]loss{_NUMBER}", re.IGNORECASE)
_ACCURACY = re.compile(rf"\b(?:val|valid|validation|eval)[ _]acc(?:uracy)?{_NUMBER}(\s*%)?", re.IGNORECASE)
_RANKS = re.compile(r"\b(?:world[ _]size|(?:number of |total |num_)?gpus)\s*[:=]\s*([0-9]{1,7})\b", re.IGNORECASE)
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hour": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOutput:
    """``seconds`` of the whole training; the least ``validation_loss`` and the best ``validation_accuracy``, a share.

    None: it was not printed.
    """

    seconds: float | None = None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    ranks: int | None = None

    @property
    def text(self) -> str:
        """``trained in 362.45 s on 1 rank, validation loss 0.1187, accuracy 95.3 %``."""
        took = f"trained in {self.seconds:g} s" if self.seconds is not None else "trained"
        where = f" on {self.ranks} rank{'s' if self.ranks > 1 else ''}" if self.ranks else ""
        loss = f", validation loss {self.validation_loss:g}" if self.validation_loss is not None else ""
        right = f", accuracy {self.validation_accuracy:.1%}" if self.validation_accuracy is not None else ""
        return took + where + loss + right


class TrainingLines:
    """Takes the lines of one job's output."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._loss: float | None = None
        self._accuracy: float | None = None
        self._ranks: int | None = None

    def take(self, text: str) -> None:
        """Look at a line."""
        for found in _TIME.finditer(text):
            unit = _UNITS.get(re.sub("(ond|ute)?s?$", "", found[2].lower()))
            self._seconds = self._seconds if unit is None else float(found[1]) * unit
        for found in _LOSS.finditer(text):
            self._loss = min(float(found[1]), math.inf if self._loss is None else self._loss)
        for found in _ACCURACY.finditer(text):
            share = float(found[1]) / (100 if found[2] else 1)
            self._accuracy = max(share, self._accuracy or 0.0) if share <= 1 else self._accuracy
        if (ranks := _RANKS.search(text)) is not None and int(ranks[1]):
            self._ranks = int(ranks[1])

    def found(self) -> TrainingOutput | None:
        """What they say of a training; None where neither a time nor a validation is in them."""
        if (self._seconds, self._loss, self._accuracy) == (None, None, None):
            return None
        return TrainingOutput(
            seconds=self._seconds,
            validation_loss=self._loss,
            validation_accuracy=self._accuracy,
            ranks=self._ranks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """A job beside those on the fewest ranks: ``ratio`` of their mean time over its, ``efficiency`` of the ranks."""

    job: str
    ratio: float
    efficiency: float


def speedups(jobs: Iterable[tuple[str, TrainingOutput | None]]) -> Sequence[Speedup]:
    """Of each job with a time and a number of ranks; none where all have as many ranks."""
    known = [(job, one.ranks, one.seconds) for job, one in jobs if one is not None and one.ranks and one.seconds]
    if len({ranks for _, ranks, _ in known}) < 2:
        return ()
    least = min(ranks for _, ranks, _ in known)
    times = [seconds for _, ranks, seconds in known if ranks == least]
    base = sum(times) / len(times)
    return [
        Speedup(job=job, ratio=base / seconds, efficiency=base / seconds * least / ranks)
        for job, ranks, seconds in known
    ]
