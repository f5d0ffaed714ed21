"""The classes of every command and group: their help is one screen, ``--help-all`` has the rest, options complete."""

import math
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from raybench.cli.output import printing
from raybench.cli.usage.example import example_lines
from raybench.cli.usage.page import WIDTH, screen, whole_page
from raybench.cli.usage.topic import current_names
from raybench.cli.usage.value import completing
from raybench.errors import UsageError


class TopicCommand(click.Command):
    """A command with its options in topics."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            completing(parameter)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                hidden=True,
                callback=_show_all,
                help="Print every option in full.",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what is no number where a range is given: none holds NaN out, since it compares with nothing."""
        rest = _parsed(super().parse_args, ctx, args)
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            ranged = isinstance(parameter.type, click.FloatRange)  # others are checked by what takes them
            if ranged and isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{parameter.opts[0]} is {value}; it must be a finite number")
        return rest

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One screen."""
        formatter.write("\n".join(screen(self, ctx)) + "\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of options; an old one is offered only where nothing else begins so."""
        found = super().shell_complete(ctx, incomplete)
        old: set[str] = set()
        for option in self.params:
            names = (*option.opts, *option.secondary_opts)
            old |= {*names} - {*current_names(names)}
        return [item for item in found if item.value not in old]


class TopicGroup(click.Group):
    """A group of such commands, with examples that fit on its screen."""

    command_class = TopicCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Words may ask for help, which is then printed."""
        return _parsed(super().parse_args, ctx, args)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, folded."""
        if self.epilog:
            formatter.write("\n" + "\n".join(example_lines(self.epilog, WIDTH)) + "\n")


def _parsed(
    parse: Callable[[click.Context, list[str]], list[str]], context: click.Context, args: list[str]
) -> list[str]:
    """What is left of the words. Help and the version, which they may ask for, are printed by click meanwhile."""
    with printing("stdout"):
        return parse(context, args)
    raise click.exceptions.Exit(0)


def whole_help(command: click.Command, context: click.Context) -> str:
    """What ``--help-all`` prints; of a group its help."""
    return "\n".join(whole_page(command, context)) if isinstance(command, TopicCommand) else command.get_help(context)


def _show_all(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(whole_help(context.command, context))
        context.exit()
