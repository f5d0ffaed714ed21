"""Printing to streams that may be closed, full or gone: no traceback, and 0 only where what was asked for is had.

A reader that has enough (``| head``) and a stream that the shell closed change no exit code; what could not be written
and is in no file either does (:func:`is_output_lost`).
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal

import click


def open_closed_streams() -> None:
    """Put /dev/null where the shell closed a stream (``>&-``).

    Its number would go to the next file that is opened, and whatever prints there, as Ray's own code does, would write
    into that file.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = _devnull("r" if name == "stdin" else "w")
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


_lost = threading.Event()  # standard output could not be written, and what it was to hold is nowhere else


@contextlib.contextmanager
def printing(name: Literal["stdout", "stderr"], *, is_kept: bool = False) -> Iterator[None]:
    """Print to the stream within; when it cannot be written, the rest goes to /dev/null, and the program goes on.

    At the end the stream is flushed, so that the interpreter, which ends with 120 when it cannot, has nothing to flush.
    ``is_kept``: what is printed is in files too, so that nothing is lost without it.
    """
    try:
        yield
        stream: IO[str] | None = getattr(sys, name)
        if stream is not None:
            stream.flush()
    except BrokenPipeError:  # `| head`: the reader has what it wants
        _silence(name)
    except OSError as error:
        _silence(name)
        if name == "stdout":
            say(f"raybench: standard output cannot be written: {error.strerror}")
            if not is_kept:
                _lost.set()
    except SystemExit:  # what rich makes of a broken pipe
        _silence(name)


def is_output_lost() -> bool:
    """Whether something that is in no file could not be written to standard output either."""
    return _lost.is_set()


def say(text: str) -> None:
    """Text on standard error, if it can be had. Names and reasons in it may be anybody's: nothing moves a cursor."""
    from raybench.reports.text import printable

    with printing("stderr"):
        click.echo("\n".join(map(printable, text.split("\n"))), err=True)


def echo_json(content: Mapping[str, Any]) -> None:
    """A document on standard output, as its file has it."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def announce(text: str, *, quiet: bool = False) -> None:
    """What begins now, on a terminal: whoever sits there hears of it before anything slow is imported or reached."""
    if not quiet and sys.stderr.isatty():
        say(f"raybench: {text} ...")


def deliver(text: str, output: Path | None) -> None:
    """A rendered document on standard output, or in the file of --output. Raises UsageError where it cannot be."""
    from raybench.errors import UsageError
    from raybench.whole_file import write_whole

    if output is None:
        with printing("stdout"):
            click.echo(text, nl=False)
        return
    try:
        write_whole(output, text)
    except OSError as error:
        raise UsageError(f"--output {output} cannot be written: {error.strerror or error}") from error


def _silence(name: Literal["stdout", "stderr"]) -> None:
    """Point the stream at /dev/null: its number where it has one, so that what it still holds can be flushed."""
    devnull = _devnull("w")
    try:
        os.dup2(devnull.fileno(), getattr(sys, name).fileno())
    except (OSError, ValueError, AttributeError):
        setattr(sys, name, devnull)
    else:
        devnull.close()


def _devnull(mode: Literal["r", "w"]) -> IO[str]:
    return Path(os.devnull).open(mode, encoding="utf-8")
