"""What a study does: its variants, and the order of its trials. Pure."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from raybench.errors import UsageError, unknown_name

SCHEMA = "raybench.study/1"
KINDS = ("network", "scaling", "strategy", "batch-size", "model-size")
_MOST_REPEATS = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # it is part of a folder's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One configuration to compare: a name, and the options by which its command differs from the others'.

    ``facts`` is what the analysis needs to know of it: ``{"nodes": 4, "mode": "weak"}``, ``{"expects": "socket"}``.
    """

    name: str
    arguments: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"'{self.name}' is no name for a variant; use letters, digits, '.', '_' and '-'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one variant. ``number`` counts in the order of doing, ``block`` is the repeat that it belongs to."""

    number: int
    block: int
    variant: str

    @property
    def folder(self) -> str:
        """The name of its folder: ``003-rdma``."""
        return f"{self.number:03d}-{self.variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A whole study as written to ``plan.json``: the same file, read again, goes on where it stopped.

    ``workload`` is the command that every variant runs, such as ``("train", "--model", "tiny")``; ``folder`` is where
    it runs, so that ``--config run.yml`` means the same file when the study goes on.
    """

    kind: str
    workload: tuple[str, ...]
    variants: tuple[Variant, ...]
    repeats: int
    seed: int
    folder: str = "."
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown_name("study of", self.kind, KINDS)
        if not 1 <= self.repeats <= _MOST_REPEATS:
            raise UsageError(f"--repeats is {self.repeats}; it must be from 1 to {_MOST_REPEATS}")
        names = [variant.name for variant in self.variants]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise UsageError(f"{', '.join(sorted(twice))} is there twice; each variant of a study is named once")
        if not names:
            raise UsageError("a study needs at least one variant")

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError where there is none."""
        return next(variant for variant in self.variants if variant.name == name)

    def order(self) -> list[list[str]]:
        """The variants of each block in the order of doing: see `order_of`."""
        return order_of([variant.name for variant in self.variants], self.repeats, self.seed)

    def trials(self) -> tuple[Trial, ...]:
        """Every trial, in the order of doing."""
        names = [(block, name) for block, order in enumerate(self.order()) for name in order]
        return tuple(Trial(number=number, block=block, variant=name) for number, (block, name) in enumerate(names))

    def to_json(self) -> dict[str, Any]:
        """The study as its file holds it."""
        return {"schema": SCHEMA, **asdict(self)}


def order_of(names: Sequence[str], repeats: int, seed: int) -> list[list[str]]:
    """The order of the variants in each block of a randomised complete block design, mirrored pairwise.

    Each block holds every variant once, so that a slow hour slows all of them. Every second block is the one before it
    backwards: within such a pair a steady drift (a machine that warms up) favours none of them. More blocks of the same
    seed begin with the same ones, so that a study can be made longer.
    """
    generator = random.Random(seed)
    blocks: list[list[str]] = []
    for block in range(repeats):
        if block % 2:
            blocks.append(blocks[-1][::-1])
        else:
            blocks.append(generator.sample(list(names), len(names)))
    return blocks
