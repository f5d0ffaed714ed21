"""What every study takes on the command line, and how its workload's options are told from its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.planning.plan import duration_of
from raybench.cli.usage.command import TopicCommand

if TYPE_CHECKING:
    from raybench.documents.study.plan import Kind
    from raybench.services.study_options import StudyOptions

PRICE_OPTIONS: list[Any] = [
    click.option("--price", type=float, metavar="P", help="Of a node for an hour: adds costs."),
    click.option("--currency", default="USD", show_default=True, help="Of --price."),
    click.option("--node-type", metavar="NAME", help="Take the list price of a machine, such as p5.48xlarge."),
    click.option("--prices", metavar="FILE", help="CSV with name,usd_per_node_hour,date,source in place of the list "
                 "prices, for --node-type."),
    click.option("--epoch-samples", type=int, metavar="N", help="Samples of an epoch, for its time and cost.  "
                 "[default: 10000]"),
    click.option("--deadline", "deadline_seconds", callback=duration_of, metavar="TIME", help="Of study scaling, for "
                 "--epoch-samples: 90m, 48h, 30d; says how many nodes reach it."),
    click.option("--budget", type=click.FloatRange(0, min_open=True), metavar="P", help="Of study scaling, for "
                 "--epoch-samples, in the price's currency."),
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
class PrintOptions:
    """How a study is shown."""

    as_json: bool
    full: bool
    quiet: bool


class WorkloadCommand(TopicCommand):
    """A command that hands what it does not know, and all after ``--``, on to another one."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings["context_settings"] = {"ignore_unknown_options": True}
        super().__init__(*arguments, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows ``--`` apart."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["raybench.after"] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


def study_command(
    kind: "Kind", *options: Any, epilog: str
) -> Callable[[Callable[["StudyOptions", "PrintOptions"], None]], click.Command]:
    """Decorate ``function(options, printing)``: the options of this kind, then those of every study."""

    def decorate(function: Callable[["StudyOptions", "PrintOptions"], None]) -> click.Command:
        @click.pass_context
        def call(context: click.Context, /, workload: tuple[str, ...], **given: Any) -> None:
            from raybench.services.study_options import Pricing, StudyOptions

            shown = PrintOptions(**{field.name: given.pop(field.name) for field in fields(PrintOptions)})
            pricing = Pricing(**{field.name: given.pop(field.name) for field in fields(Pricing)})
            common = {name: given.pop(name) for name in ("repeats", "seed", "output_dir", "resume", "timeout")}
            whole = workload_of(workload, context.meta["raybench.after"])
            function(StudyOptions(kind=kind, subject=given, workload=whole, pricing=pricing, **common), shown)

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
    from raybench.services.study_options import WORKLOADS

    if after and after[0] in WORKLOADS:
        return (after[0], *unknown, *after[1:])
    return (*unknown, *after)
