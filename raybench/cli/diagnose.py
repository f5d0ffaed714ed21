"""``raybench diagnose``: what an NCCL log proves, why, and what to do."""

import sys
from pathlib import Path

import click

FORMATS = ("text", "json", "sarif", "markdown", "html")


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--format", "output_format", type=click.Choice(FORMATS), default="text", show_default=True, help="Output format.")
@click.option(
    "--fail-on",
    type=click.Choice(["critical", "warning", "never"]),
    default="warning",
    show_default=True,
    help="Exit with 1 when a finding is at least this severe.",
)
@click.option("--redact", is_flag=True, help="Replace host names and addresses, the same way throughout.")
@click.option("--follow", is_flag=True, help="Keep reading growing logs; report findings as they appear; stop with Ctrl-C.")
@click.option("--explain", metavar="RULE", help="Print the page of one rule and stop.")
@click.option("--list-rules", is_flag=True, help="List the rules and stop.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file instead of the terminal.")
def command(  # noqa: PLR0913 - one parameter an option
    paths: tuple[str, ...],
    output_format: str,
    fail_on: str,
    redact: bool,
    follow: bool,
    explain: str | None,
    list_rules: bool,
    output: Path | None,
) -> None:
    """Say what NCCL or RCCL logs prove: RDMA or TCP, GPUDirect or not, what broke first, and what to do.

    PATH is a file, a folder, a glob or - for standard input; .gz, .xz, .bz2 and .zst are read as they are, and PyTorch
    flight-recorder dumps (nccl_trace_rank_*) beside them. Give all ranks' logs of one job in one call.
    """
    if explain or list_rules:
        _print_pages(explain)
        return
    if not paths:
        raise click.UsageError("name at least one log: a file, a folder, a glob, or - for standard input")
    text, exit_code = _follow(paths, fail_on, redact) if follow else _diagnose(paths, output_format, fail_on, redact)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    elif text:
        click.echo(text, nl=not text.endswith("\n"))
    sys.exit(exit_code)


def _diagnose(paths: tuple[str, ...], output_format: str, fail_on: str, redact: bool) -> tuple[str, int]:
    from diagnostics.engine import diagnose_paths  # noqa: PLC0415 - not needed for --help
    from diagnostics.errors import UnreadableInputError  # noqa: PLC0415
    from diagnostics.output import render  # noqa: PLC0415
    from diagnostics.redaction import redact_diagnosis  # noqa: PLC0415

    try:
        diagnosis = diagnose_paths(paths)
    except UnreadableInputError as error:
        click.echo(f"raybench: {error}", err=True)
        sys.exit(2)
    diagnosis = redact_diagnosis(diagnosis) if redact else diagnosis
    return render(diagnosis, output_format), _exit_code(diagnosis, fail_on)
