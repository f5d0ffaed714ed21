"""``raybench diagnose``: what an NCCL log proves, why, and what to do."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from diagnostics.output import FORMATS
from raybench.cli.output import announce, printing, say
from raybench.cli.usage.command import TopicCommand
from raybench.errors import UsageError
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from diagnostics.findings import Diagnosis
    from raybench.services.diagnose import FailOn, FinishedDiagnosis


EXAMPLES = """\b
Examples:
  raybench diagnose nccl_debug.log
  raybench diagnose runs/*/logs --format json
  kubectl logs worker-0 | raybench diagnose -
  raybench diagnose 'logs/rank*.log' --redact --format markdown -o ticket.md
  raybench diagnose --explain gdr-missing
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format."
)
@click.option(
    "--fail-on",
    type=click.Choice(["critical", "warning", "never"]),
    default="warning",
    show_default=True,
    help="Exit with 1 when a finding is at least this severe.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Replace names of hosts, users, files and jobs, addresses and paths, the same way throughout.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write JUnit XML for a CI service as well.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Wait for logs and keep reading them as they grow; report findings as they appear, with -o in a file too. "
    "Ctrl-C ends it with the verdict.",
)
@click.option(
    "--explain",
    metavar="RULE",
    is_flag=False,
    flag_value="",
    help="Print the page of one rule and stop; without a rule, list them.",
)
@click.option("--list-rules", is_flag=True, help="List the rules and stop.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead of the terminal."
)
def command(  # noqa: PLR0917 - one parameter an option
    paths: tuple[str, ...],
    output_format: str,
    fail_on: "FailOn",
    redact: bool,
    junit: Path | None,
    follow: bool,
    explain: str | None,
    list_rules: bool,
    output: Path | None,
) -> None:
    """Say what NCCL or RCCL logs prove: RDMA or TCP, GPUDirect or not, what broke first, and what to do.

    PATH is a file, a folder, a glob or - for standard input; .gz, .xz, .bz2 and .zst are read as they are, and PyTorch
    flight-recorder dumps (nccl_trace_rank_*) beside them. Give all ranks' logs of a job in one call; of several jobs
    each gets its own verdict.

    \b
    Exit codes: 0 the logs show the job working; 1 a finding; 2 invalid usage, or nothing to judge in what was given;
    3 unknown: the logs do not show enough, or not all of them could be read.
    """  # noqa: D301 - \b is click's
    if explain is not None or list_rules:
        _print_pages(explain or None)
        return
    if not paths:
        raise click.UsageError("name at least one log: a file, a folder, a glob, or - for standard input")
    if follow:
        if junit is not None:
            raise click.UsageError("--junit is written when the logs are whole: leave out --follow")
        sys.exit(_follow(paths, output_format, fail_on, redact, output))
    announce(f"reading {_named(paths)}")
    from raybench.services.diagnose import diagnose  # not needed for --help

    finished = diagnose(paths, fail_on=fail_on, redact=redact)
    text = _rendered(finished.diagnosis, output_format, color=_wants_color(output))
    if junit is not None:
        _replace(junit, _rendered(finished.diagnosis, "junit"), option="--junit")
    if output is None:
        with printing("stdout"):
            click.echo(text, nl=False)
    else:
        _replace(output, text)
    sys.exit(_ended(finished))


def _named(paths: tuple[str, ...]) -> str:
    """What is read, on one line."""
    if len(paths) > 1:
        return f"{paths[0]} and {len(paths) - 1} more"
    return "standard input" if paths[0] == "-" else paths[0]


def _ended(finished: "FinishedDiagnosis") -> int:
    """The exit code. Raises UsageError where there was nothing to judge."""
    if finished.refusal:
        raise UsageError(finished.refusal)
    return finished.exit_code


def _rendered(diagnosis: "Diagnosis", output_format: str, *, color: bool = False) -> str:
    from diagnostics.output import render

    return render(diagnosis, output_format, color=color)


def _follow(paths: tuple[str, ...], output_format: str, fail_on: "FailOn", redact: bool, output: Path | None) -> int:
    """Without a file, findings as text or as one JSON object a line; with one, the whole diagnosis in it as well."""
    from diagnostics.output import report_news, report_verdict
    from raybench.services.diagnose import follow

    if output is None and output_format not in ("text", "json"):
        raise click.UsageError(
            f"--follow writes {output_format} to a file only: add -o FILE, which is written again with each new finding"
        )
    said_as = output_format if output is None else "text"

    def report(news: "Diagnosis", whole: "Diagnosis") -> None:
        report_news(news, click.echo, said_as)
        if output is not None:
            _replace(output, _rendered(whole, output_format))

    finished = follow(
        paths,
        report,
        waiting=lambda: say(f"raybench: waiting for {' '.join(paths)}; Ctrl-C ends it"),
        fail_on=fail_on,
        redact=redact,
    )
    if output is not None:
        _replace(output, _rendered(finished.diagnosis, output_format))
    with printing("stdout"):
        report_verdict(finished.diagnosis, click.echo, said_as)
    return _ended(finished)


def _replace(output: Path, text: str, option: str = "-o") -> None:
    """Write a file so that a reader sees the old or the new one, never a part. Raises UsageError."""
    try:
        write_whole(output, text)
    except OSError as error:
        raise UsageError(f"cannot write '{output}': {error.strerror}; choose another file with {option}") from error


def _print_pages(rule: str | None) -> None:
    from raybench.services.diagnose import rule_page

    text = rule_page(rule)
    with printing("stdout"):
        click.echo(text, nl=False)


def _wants_color(output: Path | None) -> bool:
    """Colours only on a terminal, and not where NO_COLOR asks for none."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
