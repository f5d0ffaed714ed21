"""The actor that stands for a node: Ray places it, it starts the node's ranks and speaks for them.

Its calls carry commands and batches of events; nothing that is timed crosses them. Everything it starts belongs to it:
when it ends, however that happens, the process with its ranks reads the end of its standard input and ends them.
"""

import contextlib
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from raybench.benchmarks.events import AgentSaid
from raybench.benchmarks.events import encode as encode_event
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.log_files import FLIGHT_RECORD, NCCL_LOGS, capped_log, remove_files_of_ranks
from raybench.execution.node_actors.agent_process import AgentProcess
from raybench.execution.node_actors.messages import (
    Activities,
    AskActivities,
    AskPositions,
    HostFailed,
    PortReserved,
    Positions,
    RankActivity,
    RankEvent,
    RankPosition,
    RanksStopped,
    Reply,
    Request,
    ReservePort,
    StartRanks,
    StopRanks,
    decode_reply,
    encode,
)
from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost
from raybench.execution.ranks.rank_host_process import LOG, RankHostError, RankHostWatch, end_rank_host, start_rank_host
from raybench.execution.ray_cluster.ray_calls import call_with_timeout
from raybench.metadata import node_facts
from raybench.processes.scratch_folder import scratch_folder
from raybench.processes.unix_socket import connect
from raybench.traffic import Counters, read_counters

_HOST = "the rank host (the process that holds the ranks)"
_LEASE_CHECK_SECONDS = 1.0
_CHECK_SECONDS = 0.25
_MOST_WAITING = 1000  # events
_FAREWELL_SECONDS = 5.0  # the head may be gone; and another node actor of the group may have been first
_IMPORT_SECONDS = 120.0  # torch from a cold network file system
_AWAY_SECONDS = 5.0
_EXIT_SECONDS = 1.0
_WAKE = b""
LONGEST_TRACE_BYTES = 64 * 2**20


class NodeActor:
    """One node of a run. Made into a Ray actor by ``session``; tests may use it as it is."""

    def __init__(
        self,
        host_socket: str | None = None,
        lease_seconds: float | None = None,
        group: str | None = None,
        early: PrestartedRankHost | None = None,
    ) -> None:
        """``lease_seconds``: end, with the placement ``group``, when the run is silent for so long.

        Its driver is then gone, or this node is cut off from it and nobody else will end what runs here. ``early`` is
        the driver's own rank host, which serves where this node actor is on the driver's machine.
        """
        # on an embedded cluster below the run's own folder, which goes with the run whatever becomes of us
        below = None if host_socket is None else Path(host_socket).parent
        self._folder = scratch_folder(str(below) if below and below.is_dir() else None)
        self._events: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # of a launch; an empty one wakes whoever waits
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # by the agent, which outlives launches
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._host: subprocess.Popen[bytes] | None = None
        self._log_limit_bytes = 2**24
        self._early = host_socket is None and early is not None and early.is_ours_to_use()
        watched = None if early is None else RankHostWatch(early.pid, Path(early.socket).parent / LOG)
        if self._early and early is not None:
            host_socket = early.socket
        if host_socket is None:
            host_socket = str(self._folder / "ranks")
            self._host = start_rank_host(host_socket, self._folder / LOG)
            watched = RankHostWatch(self._host.pid, self._folder / LOG)
        self._host_watch = watched
        self._agent: AgentProcess | None = None
        self._connection: Connection | None = None
        self._lost: str | None = None
        self._claim = threading.Lock()
        self._claimed = True  # by the run that placed it
        self._rest_until = 0.0
        self._group = group
        self._heard = time.monotonic()
        if lease_seconds is not None:
            threading.Thread(target=self._keep_lease, args=(lease_seconds,), daemon=True).start()
        threading.Thread(target=self._listen, args=(host_socket,), daemon=True).start()

    def claim(self) -> bool:
        """Take a node actor that an earlier run left warm. False while another run has it."""
        with self._claim:
            free, self._claimed = not self._claimed, True
            self._heard = time.monotonic()
        return free

    def rest(self, seconds: float) -> None:
        """Wait for the next run with torch imported, but not longer; then end, with the placement group."""
        self.stop()
        self._end_agent()
        remove_files_of_ranks(self._folder)
        with self._claim:
            self._claimed = False
            self._rest_until = time.monotonic() + seconds

    def _keep_lease(self, lease_seconds: float) -> None:
        """End when the rest is over, or when the run that has us has fallen silent: its driver is gone."""
        looked = time.monotonic()
        while True:
            time.sleep(_LEASE_CHECK_SECONDS)
            now = time.monotonic()
            if now - looked > _AWAY_SECONDS:  # we were stopped, or starved: what was said is still to be read
                self._heard = now
            looked = now
            with self._claim:
                over = now - self._heard > lease_seconds if self._claimed else now > self._rest_until
                self._claimed = self._claimed or over
            if over:
                self._end()

    def _end(self) -> None:
        self._release()
        if self._group is not None:
            call_with_timeout(_FAREWELL_SECONDS, self._remove_group, "giving back the node")
        os._exit(0)

    def _remove_group(self) -> None:
        import ray

        ray.util.remove_placement_group(ray.util.get_placement_group(self._group))

    def beat(self) -> None:
        """The run's driver lives, and may wait for another node."""
        self._heard = time.monotonic()

    def facts(self) -> dict[str, Any]:
        """What this node is: see ``metadata.node_facts``."""
        own = {"node_id": _ray_node_id(), "gpu_ids": _ray_gpu_ids(), "early_rank_host": self._early}
        return node_facts() | own

    def traffic(self) -> Counters:
        """Bytes that this node's network devices have moved so far."""
        self._heard = time.monotonic()
        return read_counters()

    def reserve_port(self, address: str, port: int) -> int:
        """Hold a port for the rendezvous of the next launch. Raises OSError when it cannot be had."""
        reply = self._ask(ReservePort(address=address, port=port))
        assert isinstance(reply, PortReserved)
        if reply.error is not None:
            raise OSError(
                f"port {port} of {address} cannot be opened: {reply.error}; choose another with --master-port"
            )
        return reply.port

    def start(self, assignments: bytes, variables: dict[str, str | None], log_limit_bytes: int) -> None:
        """Start this node's ranks; ``assignments`` is an encoded (RankAssignment tuple, plan)."""
        ranks, plan = msgspec.msgpack.decode(
            assignments, type=tuple[tuple[RankAssignment, ...], tuple[BenchmarkSpec, ...]]
        )
        self._log_limit_bytes = log_limit_bytes
        self._heard = time.monotonic()
        self._send(
            StartRanks(
                assignments=ranks,
                plan=plan,
                variables=variables,
                log_folder=str(self._folder),
                log_limit_bytes=log_limit_bytes,
            )
        )

    def start_agent(self, host: str, pids: list[int], logs_of_all: bool) -> None:
        """Have the diagnostics agent of this machine watch these ranks; it is started where there is none.

        ``logs_of_all``: NCCL logs of the nodes that share this machine are in folders beside this node's.
        """
        with self._claim:
            if self._agent is None:
                self._agent = AgentProcess(host, str(self._folder), self._pass_on_agent)
        folder = f"{self._folder.parent}/*" if logs_of_all else str(self._folder)
        self._agent.watch(pids, [f"{folder}/{NCCL_LOGS}"])

    def _pass_on_agent(self, data: bytes) -> None:
        if self._said.qsize() < _MOST_WAITING:  # nobody hears a run that is cut off, and memory is finite
            self._said.put(data)
            self._events.put(_WAKE)

    def end_agent(self) -> list[bytes]:
        """End the agent of this machine, where this node has it. Returns what it said that no poll has taken."""
        self._end_agent()
        return _all_of(self._said)

    def _end_agent(self) -> None:
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.end()

    def clock(self) -> float:
        """The monotonic clock of this machine, seconds."""
        return time.monotonic()

    def poll(self, seconds: float) -> list[bytes]:
        """Encoded events of this launch since the last call; waits up to ``seconds`` for the first."""
        events: list[bytes] = []
        waiting = self._events  # the launch may end while we wait, and the next one has a queue of its own
        self._heard = time.monotonic()
        if self._lost is not None and waiting.empty():
            raise RankHostError(self._lost)
        with contextlib.suppress(queue.Empty):
            events.append(waiting.get(timeout=seconds))
            while True:
                events.append(waiting.get_nowait())
        if waiting is self._events:  # else nobody hears this answer
            events += [encode_event(AgentSaid(data=data)) for data in _all_of(self._said)]
        events = [event for event in events if event != _WAKE]
        if not events:
            self._check_host()
        return events

    def _check_host(self) -> None:
        if self._host_watch is not None:
            self._host_watch.check()

    def positions(self) -> list[RankPosition]:
        """Where this node's ranks are."""
        reply = self._ask(AskPositions())
        assert isinstance(reply, Positions)
        return list(reply.ranks)

    def activities(self, whole: bool = False) -> list[RankActivity]:
        """What this node's ranks are doing. Takes some seconds."""
        reply = self._ask(AskActivities(whole=whole))
        assert isinstance(reply, Activities)
        return list(reply.ranks)

    def stop(self) -> None:
        """End this node's ranks and wait for their processes.

        A poll of the launch that has ended here may still wait, and nobody hears its answer: it must not be given what
        ranks of the next launch say. What these have said last is not for the next launch either.
        """
        reply = self._ask(StopRanks())
        assert isinstance(reply, RanksStopped)
        waiting, self._events = self._events, queue.SimpleQueue()
        waiting.put(_WAKE)

    def logs(self) -> dict[str, bytes]:
        """Log files of this node's ranks by name, each cut to the limit, and their traces, whole or not at all."""
        logs = {}
        for path in sorted(self._folder.glob("*-rank-*.log")):
            with contextlib.suppress(OSError):
                logs[path.name] = capped_log(path, self._log_limit_bytes)
        long = self.long_traces()
        for path in self._traces():
            with contextlib.suppress(OSError):
                logs |= {} if path.name in long else {path.name: path.read_bytes()}
        for path in sorted(self._folder.glob(f"{FLIGHT_RECORD}*")):
            with contextlib.suppress(OSError):
                logs |= {path.name: path.read_bytes()} if path.stat().st_size <= LONGEST_TRACE_BYTES else {}
        return logs

    def long_traces(self) -> dict[str, tuple[int, int]]:
        """Traces that ``logs`` leaves out, since half a trace is none: their bytes, and the most that there may be."""
        most, found = max(LONGEST_TRACE_BYTES, self._log_limit_bytes), {}
        for path in self._traces():
            with contextlib.suppress(OSError):
                found[path.name] = path.stat().st_size, most
        return {name: sizes for name, sizes in found.items() if sizes[0] > most}

    def _traces(self) -> list[Path]:
        return sorted(self._folder.glob("trace-rank-*.pt.trace.json.gz"))

    def close(self) -> None:
        """End everything that this node actor started and remove its files; soon after, the actor itself."""
        self._release()
        if _ray_node_id() is not None:  # where the head of the cluster is gone, Ray does not end us
            threading.Timer(_EXIT_SECONDS, os._exit, (0,)).start()

    def _release(self) -> None:
        self._end_agent()
        if self._connection is not None:
            self._connection.close()
        if self._host is not None:
            end_rank_host(self._host)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, request: Request, seconds: float = _IMPORT_SECONDS) -> Reply:
        self._heard = time.monotonic()
        with self._asking:
            self._send(request)
            reply = self._reply(seconds)
        if isinstance(reply, HostFailed):
            raise (OSError if self._lost is None else RankHostError)(reply.error)
        return reply

    def _reply(self, seconds: float) -> Reply:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                return self._replies.get(timeout=_CHECK_SECONDS)
            self._check_host()
        raise TimeoutError(f"{_HOST} did not answer within {seconds:.0f} s")

    def _send(self, request: Request) -> None:
        began = time.monotonic()
        checked = began
        while self._connection is None and (now := time.monotonic()) - began < _IMPORT_SECONDS:
            time.sleep(0.005)
            if now - checked > _CHECK_SECONDS:
                self._check_host()
                checked = now
        if self._connection is None:
            raise TimeoutError(f"{_HOST} did not start")
        self._connection.send_bytes(encode(request))

    def _listen(self, path: str) -> None:
        try:
            connection = self._connection = connect(path, _IMPORT_SECONDS)
            while True:
                reply = decode_reply(connection.recv_bytes())
                if isinstance(reply, RankEvent):
                    self._events.put(reply.data)
                elif isinstance(reply, HostFailed) and not self._asking.locked():
                    self._lost = reply.error  # nobody waits for an answer: the ranks could not be started
                else:
                    self._replies.put(reply)
        except msgspec.MsgspecError as error:
            self._lose(f"{_HOST} sent an invalid answer: {error}")
        except (EOFError, OSError, TimeoutError) as error:
            self._lose(f"{_HOST} is gone ({type(error).__name__})")

    def _lose(self, why: str) -> None:
        self._lost = why
        self._replies.put(HostFailed(error=why))


def _all_of(pieces: "queue.SimpleQueue[bytes]") -> list[bytes]:
    found: list[bytes] = []
    with contextlib.suppress(queue.Empty):
        while True:
            found.append(pieces.get_nowait())
    return found


def _ray_node_id() -> str | None:
    ray = sys.modules.get("ray")  # only inside an actor
    return str(ray.get_runtime_context().get_node_id()) if ray is not None and ray.is_initialized() else None


def _ray_gpu_ids() -> list[str]:  # gpu: ray-masking
    ray = sys.modules.get("ray")
    return [str(identity) for identity in ray.get_gpu_ids()] if ray is not None and ray.is_initialized() else []
