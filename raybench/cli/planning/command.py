"""The class of ``estimate`` and ``plan``: dropout is a flag, and is taken as the rate that training programs take."""

import click

from raybench.cli.usage.command import TopicCommand
from raybench.errors import UsageError

# Megatron-LM's --hidden-dropout and peft's lora_dropout are rates; masks are kept alike whatever the rate.
_RATED = ("--dropout", "--lora-dropout")


class PlanningCommand(TopicCommand):
    """A command with its options in topics, of which those of dropout may be followed by a rate."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``--dropout 0.1`` is ``--dropout``, ``--dropout 0`` is ``--no-dropout``."""
        return super().parse_args(ctx, _without_rates(args))


def _without_rates(words: list[str]) -> list[str]:
    """The words with a flag for each rate, up to ``--``. Raises UsageError for a number that is no rate."""
    end = words.index("--") if "--" in words else len(words)
    found, rest = [], list(words[:end])
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in _RATED or (equals and not _is_number(value)):
            found.append(f"{name}{equals}{value}")
            continue
        if not equals and rest and _is_number(rest[0]):
            value = rest.pop(0)
        found.append(_flag(name, value) if value else name)
    return [*found, *words[end:]]


def _is_number(word: str) -> bool:
    """``0.1``, ``1e-1``, ``.1``: as Python reads what training programs are given."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _flag(name: str, rate: str) -> str:
    if not 0 <= float(rate) < 1:  # not a number is neither
        raise UsageError(f"{name} is {rate}; as a rate it is at least 0 and less than 1")
    return name if float(rate) else name.replace("--", "--no-", 1)
