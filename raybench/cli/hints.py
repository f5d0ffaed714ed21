"""What to add to click's own messages, so that a wrong word says where it belongs or what was meant."""

from collections.abc import Iterator, Sequence

import click

from raybench.errors import nearest

_MOST_GUESSES = 3


def explained(error: click.ClickException, arguments: Sequence[str]) -> click.ClickException:
    """The error with what to type instead, where that can be told. ``arguments`` are those of the command line."""
    if isinstance(error, click.NoSuchOption):
        hint = _meant_option(error) or _misplaced(error, arguments)
    elif isinstance(error, click.UsageError) and error.message.startswith("No such command"):
        return _unknown_command(error)
    elif isinstance(error, click.BadParameter):
        hint = _meant_choice(error, arguments)
    elif isinstance(error, click.UsageError) and "unexpected extra argument" in error.message:
        hint = _without_option(error)
    else:
        hint = ""
    if not hint:
        return error
    said = error.message if isinstance(error, click.NoSuchOption) else error.format_message()
    return click.UsageError(f"{said.rstrip('.')}. {hint}", getattr(error, "ctx", None))


def _meant_option(error: click.NoSuchOption) -> str:
    """Of a group, which click has no word on, and of a short option: the one in another case, or that it begins."""
    context, name = error.ctx, error.option_name
    if context is None or (name.startswith("--") and not isinstance(context.command, click.Group)):
        return ""
    if name.startswith("--"):
        near = nearest(name, _options_of(context, "--"))[:1]
    else:
        letter = name.removeprefix("-")[:1].lower()
        near = [one for one in _options_of(context, "-") if one.lstrip("-")[:1].lower() == letter][:_MOST_GUESSES]
    return f"Did you mean {' or '.join(near)}?" if near else ""


def _misplaced(error: click.NoSuchOption, arguments: Sequence[str]) -> str:
    """An option before its command: ``raybench --nodes 2 run``, ``raybench cluster -i hosts.yml up``."""
    context = error.ctx
    if context is None or not isinstance(context.command, click.Group):
        return ""
    names = context.command.list_commands(context)
    command = next((word for word in arguments if word in names and word != context.info_name), "COMMAND")
    return f"Options of a command stand after it: {context.command_path} {command} {error.option_name} ..."


def _options_of(context: click.Context, prefix: str) -> Iterator[str]:
    """The options of a command itself that begin so."""
    for parameter in context.command.get_params(context):
        if isinstance(parameter, click.Option):
            yield from (name for name in parameter.opts if name.startswith(prefix))


def _meant_choice(error: click.BadParameter, arguments: Sequence[str]) -> str:
    kind = error.param.type if error.param is not None else None
    if not isinstance(kind, click.Choice):
        return ""
    choices = [str(choice) for choice in kind.choices]
    words = [word.rpartition("=")[2] for word in arguments]
    wrong = next((word for word in words if repr(word) in error.message and word not in choices), "")
    near = nearest(wrong, choices)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _without_option(error: click.UsageError) -> str:
    """A value without its option: ``raybench run 2``. A command that takes arguments shows them in its usage."""
    context = error.ctx
    if context is None or any(isinstance(parameter, click.Argument) for parameter in context.command.params):
        return ""
    valued = (one for one in context.command.params if isinstance(one, click.Option) and not one.is_flag)
    examples = [f"{option.opts[0]} {option.make_metavar(context)}" for option in valued]
    return f"Values of '{context.command_path}' follow an option, such as {examples[0]}" if examples else ""


def _unknown_command(error: click.UsageError) -> click.ClickException:
    """The error with what may have been meant, and with all commands that there are."""
    context = error.ctx
    if context is None or not isinstance(context.command, click.Group):
        return error
    known, name = context.command.list_commands(context), error.message.split("'")[1]
    near = nearest(name, [*known, *(("help", "version") if context.parent is None else ())])
    meant = "--version" if near[:1] == ["version"] else "".join(near[:1])
    guess = f"Did you mean '{context.command_path} {meant}'? Commands" if meant else "Commands"
    return click.UsageError(f"No such command '{name}'. {guess}: {', '.join(known)}.", context)
