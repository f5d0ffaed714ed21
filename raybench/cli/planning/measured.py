"""``--measured``: trainings that somebody ran, written as options of ``raybench estimate``."""

import math
import re
import shlex
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.services.estimating.own_runs import MeasuredRun

MEASURED_OPTION: Any = click.option(
    "--measured", metavar="TEXT", multiple=True,
    help="A training of yours that took so long, repeatable: options of estimate in which it is not as asked, and "
    "took=SECONDS of a step, tokens-per-second=N of all ranks or tokens-per-second-per-rank=N, such as "
    "'--world-size 8 took=2.31'. It moves the step's bounds, and makes them the narrower the more it is like this one.",
)  # fmt: skip
_FIELDS = {
    "took": "step_seconds",
    "tokens-per-second": "tokens_per_second",
    "tokens-per-second-per-rank": "tokens_per_second_per_rank",
}
# Of a training that was run: what is read and written by the command is none of it.
_NONE_OF_IT = ("as_json", "full", "measured", "result_file", "efficiency", "price", "prices", "currency", "help")
_NUMBER = re.compile(r"(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?(e[-+]?\d+)?s?", re.IGNORECASE | re.ASCII)


def measured_runs(texts: tuple[str, ...], estimate: click.Command) -> "tuple[MeasuredRun, ...]":
    """Each text as a run, with options of ``raybench estimate``. Raises UsageError for one that is not."""
    return tuple(_measured_run(text, estimate) for text in texts)


def _measured_run(text: str, estimate: click.Command) -> "MeasuredRun":
    from raybench.services.estimating.own_runs import MeasuredRun

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--measured '{text}': {error}") from None
    pairs = [word.split("=", 1) for word in words if word.partition("=")[0] in _FIELDS]
    if len(pairs) != 1:
        raise UsageError(
            f"--measured '{text}' needs one figure: took=SECONDS of a step, tokens-per-second=N of all ranks, or "
            "tokens-per-second-per-rank=N"
        )
    rest = [word for word in words if word.partition("=")[0] not in _FIELDS]
    (name, value), given = pairs[0], _given(text, rest, estimate)
    figure = {_FIELDS[name]: _figure(text, name, value)}
    return MeasuredRun(text=text, given=given, **figure)


def _figure(text: str, name: str, value: str) -> float:
    try:
        figure = float(value.replace(",", "").removesuffix("s")) if _NUMBER.fullmatch(value) else math.nan
    except ValueError:
        figure = math.nan
    if not 0 < figure < math.inf:
        raise UsageError(f"--measured '{text}': {name} is '{value}'; write a number above 0, such as {name}=2.31")
    return figure


def _given(text: str, words: list[str], estimate: click.Command) -> tuple[tuple[str, Any], ...]:
    """Options of ``raybench estimate`` that are among the words."""
    if "--help" in words or "--help-all" in words:
        raise UsageError(f"--measured '{text}': it has options of raybench estimate, of which --help is none")
    try:
        context = estimate.make_context("estimate", list(words))
    except click.UsageError as error:
        raise UsageError(f"--measured '{text}': {error.format_message()}") from None
    given = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    strange = sorted(given.keys() & set(_NONE_OF_IT))
    if strange:
        option = "json" if strange[0] == "as_json" else strange[0].removesuffix("_file").replace("_", "-")
        raise UsageError(f"--measured '{text}': --{option} is nothing that a training is run with; leave it out")
    return tuple(sorted(given.items()))
