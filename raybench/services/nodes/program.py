"""Programs of schedulers, each call within its time."""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace

from raybench.documents.node_actions import NodeAction
from raybench.errors import IncompleteRunError, UsageError

_LIMIT_SECONDS = 30.0
_MOST_SAID = 300
_LATE = "late"
_LOOK_SECONDS = 0.5
MOST_BYTES = 512 << 20  # kubectl prints some 20 KB a node


def is_there(program: str) -> bool:
    """Whether a program can be called here."""
    return shutil.which(program) is not None


def require(program: str, where: str) -> None:
    """Raises UsageError where a program is not here; ``where`` says on which machines it is."""
    if not is_there(program):
        raise UsageError(f"{program} is not on this machine: {where}; without --apply what would be done is printed")


def answer_of(words: Sequence[str], *, limit_seconds: float = _LIMIT_SECONDS) -> str:
    """What a program prints. Raises IncompleteRunError where it fails or does not end."""
    problem, said = _called(words, limit_seconds)
    if problem:
        raise IncompleteRunError(f"'{words[0]} {words[1]}' did not answer: {problem}")
    return said


def done_of(action: NodeAction) -> NodeAction:
    """The action with its commands called, one after the other; what follows one that failed is not called."""
    for words in action.commands:
        problem, _ = _called(words, _LIMIT_SECONDS)
        if problem:
            return replace(action, done=False, error=problem)
    return replace(action, done=True)


def _called(words: Sequence[str], limit_seconds: float) -> tuple[str, str]:
    """Why it failed, or nothing, and what it printed. One that does not end is killed with all that it started."""
    environment = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        )
    except OSError as error:
        return error.strerror or str(error), ""
    with process:
        try:
            problem, out, errors = _read(process, time.monotonic() + limit_seconds)
            problem = f"no answer within {limit_seconds:.0f} s" if problem == _LATE else problem
        except BaseException:
            _kill(process)
            raise
        if problem:
            _kill(process)
            return problem, ""
    said = " ".join((errors or out).split())[:_MOST_SAID]
    return (said or f"it ended with {process.returncode}") if process.returncode else "", out


def _read(process: subprocess.Popen[bytes], ends: float) -> tuple[str, str, str]:
    """What is wrong, or nothing, and both outputs once it has ended."""
    pieces = {stream.fileno(): bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
    out, errors = pieces.values()
    with selectors.DefaultSelector() as ready:
        for stream in pieces:
            ready.register(stream, selectors.EVENT_READ)
        while ready.get_map():
            found = ready.select(min(_LOOK_SECONDS, max(0.0, ends - time.monotonic())))
            if time.monotonic() >= ends:
                return _LATE, "", ""
            if not found and process.poll() is not None:
                break  # what it left behind has its outputs
            for key, _ in found:
                piece = os.read(key.fd, 1 << 16)
                pieces[key.fd] += piece
                if not piece:
                    ready.unregister(key.fd)
            if len(out) + len(errors) > MOST_BYTES:
                return f"it printed more than {MOST_BYTES >> 20} MiB", "", ""
    try:
        process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return _LATE, "", ""
    return "", out.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
