"""Somebody else's Ray on a node of a lab, with an actor of theirs: what our cluster must not touch."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.lab.node import Node
from tests.lab.process import Process

_PORT = 7001
_TOKEN = "/root/foreign-token"
_ENVIRONMENT = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": _TOKEN}
_GUEST = f"""
import ray
ray.init(address="10.88.0.1:{_PORT}", log_to_driver=False)
@ray.remote(num_cpus=0)
class Guest:
    seen = 0
    def count(self):
        self.seen += 1
        return self.seen
guest = Guest.options(name="guest", namespace="f", lifetime="detached", get_if_exists=True).remote()
print(ray.get(guest.count.remote(), timeout=100))
"""


@dataclass(frozen=True, kw_only=True)
class ForeignRay:
    """A Ray cluster of one node that is not ours."""

    node: Node
    _pids: set[int] = field(default_factory=set)

    def owns(self, process: Process) -> bool:
        """Its ray start and what is below: Ray's titles have overwritten the environment that would tell."""
        if f"--port={_PORT}" in process.command or process.parent_pid in self._pids:
            self._pids.add(process.pid)
        return process.pid in self._pids

    def visits(self) -> int:
        """How often its actor, which the first call makes, has been called, this time included."""
        done = self.node.run([sys.executable, "-c", _GUEST], environment=_ENVIRONMENT, timeout=120)
        return int(done.stdout)


@contextmanager
def foreign_ray(node: Node) -> Iterator[ForeignRay]:
    """Somebody else's Ray on a node: its own token, and Ray's own folder. It has to survive.

    Without Ray's helper processes, which are most of its cost.
    """
    node.run(["sh", "-c", f"umask 077; printf %064d 7 > {_TOKEN}"], check=True)
    foreign = node.popen(
        [
            *(sys.executable, "-m", "tests.lab.lean_start", "start", "--head", f"--port={_PORT}", "--block"),
            *("--node-ip-address=10.88.0.1", "--include-dashboard=false", "--num-cpus=1", "--disable-usage-stats"),
            *("--object-store-memory=80000000", "--include-log-monitor=false", "--no-monitor"),
            *("--min-worker-port=0", "--max-worker-port=0"),
        ],
        environment=_ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield ForeignRay(node=node)
        assert foreign.poll() is None
    finally:
        foreign.terminate()
        foreign.wait(60)
