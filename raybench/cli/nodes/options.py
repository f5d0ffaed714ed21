"""What the commands of ``raybench nodes`` have alike."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raybench.cli.output import printing, say
from raybench.reports.text import printable

if TYPE_CHECKING:
    from raybench.documents.node_actions import NodeAction, NodeActions

Function = TypeVar("Function", bound=Callable[..., Any])

REPORT = click.argument("report", metavar="PREFLIGHT", type=click.Path(path_type=Path))

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file to put in place.  [default: print it]",
)
_ACT = [
    click.option(
        "--apply", is_flag=True, help="Do it. Without, what would be done is printed, and nothing is changed."
    ),
    click.option(
        "--most-drained",
        default="10%",
        show_default=True,
        metavar="N|P%",
        help="How many nodes raybench may have drained at a time, or what share of all. Beyond it none is.",
    ),
    click.option("--force", is_flag=True, help="Drain however many there are."),
    click.option("--resume-degraded", is_flag=True, help="Resume nodes that are degraded, too, and not healthy alone."),
    click.option(
        "--by-hostname",
        is_flag=True,
        help="Where the scheduler has no node of a host's name or address, believe the host which node it is.",
    ),
]
MAX_AGE = click.option(
    "--max-age",
    "max_age_minutes",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="MIN",
    help="Apply no report that is older, in minutes.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print what is done with each node as JSON.")


def names_of(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Names of comma lists."""
    return tuple(filter(None, (name.strip() for name in ",".join(texts).split(","))))


def acting(function: Function) -> Function:
    """The options of a command that tells a scheduler something."""
    for option in reversed(_ACT):
        function = option(function)
    return function


def print_text(text: str) -> None:
    """A file's text on standard output."""
    with printing("stdout"):
        click.echo(text, nl=False)


def show_actions(actions: "NodeActions", *, as_json: bool) -> None:
    """Print what is, or would be, done; the commands of a dry run can be pasted."""
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(actions.to_json(), indent=1))
        else:
            click.echo("\n".join(printable(line) for line in action_lines(actions)))
    if actions.refused:
        say(f"raybench: nothing is changed: {actions.refused}")


def action_lines(actions: "NodeActions") -> list[str]:
    """A comment and its commands for each node that something is done with, then the others, then what it was."""
    lines: list[str] = []
    for one in sorted(actions.actions, key=lambda one: one.step == "none"):
        told = f" failed: {one.error}" if one.done is False else " done" if one.done else ""
        lines.append(f"# {one.node or one.host}: {one.state}, {one.step}{told}: {one.why}")
        lines += [f"{'#   ' if actions.applied or actions.refused else ''}{_shell(words)}" for words in one.commands]
    return [*lines, f"# {_in_short(actions)}"]


def _in_short(actions: "NodeActions") -> str:
    counts = {step: sum(_is(one, step) for one in actions.actions) for step in ("drain", "resume")}
    unknown = sum(one.state == "unknown" for one in actions.actions)
    verb = "applied" if actions.applied else "refused" if actions.refused else "dry run, nothing was changed"
    unchecked = f"; names and states are not checked: {actions.unchecked}" if actions.unchecked else ""
    return (
        f"{verb}: {counts['drain']} to drain, {counts['resume']} to resume, {unknown} unknown and left as they are"
        f"{unchecked}"
    )


def _is(one: "NodeAction", step: str) -> bool:
    return one.step == step


def _shell(words: tuple[str, ...]) -> str:
    import shlex

    return shlex.join(words)


def end(actions: "NodeActions") -> None:
    """End with the code of what was done."""
    sys.exit(actions.exit_code)
