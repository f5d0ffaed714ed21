"""``raybench agent``: watch this node while something runs on it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing, say
from raybench.cli.usage.command import TopicCommand
from raybench.reports.text import printable
from raybench.services.agent import DEFAULT_INTERVAL_SECONDS, DEFAULT_MAX_BYTES

if TYPE_CHECKING:
    from raybench.services.agent import NodeWarning, SourceState

_PRIORITIES = {"critical": 2, "warning": 4, "info": 6}  # of the journal, sd-daemon(3)
_SHOWN = 4  # series of a warning

EXAMPLES = """\b
Examples:
  raybench agent                                     this node, until Ctrl-C
  raybench agent --log '/scratch/job/nccl.*.log'     and the NCCL logs of a job, as they grow
  raybench agent --pid 4711 --pid 4712               and its ranks: leaks, who takes their processors
  raybench agent --folder /scratch -o samples.jsonl  warn before a disk is full, and keep the samples
  raybench agent --once                              a few readings, and the exit code
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.option(
    "--interval",
    type=float,
    default=DEFAULT_INTERVAL_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Between two readings.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="GLOB",
    help="NCCL logs to follow: a file, a folder or a glob; may come later.",
)
@click.option("--pid", "pids", type=int, multiple=True, help="The process of a rank; may be repeated.")
@click.option(
    "--folder",
    "folders",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    help="Warn before its file system is full; may be repeated.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep samples and warnings in a file, as JSON lines; the older half is FILE.1.",
)
@click.option(
    "--max-bytes", type=int, default=DEFAULT_MAX_BYTES, show_default=True, help="Of both files of --output together."
)
@click.option("--once", is_flag=True, help="Read a few times and end.")
@click.option("--json", "as_json", is_flag=True, help="Write every message as a line of JSON, samples too.")
def command(  # noqa: PLR0917 - one parameter an option
    interval: float,
    logs: tuple[str, ...],
    pids: tuple[int, ...],
    folders: tuple[Path, ...],
    output: Path | None,
    max_bytes: int,
    once: bool,
    as_json: bool,
) -> None:
    """Watch this node while something runs on it, and warn of what is wrong as it happens.

    Samples RDMA ports, NICs, GPUs, processors, memory, disks and the kernel's log each second; `raybench diagnose
    --list-rules` has what it warns of. For jobs that raybench did not start: `raybench run` brings its own. Of a rank
    it is told by --pid, of a job's NCCL logs by --log.

    \b
    Exit codes: 0 nothing to warn of, 1 a warning, 2 invalid usage, 3 nothing could be sampled, or not kept as asked.
    """  # noqa: D301 - \b is click's
    from raybench.services.agent import NodeOptions, sample_node

    announce("sampling this node; Ctrl-C ends it", quiet=as_json or once)
    finished = sample_node(
        NodeOptions(
            interval_seconds=interval,
            logs=logs,
            pids=pids,
            folders=tuple(folder.absolute() for folder in folders),
            output=output,
            max_bytes=max_bytes,
            once=once,
            stand_back=True,
        ),
        on_warning=(lambda _: None) if as_json else _show,
        on_sources=(lambda _: None) if as_json else _Sources().show,
        on_line=_print_message if as_json else None,
        on_remark=lambda remark: say(f"raybench: {remark}"),
    )
    if once and not as_json:
        told = f"{finished.warnings or 'no'} warning{'' if finished.warnings == 1 else 's'}"
        _print(f"{told} in {finished.seconds:.0f} s; what takes longer to show is not judged by --once")
    sys.exit(finished.exit_code)


class _Sources:
    """Says which sources are read, and from then on what changes."""

    def __init__(self) -> None:
        self._said: dict[str, SourceState] = {}

    def show(self, sources: "Sequence[SourceState]") -> None:
        new = [source for source in sources if self._said.get(source.name) != source]
        self._said.update({source.name: source for source in new})
        read = [source.name for source in new if source.available]
        if read:
            _print_as("info", f"sampled: {', '.join(read)}")
        for source in new:
            if not source.available:
                _print_as("info", f"not sampled: {source.name}: {source.reason}")


def _show(warning: "NodeWarning") -> None:
    finding = warning.finding
    time = "" if _in_journal() else f"{warning.at.astimezone():%H:%M:%S} "
    since = f", for {warning.lasting_seconds:.0f} s" if warning.lasting_seconds >= 1 else ""
    _print_as(finding.severity, f"{time}{finding.severity}: {finding.summary}{since} [{finding.rule}]")
    if finding.explanation:
        _print_as(finding.severity, f"  {finding.explanation}")
    for shown in warning.shown_by[:_SHOWN]:
        _print_as(finding.severity, f"  shown by {shown}")
    for advice in finding.recommendations[:1]:
        _print_as(finding.severity, f"  what to do: {advice.text}")


def _print_as(severity: str, text: str) -> None:
    """One line; in the journal with its priority."""
    _print(f"<{_PRIORITIES[severity]}>{text}" if _in_journal() else text)


def _in_journal() -> bool:
    """Whether standard output is the journal's: systemd says so, and a terminal is none."""
    return "JOURNAL_STREAM" in os.environ and not sys.stdout.isatty()


def _print(text: str) -> bool:
    """Returns whether it could be written."""
    written = False
    with printing("stdout"):
        click.echo(printable(text))
        sys.stdout.flush()
        written = True
    return written  # noqa: RET504 - `printing` keeps back what a stream raises


def _print_message(text: str) -> None:
    """A line of JSON, as long as somebody reads them: ``| head`` ends the command as Ctrl-C does."""
    if not _print(text):
        raise KeyboardInterrupt
