"""The command after ``--``: kept apart from the launcher's options, and checked before anything is submitted."""

import importlib
from collections.abc import Sequence
from typing import Any

import click

from raybench.cli.usage.command import TopicCommand


class LaunchCommand(TopicCommand):
    """A command that hands all after ``--`` on."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows ``--`` apart."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["raybench.words"] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


def launched_words(context: click.Context, *, own_folder: bool = False) -> tuple[str, ...]:
    """The command after ``--``. Raises UsageError of click's or ours where it would refuse its options itself."""
    from raybench.services.launching.slurm import check_words

    words: tuple[str, ...] = context.meta["raybench.words"]
    check_words(words, own_folder=own_folder)
    check_options(words)
    return words


def check_options(words: Sequence[str]) -> None:
    """Parse the command as it will be; nothing of it is run."""
    from raybench.cli import COMMANDS
    from raybench.cli.cluster_options import given
    from raybench.config import load_config

    command: click.Command = importlib.import_module(COMMANDS[words[0]][0]).command
    rest = list(words[1:])
    if isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            raise click.UsageError(f"there is no study '{name}'")
        command = found
    parsed = command.make_context(f"raybench {words[0]}", rest)
    if words[0] == "run":
        options: dict[str, Any] = dict(parsed.params)
        for name in ("as_json", "full", "quiet", "dry_run"):
            options.pop(name)
        load_config(options.pop("config_file"), given(options))
