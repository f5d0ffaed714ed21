"""The commands that faults are planted into: each busy for minutes, or through in seconds for what must not harm it."""

import contextlib
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.command import Command

_TWO = ("--address", "local", "--nodes", "2")
_JOIN = ("--address", "{address}", "--nodes", "2")
_SWEEP = ("--suite", "quick", "--iters", "200")
_BRIEF_SWEEP = ("--suite", "quick", "--iters", "20")  # ranks that are one call apart hang where a block ends
_STEPS = ("--sequence-length", "8", "--warmup-steps", "1")
_STEP = (*_STEPS, "--batch-size", "1")
_SHORT_SECONDS = 60  # a command that nothing shall end: no limit for a busy machine
_STUDY = ("study", "scaling", "--nodes", "2,1", "--batch-size", "2", "--repeats", "1", "--seed", "2")
_TRAIN = ("--output-dir", "{folder}/runs", "--", "train", "--address", "local", *_STEPS, "--steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A command line. ``ranks`` and ``nodes`` that all its launches have; ``timeout_seconds`` its ``--timeout``."""

    name: str
    long: Sequence[str]
    short: Sequence[str]  # the same, through within seconds
    nodes: int = 2
    ranks: int = 2
    timeout_seconds: int = 7
    launches: int = 1  # each may take its ``--timeout``
    other_seconds: int = 0  # what it goes on with after the launch that the fault ended
    is_study: bool = False
    joins: bool = False  # a Ray cluster that is there before, and stays

    def command_line(self, *, short: bool, folder: Path, address: str) -> list[str]:
        """Arguments, with the folder for what the workload itself stores, and the cluster to join."""
        timeout_seconds = _SHORT_SECONDS if short else self.timeout_seconds
        words = (*(self.short if short else self.long), "--timeout", str(timeout_seconds))
        return [one.replace("{folder}", str(folder)).replace("{address}", address) for one in words]


WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            name="run",
            long=("run", *_TWO, *_SWEEP, "--sizes", "1K:999K:+1K"),
            short=("run", *_TWO, *_SWEEP, "--sizes", "1K:6K:+1K"),
        ),
        Workload(
            name="run4",
            long=("run", *_TWO, "--gpus-per-node", "2", *_BRIEF_SWEEP, "--sizes", "1K:999K:+1K"),
            short=("run", *_TWO, "--gpus-per-node", "2", *_BRIEF_SWEEP, "--sizes", "1K:6K:+1K"),
            ranks=4,
        ),
        Workload(
            name="joined",
            long=("run", *_JOIN, *_SWEEP, "--sizes", "1K:999K:+1K"),
            short=("run", *_JOIN, *_SWEEP, "--sizes", "1K:6K:+1K"),
            joins=True,
        ),
        Workload(
            name="train",
            long=("train", *_TWO, *_STEP, "--steps", "100000"),
            short=("train", *_TWO, *_STEP, "--steps", "20"),
        ),
        Workload(
            name="memory",
            long=("memory", "--address", "local", "--model", "tiny", "--batch-sizes", "1,2", "--repeats", "8"),
            short=("memory", "--address", "local", "--model", "tiny", "--batch-sizes", "1"),
            nodes=1,
            ranks=1,
            timeout_seconds=20,
            launches=8,
        ),
        Workload(
            name="checkpoint",
            long=("checkpoint", *_TWO, "--to", "{folder}/stored", "--model", "tiny", "--repeats", "12"),
            short=("checkpoint", *_TWO, "--to", "{folder}/stored", "--model", "tiny", "--saves", "1"),
            launches=12,
        ),
        Workload(
            name="study",
            long=(*_STUDY, *_TRAIN, "1000"),
            short=(*_STUDY, *_TRAIN, "10"),
            nodes=1,
            ranks=1,
            timeout_seconds=20,
            other_seconds=100,
            is_study=True,
        ),
    )
}


def samples_so_far(command: Command) -> int:
    """Lines of every samples.jsonl below the output: of a run, or of a study's trials."""
    lines = 0
    names = glob.glob("**/samples.jsonl", root_dir=command.output, recursive=True)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            lines += (command.output / name).read_bytes().count(b"\n")
    return lines
