"""The process beside rank 0 that holds the run: the command itself, and at its end its exit code for all ranks.

It is in a session of its own, so that what ends rank 0 does not end it: what was measured is kept. It ends by itself,
as the run has its limits.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import AuthenticationError

import msgspec

from raybench.config import LAUNCHED
from raybench.execution.launched.meeting import listen, proven
from raybench.execution.launched.session import KEY_VARIABLE, VARIABLE, Place
from raybench.launchers.ranks.place import LaunchedRank

_ANSWER_SECONDS = 6.0  # ranks ask for the exit code as soon as the run has let them go
_QUIET_SECONDS = 2.0  # after the last that asked: those that have died never do


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """The started process, as that of rank 0 has it."""

    process: "subprocess.Popen[bytes]"

    def end(self, number: int) -> None:
        """Have the run end in order."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


def start_keeper(rank: LaunchedRank, ports: list[int], key: bytes, words: Sequence[str]) -> Keeper:
    """Start it at the first of these ports that is free. Raises IncompleteRunError where none is."""
    with listen(ports) as listener:
        place = Place(descriptor=listener.fileno(), world_size=rank.world_size)
        environment = os.environ | {VARIABLE: msgspec.json.encode(place).decode(), KEY_VARIABLE: key.hex()}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "raybench.launchers.ranks.keeper", "--", *words],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
    return Keeper(process=process)


def main() -> int:
    """Run the command, then tell its exit code to every rank that asks. Returns it."""
    parser = argparse.ArgumentParser(prog="raybench.launchers.ranks.keeper")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    words = [word for number, word in enumerate(parser.parse_args().words) if number or word != "--"]
    place = msgspec.json.decode(os.environ[VARIABLE], type=Place)
    run = subprocess.Popen(
        [sys.executable, "-P", "-m", "raybench", *words, "--address", LAUNCHED], pass_fds=(place.descriptor,)
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: run.send_signal(number))
    code = run.wait()
    code = code if 0 <= code <= 3 else 3
    with socket.socket(fileno=place.descriptor) as listener:
        _tell_all(listener, bytes.fromhex(os.environ[KEY_VARIABLE]), place.world_size, code)
    return code


def _tell_all(listener: socket.socket, key: bytes, world_size: int, code: int) -> None:
    told, deadline = 0, time.monotonic() + _ANSWER_SECONDS
    while told < world_size and (left := deadline - time.monotonic()) > 0:
        listener.settimeout(min(left, _QUIET_SECONDS))
        try:
            accepted, _ = listener.accept()
        except TimeoutError:
            break
        accepted.settimeout(None)
        with contextlib.suppress(OSError, EOFError, AuthenticationError), proven(accepted, key) as connection:
            connection.send_bytes(b"%d" % code)
            told += 1


if __name__ == "__main__":
    sys.exit(main())
