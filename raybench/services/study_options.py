"""What a study is asked for, checked before anything is planned."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.study.plan import Kind
    from raybench.performance_model.cost import Price

WORKLOADS = ("train", "run")  # of study network; the others compare training
_LEAST_SEED, _MOST_SEED = 0, 2**31 - 1
_LONGEST_SECONDS = 100 * 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """What a node costs for an hour, given or of a listed ``node_type``, and how long an epoch is.

    ``deadline_seconds`` and ``budget``, in the price's currency, are of an epoch. None: not given.
    """

    price: float | None = None
    currency: str = "USD"
    node_type: str | None = None
    prices: str | None = None
    epoch_samples: int | None = None
    deadline_seconds: float | None = None
    budget: float | None = None

    def __post_init__(self) -> None:
        goal = "--deadline" if self.deadline_seconds is not None else "--budget" if self.budget is not None else None
        if goal and self.epoch_samples is None:
            raise UsageError(f"{goal} needs --epoch-samples: how many samples the whole training has")
        if self.budget is not None and self.price is None and self.node_type is None:
            raise UsageError("--budget needs --price, of a node for an hour, or --node-type")
        if self.epoch_samples is not None and self.epoch_samples < 1:
            raise UsageError(f"--epoch-samples is {self.epoch_samples}; it must be at least 1")
        if self.prices is not None and self.node_type is None:
            raise UsageError("--prices needs --node-type: the name of a line in it")

    def price_of_node(self) -> "Price | None":
        """The price, given or listed; None where neither was asked for. Raises UsageError for an unknown machine."""
        from raybench.performance_model.cost import Price, list_price, why_unpriced

        if self.price is not None:
            return Price(per_node_hour=self.price, source="given", currency=self.currency)
        if self.node_type is None:
            return None
        listed = list_price(self.node_type, price_table(self.prices))
        if listed is None:
            missing = f"there is no list price of '{self.node_type}'; give --price, of a node for an hour"
            raise UsageError(why_unpriced(self.node_type) or missing)
        return listed


def price_table(path: str | None) -> str | None:
    """The text of a table of prices; None where none is given. Raises UsageError."""
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prices {path} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """A study of a kind: what it compares (``subject``: the options of its kind), of which ``workload``, how often.

    ``resume`` is the folder of an earlier study, whose plan says all but the number of repeats. None: not given.
    """

    kind: "Kind"
    subject: Mapping[str, Any] = field(default_factory=dict)
    workload: tuple[str, ...] = ()
    repeats: int | None = None
    seed: int | None = None
    output_dir: str | None = None
    resume: str | None = None
    timeout: float = 3600.0
    pricing: Pricing = field(default_factory=Pricing)

    def __post_init__(self) -> None:
        if not 1 <= self.timeout <= _LONGEST_SECONDS:
            raise UsageError(f"--timeout is {self.timeout:g}; it must be from 1 to {_LONGEST_SECONDS} seconds")
        if self.seed is not None and not _LEAST_SEED <= self.seed <= _MOST_SEED:
            raise UsageError(f"--seed is {self.seed}; it must be from {_LEAST_SEED} to {_MOST_SEED}")
        if self.resume is not None:
            self._require_nothing_planned()

    @property
    def chosen_seed(self) -> int:
        """The seed given, or a new one."""
        return self.seed if self.seed is not None else random.randrange(_MOST_SEED)

    def _require_nothing_planned(self) -> None:
        """Raise UsageError where ``resume`` is given with what the study's plan says already."""
        planned = {**self.subject, "seed": self.seed, "output_dir": self.output_dir}
        given = [f"--{name.replace('_', '-')}" for name, value in planned.items() if value is not None]
        given += [self.workload[0]] if self.workload else []
        if given:
            raise UsageError(f"{given[0]} is part of the plan of the study to resume; leave it out")
