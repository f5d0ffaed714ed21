"""What every study takes on the command line, and how its workload's options are told from its own."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.performance_model.cost import Price

WORKLOADS = ("train", "run")
_LEAST_SEED, _MOST_SEED = 0, 2**31 - 1
_LONGEST_SECONDS = 100 * 86400

PRICE_OPTIONS: list[Any] = [
    click.option("--price", type=float, metavar="P", help="Of a node for an hour: adds costs."),
    click.option("--currency", default="USD", show_default=True, help="Of --price."),
    click.option("--node-type", metavar="NAME", help="Take the list price of a machine, such as p5.48xlarge."),
    click.option("--prices", metavar="FILE", help="CSV with name,usd_per_node_hour,date,source in place of the list "
                 "prices, for --node-type."),
    click.option("--epoch-samples", type=int, metavar="N", help="Samples of an epoch, for its time and cost.  "
                 "[default: 10000]"),
]  # fmt: skip
_OPTIONS: list[Any] = [
    click.option("--repeats", type=int, metavar="R", help="Blocks: each has every variant once.  [default: 5]"),
    click.option("--seed", type=int, metavar="N", help="Of the order of the variants.  [default: a new one, recorded]"),
    click.option("--output-dir", metavar="DIR", help="Where the study's folder is made.  [default: studies]"),
    click.option("--resume", metavar="DIR", help="Go on with the study in this folder: only what is not complete is "
                 "done; a larger --repeats makes it longer."),
    click.option("--timeout", type=float, default=3600.0, show_default=True, metavar="S",
                 help="Time limit of one trial, seconds."),
    *PRICE_OPTIONS,
    click.option("--json", "as_json", is_flag=True, help="Print study.json on standard output instead of tables."),
    click.option("--full", is_flag=True, help="Print every table; they are in the report in any case."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """What a node costs and how long an epoch is, as given on the command line. None: not given."""

    price: float | None
    currency: str
    node_type: str | None
    prices: str | None
    epoch_samples: int | None

    def __post_init__(self) -> None:
        if self.epoch_samples is not None and self.epoch_samples < 1:
            raise UsageError(f"--epoch-samples is {self.epoch_samples}; it must be at least 1")
        if self.prices is not None and self.node_type is None:
            raise UsageError("--prices needs --node-type: the name of a line in it")

    def price_of_node(self) -> "Price | None":
        """The price, given or listed; None where neither was asked for. Raises UsageError for an unknown machine."""
        from raybench.performance_model.cost import Price, list_price

        if self.price is not None:
            return Price(per_node_hour=self.price, source="given", currency=self.currency)
        if self.node_type is None:
            return None
        listed = list_price(self.node_type, _table(self.prices))
        if listed is None:
            raise UsageError(f"there is no list price of '{self.node_type}'; give --price, of a node for an hour")
        return listed


def _table(path: str | None) -> str | None:
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prices {path} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """The options that are the same for every study. None: not given."""

    repeats: int | None
    seed: int | None
    output_dir: str | None
    resume: str | None
    timeout: float
    as_json: bool
    full: bool
    quiet: bool
    pricing: Pricing
    workload: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.timeout <= _LONGEST_SECONDS:
            raise UsageError(f"--timeout is {self.timeout:g}; it must be from 1 to {_LONGEST_SECONDS} seconds")
        if self.seed is not None and not _LEAST_SEED <= self.seed <= _MOST_SEED:
            raise UsageError(f"--seed is {self.seed}; it must be from {_LEAST_SEED} to {_MOST_SEED}")

    @property
    def chosen_seed(self) -> int:
        """The seed given, or a new one."""
        return self.seed if self.seed is not None else random.randrange(_MOST_SEED)

    def require_nothing_planned(self, options: Mapping[str, Any]) -> None:
        """Raise UsageError where ``--resume`` is given with what the study's plan says already."""
        planned = {**options, "seed": self.seed, "output_dir": self.output_dir}
        given = [f"--{name.replace('_', '-')}" for name, value in planned.items() if value is not None]
        given += [self.workload[0]] if self.workload else []
        if given:
            raise UsageError(f"{given[0]} is part of the plan of the study to resume; leave it out")


class WorkloadCommand(click.Command):
    """A command that hands what it does not know, and all after ``--``, on to another one."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings["context_settings"] = {"ignore_unknown_options": True}
        super().__init__(*arguments, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows ``--`` apart."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["raybench.after"] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


def study_command(kind: str, *options: Any, epilog: str) -> Callable[[Callable[..., None]], click.Command]:
    """Decorate ``function(options, **own)``: the study's own options, then those of every study."""

    def decorate(function: Callable[..., None]) -> click.Command:
        @click.pass_context
        def call(context: click.Context, /, workload: tuple[str, ...], **given: Any) -> None:
            names = ("repeats", "seed", "output_dir", "resume", "timeout", "as_json", "full", "quiet")
            common = {name: given.pop(name) for name in names}
            pricing = Pricing(**{field.name: given.pop(field.name) for field in fields(Pricing)})
            whole = workload_of(workload, context.meta["raybench.after"])
            function(StudyOptions(**common, pricing=pricing, workload=whole), **given)

        call.__doc__ = function.__doc__
        wrapped: Any = click.argument("workload", nargs=-1, type=click.UNPROCESSED, metavar="[-- WORKLOAD]")(call)
        for option in reversed((*options, *_OPTIONS)):
            wrapped = option(wrapped)
        line = (function.__doc__ or "").partition("\n")[0]
        command: click.Command = click.command(kind, cls=WorkloadCommand, epilog=epilog, short_help=line)(wrapped)
        return command

    return decorate


def workload_of(unknown: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """The workload's command: its name leads either part, or it is ``train``. Empty where nothing was given."""
    if after and after[0] in WORKLOADS:
        return (after[0], *unknown, *after[1:])
    return (*unknown, *after)


def names_of(text: str | None, option: str, default: str) -> list[str]:
    """The parts of a comma list, the default's where there is no text. Raises UsageError for an empty one."""
    parts = [part.strip() for part in (default if text is None else text).split(",")]
    if not all(parts):
        raise UsageError(f"{option} '{text}' has an empty part; separate names with one comma each")
    return parts


def numbers_of(text: str | None, option: str, default: str) -> list[int]:
    """Whole numbers of a comma list, the default's where there is no text. Raises UsageError for anything else."""
    parts = names_of(text, option, default)
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"{option} '{text}' is no list of whole numbers, such as 1,2,4,8")
    return [int(part) for part in parts]
