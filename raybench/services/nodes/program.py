"""Programs of schedulers, each call within its time."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from raybench.documents.node_actions import NodeAction
from raybench.errors import IncompleteRunError, UsageError

_LIMIT_SECONDS = 30.0
_MOST_SAID = 300


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
    """Why it failed, or nothing, and what it printed."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"},
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_seconds:.0f} s", ""
    except OSError as error:
        return error.strerror or str(error), ""
    said = " ".join((done.stderr or done.stdout).split())[:_MOST_SAID]
    return (said or f"it ended with {done.returncode}") if done.returncode else "", done.stdout
