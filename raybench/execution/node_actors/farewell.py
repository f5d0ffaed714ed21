"""Ends the node actors that a killed driver was to leave warm: they outlive it, and hold their nodes for their lease.

The command that supervised the driver imports no Ray, so it has
``python -m raybench.execution.node_actors.farewell ADDRESS NAME COUNT`` join the cluster, end the COUNT
node actors of the group NAME, and give their resources back.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from raybench.execution.ranks.prestarted_rank_host import workplace

_SECONDS = 15.0


def say_farewell(address: str, name: str, count: int) -> bool:
    """End these node actors, in a process of its own. Returns whether they have ended, or had before."""
    command = [sys.executable, "-P", "-m", "raybench.execution.node_actors.farewell", address, name, str(count)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class _Nobody:
    """Hears of the session and has nothing to do."""

    def before_embedding(self) -> None:
        """Never comes."""

    def joining(self, address: str) -> None:
        """Known."""

    def troubled(self) -> None:
        """The exit status says it."""


def main() -> None:
    """Entry point: ``farewell ADDRESS NAME COUNT``."""
    address, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with workplace() as place, contextlib.ExitStack() as stack:
        from raybench.execution.node_actors.warm_groups import end_node_actors  # with Ray
        from raybench.execution.ray_cluster.session import open_session

        stack.enter_context(open_session(address, nodes=None, backend=None, workplace=Path(place), caller=_Nobody()))
        end_node_actors(name, count)
        stack.close()
    os._exit(0)  # Ray's clean-up at exit would wait for a cluster that has gone


if __name__ == "__main__":
    main()
