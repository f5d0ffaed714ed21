"""Programs that run at the same time, and what becomes of them where nobody waits for the answer any more."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from ..raybench_host.command import end_group
from .process import Keep, Reading, run

_SLACK_SECONDS = 5.0
_LOOK_SECONDS = 0.5


class Runner:
    """Programs, each with its time limit and in a session of its own."""

    def __init__(self, environment: Mapping[str, str], seconds: float) -> None:
        self._environment, self._seconds = environment, seconds
        self._threads: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._results: dict[str, Reading] = {}

    def start(self, name: str, command: Sequence[str], keep: Keep = None) -> None:
        """Start a program in a thread of its own."""
        thread = threading.Thread(target=self._run, args=(name, command, keep), daemon=True)
        self._threads.append(thread)
        thread.start()

    def finish(self) -> dict[str, Reading]:
        """What they all said. Nobody is waited for longer than the limit and a little.

        Where who asked is gone, as after Ctrl-C there, all are killed and this process ends.
        """
        deadline = time.monotonic() + self._seconds + _SLACK_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
                if thread.is_alive() and is_output_closed():
                    for process in self._processes:
                        end_group(process)
                    os._exit(1)
        return dict(self._results)

    def _run(self, name: str, command: Sequence[str], keep: Keep) -> None:
        begun = time.monotonic()
        self._results[name] = {"status": "timeout", "seconds": self._seconds, "text": ""}
        answer = run(command, self._environment, self._seconds, keep, self._processes.append)
        answer["seconds"] = round(time.monotonic() - begun, 3)
        self._results[name] = answer


def is_output_closed() -> bool:
    """Whether nobody reads what this process says any more: the connection that it was asked by is gone."""
    poller = select.poll()
    poller.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
