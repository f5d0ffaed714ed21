"""What a study does (``raybench.study/1``, ``plan.json``): its variants, and the order of its trials. Pure."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta, field

from raybench.documents.part import FieldwiseDocument, FieldwisePart, Part
from raybench.documents.plain import Json
from raybench.documents.price import Price
from raybench.documents.quantity import PositiveSeconds
from raybench.documents.study.cost import COSTED_SAMPLES
from raybench.errors import UsageError, unknown_name

Kind = Literal["network", "scaling", "strategy", "batch-size", "model-size", "communication", "precision"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NetworkKind = Literal["socket", "rdma"]
ScalingMode = Literal["strong", "weak"]
_MOST_REPEATS = 1000
_NEEDED_FACTS: Mapping[Kind, tuple[str, ...]] = {
    "network": ("expects",),
    "scaling": ("nodes", "modes"),
    "batch-size": ("batch_size",),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # it is part of a folder's name


class Expectation(FieldwisePart, frozen=True, kw_only=True):
    """What the label of a run promises: ``kind`` socket or rdma, ``gdr``, the ``device`` that carries the data."""

    kind: NetworkKind | None = None
    gdr: bool | None = None
    device: str | None = None


class VariantFacts(Part, frozen=True, kw_only=True):
    """What the analysis needs to know of a variant: of the kind of its study, the others are None."""

    nodes: Annotated[int, Meta(ge=1)] | None = None
    modes: tuple[ScalingMode, ...] = ()
    expects: Expectation | None = None
    batch_size: Annotated[int, Meta(ge=1)] | None = None
    model: str | None = None

    def to_json(self) -> Json:
        """Those that there are."""
        facts = {
            "nodes": self.nodes,
            "modes": list(self.modes) or None,
            "expects": self.expects.to_json() if self.expects else None,
            "batch_size": self.batch_size,
            "model": self.model,
        }
        return self.with_unknown({key: fact for key, fact in facts.items() if fact is not None})


class Variant(FieldwisePart, frozen=True, kw_only=True):
    """One configuration to compare: a name, and the options by which its command differs from the others'."""

    name: str
    arguments: tuple[str, ...] = ()
    facts: VariantFacts = field(default_factory=VariantFacts)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"'{self.name}' is not a name for a variant; use letters, digits, '.', '_' and '-'")


class Trial(FieldwisePart, frozen=True, kw_only=True):
    """One run of one variant. ``number`` counts in the order of doing, ``block`` is the repeat that it belongs to."""

    number: Annotated[int, Meta(ge=0)]
    block: Annotated[int, Meta(ge=0)]
    variant: str

    @property
    def folder(self) -> str:
        """The name of its folder: ``003-rdma``."""
        return f"{self.number:03d}-{self.variant}"


class Settings(FieldwisePart, frozen=True, kw_only=True):
    """What figures are shown with: the price of a node, how many samples an epoch has, and its deadline and budget."""

    price: Price | None = None
    epoch_samples: Annotated[int, Meta(ge=1)] | None = None
    deadline_seconds: PositiveSeconds | None = None
    budget: Annotated[float, Meta(gt=0, lt=1e15)] | None = None  # in the price's currency

    @property
    def costed_samples(self) -> int:
        """The samples of an epoch, or as many as are taken for one where nobody says."""
        return self.epoch_samples or COSTED_SAMPLES


class Study(FieldwiseDocument, frozen=True, kw_only=True):
    """A whole study as written to ``plan.json``: the same file, read again, goes on where it stopped.

    ``workload`` is the command that every variant runs, such as ``("train", "--model", "tiny")``; ``folder`` is where
    it runs, so that ``--config run.yml`` means the same file when the study goes on.
    """

    kind: Kind
    workload: tuple[str, ...]
    variants: tuple[Variant, ...]
    repeats: int
    seed: int
    folder: str = "."
    settings: Settings = field(default_factory=Settings)
    SCHEMA: ClassVar[str] = "raybench.study/1"

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

    def contradiction(self) -> str | None:
        """Whether its variants have the facts that the answer to its kind of study is made from."""
        return _missing_fact(self.kind, self.variants)

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


def _missing_fact(kind: Kind, variants: Sequence[Variant]) -> str | None:
    for number, variant in enumerate(variants):
        for name in _NEEDED_FACTS.get(kind, ()):
            if not getattr(variant.facts, name):
                return f"variant {number} of a {kind} study has no {name}"
    return None


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
