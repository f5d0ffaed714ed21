"""The process that holds a node's ranks: it imports torch once and forks one process a rank.

``python -m raybench.execution.ranks.rank_host SOCKET`` listens on a UNIX socket. Each connection is one node: what it
asks for is forked, what the ranks say is passed on, and when the connection ends its ranks are ended. When its standard
input ends, the parent is gone or wants it gone, and it ends with all it holds. It never starts CUDA, so a fork is safe;
and importing torch once instead of once a rank is most of what a large run's start costs (docs/architecture.md).
"""

import contextlib
import gc
import importlib
import os
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from raybench.benchmarks.events import RanksMarked
from raybench.benchmarks.events import encode as encode_event
from raybench.execution.node_actors.messages import (
    Activities,
    AskActivities,
    AskPositions,
    HostFailed,
    PortReserved,
    Positions,
    RankEvent,
    Reply,
    ReservePort,
    StartRanks,
    StopRanks,
    decode_request,
    encode,
)
from raybench.execution.ranks.nccl_ras import DEFAULT_ADDRESS
from raybench.execution.ranks.rank_activity import Watched, activities
from raybench.execution.ranks.rank_process import RankProcesses
from raybench.execution.ranks.stopped_looks import seconds_to_next_look

_MARK_SECONDS = 1.0
_LAST_WRITES_SECONDS = 2.0  # of Ray's daemons, which end with the same parent and write into the same folder
PRELOAD = tuple(
    f"raybench.benchmarks.{name}"
    for name in ("rank.run", "messages.collective", "messages.point_to_point", "rank.flight_record")
)


class NodeConnection:
    """One node's actor: its socket, its held port and its ranks."""

    def __init__(self, connection: Connection, selector: selectors.BaseSelector) -> None:
        self.connection = connection
        self._held: socket.socket | None = None
        self._ranks = RankProcesses(selector, self._pass_on)
        self._folder: Path | None = None
        self._replying = threading.Lock()
        self._looking: threading.Thread | None = None
        self._ras_address = DEFAULT_ADDRESS

    def serve(self) -> bool:
        """Do the next thing asked for. Returns whether the node actor is still there."""
        try:
            request = decode_request(self.connection.recv_bytes())
        except (EOFError, OSError, msgspec.MsgspecError):  # gone, or no node actor
            return False
        try:
            match request:
                case ReservePort():
                    self.reply(self._reserve(request))
                case StartRanks():
                    self._folder = Path(request.log_folder)
                    self._ras_address = request.variables.get("NCCL_RAS_ADDR") or DEFAULT_ADDRESS
                    held, self._held = self._held, None
                    self._end_look()
                    self._ranks.start(request, held)
                case AskPositions():
                    self.reply(Positions(ranks=self._ranks.positions()))
                case AskActivities():
                    self._look(self._ranks.watched(), whole=request.whole)
                case StopRanks():
                    self._end_look()
                    self.reply(self._ranks.stop())
        except (OSError, RuntimeError, ValueError) as error:
            self.reply(HostFailed(error=f"{type(error).__name__}: {error}"))
        return True

    def reply(self, reply: Reply) -> None:
        """Tell the node actor; one that has gone is noticed at the next read."""
        try:
            with self._replying:
                self.connection.send_bytes(encode(reply))
        except OSError:
            return

    def _look(self, ranks: tuple[Watched, ...], *, whole: bool) -> None:
        """Look at the ranks beside what else there is to do: other nodes' ranks may be held by this process too."""
        self._end_look()
        address = self._ras_address
        self._looking = threading.Thread(
            target=lambda: self.reply(Activities(ranks=activities(ranks, address, whole=whole))), daemon=True
        )
        self._looking.start()

    def _end_look(self) -> None:
        """No rank is forked or ended while a thread looks at it."""
        if self._looking is not None:
            self._looking.join()
            self._looking = None

    def look(self) -> int:
        """Look whether ranks are stopped. Returns how many ranks there are."""
        return self._ranks.look()

    def mark(self) -> None:
        """Say how far the ranks have come."""
        marks = self._ranks.marks()
        if marks:
            self._pass_on(encode_event(RanksMarked(rank=marks[0].rank, marks=marks)))

    def close(self) -> None:
        """End what belongs to this node, its log files too: its node actor has fetched them, or is gone."""
        self._end_look()
        self._ranks.stop()
        remove_folder(self._folder)
        if self._held is not None:
            self._held.close()
        self.connection.close()

    def _pass_on(self, data: bytes) -> None:
        self.reply(RankEvent(data=data))

    def _reserve(self, request: ReservePort) -> PortReserved:
        family = socket.AF_INET6 if ":" in request.address else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((request.address, request.port))
            held.listen(4096)
        except OSError as error:
            held.close()
            return PortReserved(port=request.port, error=str(error))
        self._held = held
        return PortReserved(port=held.getsockname()[1])


def serve(path: str) -> None:
    """Listen on ``path`` until the last node actor has gone."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1024)
    _preload()  # node actors may connect meanwhile
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, listener)
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        nodes: set[NodeConnection] = set()
        marked = look_due = time.monotonic()
        while _serve_ready(selector, nodes, min(marked + _MARK_SECONDS, look_due)):
            if time.monotonic() >= look_due:
                look_due = time.monotonic() + seconds_to_next_look(sum(node.look() for node in nodes))
            if time.monotonic() >= marked + _MARK_SECONDS:
                for node in nodes:
                    node.mark()
                marked = time.monotonic()
        for node in nodes:
            node.close()


def _preload() -> None:
    """Import torch. It makes a million objects that all stay: looking for garbage among them takes a tenth of it."""
    gc.disable()
    for module in PRELOAD:
        importlib.import_module(module)
    gc.enable()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # until now nothing was held that had to be ended in order


def _serve_ready(selector: selectors.BaseSelector, nodes: set[NodeConnection], until: float) -> bool:
    """Serve whoever has something to say by then. Returns whether to go on: until standard input is closed."""
    for key, _ in selector.select(max(until - time.monotonic(), 0.0) if nodes else None):
        match key.data:
            case None:
                return False
            case socket.socket():
                accepted, _ = key.data.accept()
                node = NodeConnection(Connection(accepted.detach()), selector)
                selector.register(node.connection, selectors.EVENT_READ, node)
                nodes.add(node)
            case NodeConnection():
                if not key.data.serve():
                    selector.unregister(key.data.connection)
                    key.data.close()
                    nodes.discard(key.data)
            case heard:
                heard()
    return True


def remove_folder(folder: Path | None) -> None:
    """Remove a folder that a node actor or a session made for its ranks, and nothing else."""
    if folder is not None and folder.name.startswith("raybench-"):
        shutil.rmtree(folder, ignore_errors=True)


def _be_ordinary() -> None:
    """Undo what Ray does to its workers (nice 15, first to be killed), where the system lets us."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("0", encoding="ascii")


def main() -> None:
    """Entry point: ``rank_host SOCKET``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides what Ctrl-C means
    _be_ordinary()
    path, parent = Path(sys.argv[1]), os.getppid()
    try:
        serve(str(path))
    finally:
        if os.getppid() != parent:
            time.sleep(_LAST_WRITES_SECONDS)
        remove_folder(path.parent)


if __name__ == "__main__":
    main()
    os._exit(0)  # all is closed; taking torch apart, object by object, would keep the run's end waiting for 0.3 s
