"""What a tracker is told, and the interface behind which each of them stands. JSON lines; no client is imported here.

A tracker is told what a terminal shows, by one process: the command's. Ranks know nothing of it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

Settings = dict[str, str]


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """A run begins. ``settings``: what it was asked for, by dotted names; secrets are said to be set.

    ``project``: where the environment of the client names none. ``group``: the study that it is a trial of, if any.
    """

    run_id: str
    command: str
    folder: str
    project: str = "raybench"
    group: str = ""
    settings: Settings = {}


class Figures(msgspec.Struct, frozen=True, kw_only=True, tag="figures"):
    """Figures of one place of a series: ``group`` ``ddp``, ``axis`` ``step``, ``position`` 12, ``values`` by name.

    ``at``: wall-clock time, seconds. Names have letters, digits and ``_-./`` only: all trackers take them.
    """

    group: str
    axis: str
    position: int
    values: dict[str, float]
    at: float

    def named(self) -> dict[str, float]:
        """Its values by whole names, such as ``ddp/loss``."""
        return {f"{self.group}/{name}": value for name, value in self.values.items()}


class Remark(msgspec.Struct, frozen=True, kw_only=True, tag="remark"):
    """A warning of the run, as it stands on the terminal. ``number`` counts them from 1."""

    number: int
    text: str
    at: float


class Concluded(msgspec.Struct, frozen=True, kw_only=True, tag="concluded"):
    """The run has ended. ``figures``: its headline figures; ``files``: its documents, as absolute paths."""

    verdict: str
    reason: str
    exit_code: int
    figures: dict[str, float] = {}
    files: tuple[str, ...] = ()


Message = Begun | Figures | Remark | Concluded


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The client is at work. ``where`` its run is seen: an address, or a folder. ``remark``: what to know of it."""

    where: str
    remark: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag="taken"):
    """So many more messages were handled; ``lost`` of them were not, for the reason in ``error``."""

    count: int
    lost: int = 0
    error: str = ""


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed"):
    """The client has ended, and nothing of it is on its way any more. ``omitted``: documents that it did not take."""

    where: str = ""
    omitted: tuple[str, ...] = ()


Answer = Started | Taken | Closed


class Tracker(Protocol):
    """One client. Each call may fail in the client's own way; whoever calls it says so, and goes on."""

    where: str
    remark: str

    def begin(self, begun: Begun) -> None:
        """Make a run there. Afterwards ``where`` says where it is seen, ``remark`` what to know of it."""

    def log(self, figures: Iterable[Figures]) -> None:
        """Log figures, in the order in which they came."""

    def remark_on(self, remark: Remark) -> None:
        """Log a warning."""

    def conclude(self, concluded: Concluded) -> None:
        """Log the verdict and the documents."""

    def close(self, exit_code: int | None) -> None:
        """End the run there; returns when all of it has been handed over. None: the run's command was lost."""


def flat(settings: object, prefix: str = "") -> Settings:
    """Settings as dotted names and texts, as trackers compare runs by: ``training.steps`` ``20``; no empty ones."""
    if isinstance(settings, dict):
        found: Settings = {}
        for name, value in settings.items():
            found |= flat(value, f"{prefix}.{name}" if prefix else str(name))
        return found
    if settings is None or settings in ((), []):
        return {}
    text = ", ".join(map(str, settings)) if isinstance(settings, list | tuple) else str(settings)
    return {prefix: text[:MOST_TEXT]}


MOST_TEXT = 500  # letters of a setting: MLflow's limit for a parameter was 500 until version 2.10, and others take more
MOST_FILE_BYTES = 64 * 2**20  # of a document handed to a tracker


def documents(concluded: Concluded) -> list[Path]:
    """The documents that are there and not too large to be handed over."""
    found = []
    for path in map(Path, concluded.files):
        try:
            if path.is_file() and path.stat().st_size <= MOST_FILE_BYTES:
                found.append(path)
        except OSError:
            continue
    return found
