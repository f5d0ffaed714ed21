"""What a proof found, as a file: the machine, the versions, and each step with what it measured and compared.

A record of a GPU and one of a dry run have the same form. What makes it a GPU's is what the ranks said of the device
that they used, not its label or its name: ``proves`` looks at that.
"""

import contextlib
import fcntl
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from raybench.whole_file import write_whole

SCHEMA = "raybench.gpu-record/1"
ON_GPU, DRY_RUN = "GPU", "dry run, no GPU"
RECORDS = Path(__file__).with_name("records")
Result = Literal["passed", "failed", "not-run"]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A figure beside its bounds; None is unknown. Not ``judged``: it tells of GPUs alone, and there is none."""

    what: str
    value: float | None
    least: float | None = None
    most: float | None = None
    judged: bool = True

    @property
    def holds(self) -> bool:
        """Whether the figure is a number that is known, and within its bounds."""
        if self.value is None or not math.isfinite(self.value):
            return False
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    def __str__(self) -> str:
        low, high = ("" if bound is None else f"{bound:g}" for bound in (self.least, self.most))
        bounds = low if low == high else f"{low}..{high}"
        remark = "" if self.judged else ", not judged without a GPU"
        value = "unknown" if self.value is None else f"{self.value:.4g}"
        return f"{self.what} {value} ({bounds}{remark})"


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step. ``devices`` and ``gpus``: what its ranks computed on, and the UUIDs of those that are GPUs."""

    result: Result
    seconds: float
    at: str
    source: str
    reason: str | None = None
    devices: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    figures: dict[str, Any] = {}


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A proof as far as it has come."""

    schema: str
    label: str
    date: str
    machine: dict[str, Any]
    versions: dict[str, str | None]
    steps: dict[str, StepRecord] = {}

    @property
    def is_of_gpu(self) -> bool:
        """Whether it was made on a machine with a GPU."""
        return self.label == ON_GPU and bool(self.machine.get("gpus"))

    def proves(self, step: str) -> bool:
        """Whether it shows that a step passed on a GPU: its ranks all said so, each with the UUID of one."""
        found = self.steps.get(step)
        if found is None or found.result != "passed" or not self.is_of_gpu:
            return False
        return bool(found.gpus) and bool(found.devices) and all(one.startswith("cuda") for one in found.devices)

    def with_step(self, name: str, step: StepRecord) -> "Record":
        """The same with one step more, or done again."""
        return msgspec.structs.replace(self, steps={**self.steps, name: step})


def now() -> str:
    """UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def name_of(machine: dict[str, Any], date: str) -> str:
    """``nvidia-h200-2026-11-23.json``; a dry run's begins with ``dry-run-``."""
    gpus = machine.get("gpus") or []
    what = re.sub(r"[^a-z0-9]+", "-", gpus[0]["name"].lower()).strip("-") if gpus else "dry-run"
    return f"{what}-{date[:10]}.json"


def load(path: Path) -> Record:
    """A record. Raises msgspec.DecodeError, with the file's name, for a file that is none."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise msgspec.ValidationError(f"{path} is no record of a proof ({error}); move it away") from error
    if record.schema != SCHEMA:
        raise msgspec.ValidationError(f"{path.name} is a {record.schema}; this is for {SCHEMA}")
    return record


def write(path: Path, record: Record) -> None:
    """Whole or not at all: a proof that is cut keeps what it had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a second proof from this folder: each would write over what the other has. Raises OSError where one is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise OSError(f"another proof writes to {folder}; wait for it, or take --records") from error
    finally:
        os.close(handle)


def records_in(folder: Path = RECORDS) -> dict[str, Record]:
    """Every record of a folder by its file name."""
    return {path.name: load(path) for path in sorted(folder.glob("*.json"))}


def proved_by(step: str, records: dict[str, Record]) -> Iterable[str]:
    """File names of the records of a GPU in which a step passed."""
    return (name for name, record in records.items() if record.proves(step))
