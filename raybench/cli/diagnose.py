"""``raybench diagnose``: what an NCCL log proves, why, and what to do."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing, say
from raybench.errors import UsageError
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from diagnostics.findings import Diagnosis, Finding
    from diagnostics.redaction import Redactor

FORMATS = ("text", "json", "sarif", "junit", "markdown", "html")


EXAMPLES = """\b
Examples:
  raybench diagnose nccl_debug.log
  raybench diagnose runs/*/logs --format json
  kubectl logs worker-0 | raybench diagnose -
  raybench diagnose 'logs/rank*.log' --redact --format markdown -o ticket.md
  raybench diagnose --explain gdr-missing
"""


@click.command(epilog=EXAMPLES)
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
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    paths: tuple[str, ...],
    output_format: str,
    fail_on: str,
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
    diagnosis = _diagnose(paths)
    redactor = _redactor() if redact else None
    text = _rendered(diagnosis, output_format, redactor, color=_wants_color(output))
    if junit is not None:
        _replace(junit, _rendered(diagnosis, "junit", redactor), option="--junit")
    if output is None:
        with printing("stdout"):
            click.echo(text, nl=False)
    else:
        _replace(output, text)
    sys.exit(_ended(diagnosis, fail_on))


def _diagnose(paths: tuple[str, ...]) -> "Diagnosis":
    from diagnostics.engine import diagnose_paths  # not needed for --help
    from diagnostics.errors import UnreadableInputError

    announce(f"reading {_named(paths)}")
    try:
        return diagnose_paths(paths)
    except UnreadableInputError as error:
        raise UsageError(str(error)) from error


def _named(paths: tuple[str, ...]) -> str:
    """What is read, on one line."""
    if len(paths) > 1:
        return f"{paths[0]} and {len(paths) - 1} more"
    return "standard input" if paths[0] == "-" else paths[0]


def _ended(diagnosis: "Diagnosis", fail_on: str) -> int:
    """The exit code. Raises UsageError where there was nothing to judge."""
    if diagnosis.empty:
        raise UsageError(f"nothing to judge: {diagnosis.explanation}")
    return _exit_code(diagnosis, fail_on)


def _redactor() -> "Redactor":
    from diagnostics.redaction import Redactor

    return Redactor()


def _rendered(diagnosis: "Diagnosis", output_format: str, redactor: "Redactor | None", *, color: bool = False) -> str:
    from diagnostics.output import render

    if redactor is not None:
        from diagnostics.redaction import redact_diagnosis

        diagnosis = redact_diagnosis(diagnosis, redactor)
    return render(diagnosis, output_format, color=color)


def _exit_code(diagnosis: "Diagnosis", fail_on: str) -> int:
    """1 for a finding that is severe enough, 3 where the logs do not tell or were not read to their end, else 0."""
    failing = {"critical": ("critical",), "warning": ("critical", "warning"), "never": ()}[fail_on]
    if any(finding.severity in failing for finding in diagnosis.findings):
        return 1
    unknown = any(job.verdict == "unknown" for job in diagnosis.jobs or (diagnosis,))
    return 3 if diagnosis.notes or unknown else 0


def _follow(paths: tuple[str, ...], output_format: str, fail_on: str, redact: bool, output: Path | None) -> int:
    """Without a file, findings as text or as one JSON object a line; with one, the whole diagnosis in it as well."""
    from diagnostics.follow import follow
    from diagnostics.output import report_news, report_verdict

    if "-" in paths:
        raise click.UsageError("--follow reads files, not standard input")
    if output is None and output_format not in ("text", "json"):
        raise click.UsageError(
            f"--follow writes {output_format} to a file only: add -o FILE, which is written again with each new finding"
        )

    redactor = _redactor() if redact else None  # one for all reports: a stand-in keeps its meaning

    def report(diagnosis: "Diagnosis", new: "Sequence[Finding]") -> None:
        report_news(diagnosis, new, click.echo, output_format if output is None else "text", redactor=redactor)
        if output is not None:
            _replace(output, _rendered(diagnosis, output_format, redactor))

    diagnosis = follow(paths, report, waiting=lambda: say(f"raybench: waiting for {' '.join(paths)}; Ctrl-C ends it"))
    if output is not None:
        _replace(output, _rendered(diagnosis, output_format, redactor))
    with printing("stdout"):
        report_verdict(diagnosis, click.echo, output_format if output is None else "text", redactor=redactor)
    return _ended(diagnosis, fail_on)


def _replace(output: Path, text: str, option: str = "-o") -> None:
    """Write a file so that a reader sees the old or the new one, never a part. Raises UsageError."""
    try:
        write_whole(output, text)
    except OSError as error:
        raise UsageError(f"cannot write '{output}': {error.strerror}; choose another file with {option}") from error


def _print_pages(explain: str | None) -> None:
    from diagnostics.errors import UnknownRuleError
    from diagnostics.pages import page, rule_list

    try:
        text = page(explain) if explain else rule_list()
    except UnknownRuleError as error:
        raise UsageError(str(error)) from error
    with printing("stdout"):
        click.echo(text, nl=False)


def _wants_color(output: Path | None) -> bool:
    """Colours only on a terminal, and not where NO_COLOR asks for none."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
