"""What the agents of hosts say now, over SSH: the unit's where it runs, else one that ends with the connection.

A host that was heard, or was not there, is tried again: one that comes back with another boot id has rebooted.
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from raybench.errors import UsageError
from raybench.hosts.host_facts import COMMAND_SECONDS, OUTPUT_BYTES, boot_id_of
from raybench.hosts.inventory import Host, Inventory, inventory_problems
from raybench.hosts.ssh import CONNECT_SECONDS, SILENCE_SECONDS, SshError, answer_of, connected, target_of

if TYPE_CHECKING:
    import paramiko

MOST_HOSTS = 256
_END_SECONDS = 2.0
_TICK_SECONDS = 0.5
_PIECE_BYTES = 2**16
_TAIL_BYTES = 600
_RETRY_SECONDS = (2.0, 4.0, 8.0, 15.0, 30.0)  # after the end of a connection; the last one from then on
# A reader that is gone ends both: tail and the agent write at least every few seconds, and nobody reads it. The last
# lines of a unit's agent that hangs would look like those of now.
_COMMAND = """kept=/var/lib/raybench-agent/samples.jsonl
if [ -r $kept ] && systemctl is-active --quiet raybench-agent 2>/dev/null
then
  silent=$(($(date +%s) - $(stat -c %Y $kept)))
  [ $silent -lt 30 ] || { echo "the unit raybench-agent has written nothing for $silent s" >&2; exit 1; }
  exec tail -n 100 -F $kept 2>/dev/null
fi
command -v raybench >/dev/null || { echo 'raybench is not in the PATH of that user there' >&2; exit 127; }
exec raybench agent --json"""


class Listener(Protocol):
    """Who is told, from the thread of the host."""

    def connected(self, name: str, boot_id: str) -> None:
        """A host is reached, for the first time or again; what is heard from now on is another agent's."""

    def heard(self, name: str, data: bytes) -> None:
        """A piece of what its agent says."""

    def failed(self, name: str, reason: str) -> None:
        """A host is not watched any more, or not yet."""

    def has_spoken(self, name: str) -> bool:
        """Whether an agent was heard on this host since it was connected."""


class LiveAgents:
    """The agents of some hosts, a thread a host."""

    def __init__(
        self,
        hosts: Sequence[Host],
        listener: Listener,
        *,
        ssh_config: Path | None = None,
        accept_new: bool = False,
    ) -> None:
        self._listener = listener
        self._config, self._accept_new = ssh_config, accept_new
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(host,), daemon=True, name=f"top-{host.name}") for host in hosts
        ]

    def start(self) -> None:
        """Connect to all of them."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Close the connections, with which agents that were started for us end. One that hangs is not waited for."""
        self._stop.set()
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _watch(self, host: Host) -> None:
        failures, known = 0, False
        while not self._stop.is_set():
            why, reached, again = self._watched_once(host)
            if self._stop.is_set():
                return
            spoken = reached and self._listener.has_spoken(host.name)
            known, failures = known or spoken, 0 if spoken else failures + 1
            self._listener.failed(host.name, why)
            if not (again or known):  # such as a login that is refused, or no raybench there
                return
            self._stop.wait(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])

    def _watched_once(self, host: Host) -> tuple[str, bool, bool]:
        """Connect and listen to the end. Returns why it ended, whether it was reached, and whether to try again."""
        reached = False
        try:
            with connected(target_of(host, config_file=self._config, accept_new=self._accept_new)) as client:
                self._listener.connected(
                    host.name,
                    boot_id_of(lambda text: answer_of(client, text, seconds=COMMAND_SECONDS, limit_bytes=OUTPUT_BYTES)),
                )
                reached = True
                return self._listen(host.name, client), reached, False
        except SshError as error:
            return str(error), reached, error.cut
        except Exception as error:  # noqa: BLE001 - one host never takes the others from the screen
            return f"{type(error).__name__}: {error}", reached, False

    def _listen(self, name: str, client: "paramiko.SSHClient") -> str:
        """Pass on what its agent says. Returns why it ended."""
        transport = client.get_transport()
        if transport is None:
            return "the connection has ended"
        with transport.open_session(timeout=CONNECT_SECONDS) as channel:
            channel.exec_command(_COMMAND)
            channel.settimeout(_TICK_SECONDS)
            last, words = time.monotonic(), b""
            while not self._stop.is_set():
                if channel.recv_stderr_ready():
                    words = (words + channel.recv_stderr(_PIECE_BYTES))[-_TAIL_BYTES:]
                try:
                    piece = channel.recv(_PIECE_BYTES)
                except TimeoutError:
                    if time.monotonic() - last > SILENCE_SECONDS:
                        return f"its agent has said nothing for {SILENCE_SECONDS:.0f} s"
                    continue
                if not piece:
                    words += channel.recv_stderr(_TAIL_BYTES) if channel.recv_stderr_ready() else b""
                    return _ending(words)
                last = time.monotonic()
                self._listener.heard(name, piece)
        return "it is not watched any more"


def _ending(words: bytes) -> str:
    lines = words.decode("utf-8", "replace").strip().splitlines()
    return f"its agent ended{f': {lines[-1]}' if lines else ''}"


def hosts_of(names: Sequence[str]) -> tuple[Host, ...]:
    """Hosts by what ssh calls them, ``USER@HOST`` too. Raises UsageError for a name that ssh could misunderstand."""
    found = {}
    for name in names:
        user, at, host = name.rpartition("@")
        found[host] = Host(name=host, address=host, variables={"ansible_user": user} if at else {})
    problems = inventory_problems(Inventory(sources=(), hosts=tuple(found.values()), groups={}))
    if problems:
        raise UsageError("; ".join(problems))
    if len(found) > MOST_HOSTS:
        raise UsageError(f"top shows {MOST_HOSTS} hosts at most, not {len(found)}")
    return tuple(found.values())
