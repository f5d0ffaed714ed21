"""``raybench launch torchrun|mpirun|rank``: the same run under the user's own launcher, without Ray."""

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from raybench.errors import IncompleteRunError, UsageError
from raybench.launchers.ranks.place import DEFAULT_PORT
from raybench.launchers.ranks.rank_task import CODE_VARIABLE, SECRET_VARIABLE, run_rank_task
from raybench.launchers.ranks.words import RanksRequest, mpirun_words, torchrun_words

__all__ = ["DEFAULT_PORT", "Launcher", "RanksRequest", "be_rank", "check_rank_words", "planned", "run_under"]

Launcher = Literal["torchrun", "mpirun"]
_WORDS = {"torchrun": torchrun_words, "mpirun": mpirun_words}


def check_rank_words(words: Sequence[str]) -> None:
    """Raises UsageError for what ranks that are there already cannot do."""
    if words and words[0] == "study":
        raise UsageError(
            "a study starts ranks many times, which a launcher does not: use 'raybench launch slurm', or run the study "
            "on a Ray cluster"
        )


def planned(launcher: Launcher, request: RanksRequest, words: Sequence[str]) -> str:
    """What would be started, and where."""
    line = shlex.join(_WORDS[launcher](request, words))
    several = launcher == "torchrun" and request.node_count > 1
    where = f"on each of the {request.node_count} nodes" if several else "here"
    return f"# {where}:\n{line}\n# rank 0's node writes the results, and all ranks end with the exit code of the run\n"


def run_under(launcher: Launcher, request: RanksRequest, words: Sequence[str]) -> int:
    """Start the launcher and wait for it. Returns the exit code of the run; 3 where no rank could say it.

    Raises UsageError where the launcher is not installed.
    """
    command = _WORDS[launcher](request, words)
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"{command[0]} is not there: install it (Debian, Ubuntu: apt-get install openmpi-bin), or add it to PATH"
        )
    with tempfile.TemporaryDirectory(prefix="raybench-") as folder:
        code = Path(folder, "code")
        environment = dict(os.environ)
        if launcher == "torchrun":
            environment[CODE_VARIABLE] = str(code)
        if request.node_count == 1:  # else each node's own command would have another
            environment.setdefault(SECRET_VARIABLE, secrets.token_hex(16))
        status = _waited(command, environment)
        if launcher == "mpirun" and status in (0, 1, 2, 3):
            return status
        return _told(code, launcher, status)


def _told(path: Path, launcher: str, status: int) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        raise IncompleteRunError(
            f"{launcher} ended with status {status}, and no rank of this node could say how the run ended; what it "
            "printed above says why"
        ) from None


def _waited(command: Sequence[str], environment: dict[str, str]) -> int:
    """Ctrl-C reaches the launcher by the terminal; a signal to this process alone is passed on."""
    process = subprocess.Popen(command, env=environment)
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number)),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
    }
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def be_rank(words: Sequence[str]) -> int:
    """Be the rank that this process's launcher says that it is."""
    check_rank_words(words)
    return run_rank_task(words, os.environ)
