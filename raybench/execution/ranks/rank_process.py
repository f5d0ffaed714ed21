"""The rank processes of one node: forked, watched, located and ended by their own process groups."""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import mmap
import multiprocessing
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path

from raybench.benchmarks.events import Event, RankExited, RankMark, encode
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.folder import FOLDER_VARIABLE
from raybench.benchmarks.rank.progress import FIELDS, ProgressSlot
from raybench.benchmarks.registry import module_of
from raybench.execution.log_files import FLIGHT_RECORD, LogCap, log_name, output_name, tail_of
from raybench.execution.node_actors.messages import RankPosition, RanksStopped, StartRanks
from raybench.execution.ranks.rank_activity import STACK_SIGNAL, Watched, state_of
from raybench.execution.ranks.stopped_looks import StoppedLooks
from raybench.processes.frames import Frames

_PR_SET_PDEATHSIG = 1
_END_SECONDS = 5.0
_FORK = multiprocessing.get_context("fork")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    process: ForkProcess
    pipe: Connection
    frames: Frames  # what it says through the pipe
    slot: ProgressSlot
    output: Path
    stacks: int  # a file in memory, where the rank writes what it is doing when it is signalled
    recorder: Connection
    looks: StoppedLooks


class RankProcesses:
    """The ranks of one node. ``pass_on`` gets every encoded event of a rank, and a RankExited when its process ends."""

    def __init__(self, selector: selectors.BaseSelector, pass_on: Callable[[bytes], None]) -> None:
        self._selector, self._pass_on = selector, pass_on
        self._ranks: dict[int, _Rank] = {}

    def start(self, request: StartRanks, held: socket.socket | None) -> None:
        """Fork all ranks. Those of an earlier launch are ended first. ``held`` goes to rank 0 and is closed here."""
        self.stop()
        signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # a rank that has not come to its own handler must not end by it
        memory = mmap.mmap(-1, max(len(request.assignments), 1) * FIELDS * 8)
        values = memoryview(memory).cast("q")
        for spec in request.plan:  # once here, and not once a rank
            importlib.import_module(module_of(spec))
        gc.freeze()  # what the parent has is not moved by the children's collections: the pages stay shared
        for index, assignment in enumerate(request.assignments):
            own = (
                replace(assignment, listen_fd=held.fileno())
                if held is not None and assignment.rank == 0
                else assignment
            )
            self._fork(own, request, ProgressSlot(values, index))
        if held is not None:
            held.close()

    def _fork(self, assignment: RankAssignment, request: StartRanks, slot: ProgressSlot) -> None:
        here, there = _FORK.Pipe(duplex=False)
        asking, asked = _FORK.Pipe()
        stacks = os.memfd_create(f"raybench-stacks-{assignment.rank}")
        life = _Life(assignment=assignment, request=request, pipe=there, slot=slot, stacks=stacks, recorder=asked)
        process = _FORK.Process(target=_rank_main, args=(life,), name=f"raybench-rank-{assignment.rank}")
        process.start()
        there.close()
        asked.close()
        output = Path(request.log_folder, output_name(assignment.rank))
        frames = Frames(here.fileno())
        rank = _Rank(
            process=process,
            pipe=here,
            frames=frames,
            slot=slot,
            output=output,
            stacks=stacks,
            recorder=asking,
            looks=StoppedLooks(process.pid),
        )
        self._ranks[assignment.rank] = rank
        self._selector.register(here, selectors.EVENT_READ, lambda: self._heard(assignment.rank))

    def _heard(self, number: int) -> None:
        rank = self._ranks.get(number)
        if rank is None or rank.pipe.closed:
            return  # ended since the selector reported it
        try:
            for data in rank.frames.read():
                self._pass_on(data)
        except (EOFError, OSError):
            self._gone(number, rank)

    def _gone(self, number: int, rank: _Rank) -> None:
        self._selector.unregister(rank.pipe)
        rank.pipe.close()
        rank.process.join(_END_SECONDS)
        code = rank.process.exitcode
        self._pass_on(
            encode(RankExited(rank=number, code=-999 if code is None else code, output_tail=tail_of(rank.output)))
        )

    def positions(self) -> tuple[RankPosition, ...]:
        """Where every rank is, read without its help."""
        return tuple(_position(number, rank) for number, rank in sorted(self._ranks.items()))

    def marks(self) -> tuple[RankMark, ...]:
        """How far every rank has come that has not ended."""
        return tuple(_mark(number, rank) for number, rank in sorted(self._ranks.items()) if not rank.pipe.closed)

    def look(self) -> int:
        """Look whether ranks are stopped. Returns how many ranks there are."""
        for rank in self._ranks.values():
            rank.looks.look()
        return len(self._ranks)

    def watched(self) -> tuple[Watched, ...]:
        """Every rank as ``rank_activity`` looks at it."""
        return tuple(
            Watched(rank=number, pid=rank.process.pid, slot=rank.slot, stacks=rank.stacks, recorder=rank.recorder)
            for number, rank in sorted(self._ranks.items())
        )

    def stop(self) -> RanksStopped:
        """Kill every rank that is left, with its process group, and wait for it."""
        for rank in self._ranks.values():
            if rank.process.is_alive() and rank.process.pid is not None:
                _kill_group(rank.process.pid)
        deadline = time.monotonic() + _END_SECONDS
        for rank in self._ranks.values():
            rank.process.join(max(deadline - time.monotonic(), 0.01))
            if not rank.pipe.closed:
                self._selector.unregister(rank.pipe)
                rank.pipe.close()
            rank.recorder.close()
            rank.looks.close()
            os.close(rank.stacks)
        self._ranks.clear()
        return RanksStopped()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # first by itself: it may not have made its own group yet
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _position(number: int, rank: _Rank) -> RankPosition:
    position = rank.slot.read()
    return RankPosition(
        rank=number,
        state=state_of(rank.process.pid),
        phase=position.phase,
        benchmark=position.benchmark,
        point=position.point,
        block=position.block,
        iteration=position.iteration,
    )


def _mark(number: int, rank: _Rank) -> RankMark:
    slot = rank.slot
    return RankMark(
        rank=number,
        state=state_of(rank.process.pid),
        position=slot.read(),
        moves=slot.moves,
        usual_seconds=slot.usual_seconds(),
        operation=slot.last_operation(),
        looks=rank.looks.looks,
        stopped_looks=rank.looks.stopped,
        stops=rank.looks.stops,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """What a forked rank is handed."""

    assignment: RankAssignment
    request: StartRanks
    pipe: Connection
    slot: ProgressSlot
    stacks: int
    recorder: Connection


def _rank_main(life: _Life) -> None:
    """What a forked rank does: its own session, files and variables first, then the plan."""
    assignment, request, pipe = life.assignment, life.request, life.pipe
    die_with_parent()
    faulthandler.register(STACK_SIGNAL, file=life.stacks, all_threads=True)
    os.setsid()  # its own group to be ended by, and its own scheduling group, as torchrun gives each rank
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides what Ctrl-C means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _set_variables(request.variables, assignment, request.log_folder)
    _redirect_output(Path(request.log_folder, output_name(assignment.rank)))
    cap = LogCap(Path(request.log_folder, log_name(assignment.rank)), request.log_limit_bytes)

    def emit(event: Event) -> None:
        pipe.send_bytes(encode(event))
        cap.enforce()

    from raybench.benchmarks.rank.flight_record import answer_questions  # imported by the parent
    from raybench.benchmarks.rank.run import run_rank

    answer_questions(life.recorder)
    good = run_rank(assignment, request.plan, emit, life.slot)
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if good else 1)  # after an error, threads of a broken backend may never end


def _set_variables(variables: dict[str, str | None], assignment: RankAssignment, log_folder: str) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.environ[FOLDER_VARIABLE] = log_folder
    os.environ["NCCL_DEBUG_FILE"] = str(Path(log_folder, log_name(assignment.rank)))
    for name in ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"):  # PyTorch adds the rank
        os.environ.setdefault(name, str(Path(log_folder, FLIGHT_RECORD)))
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")
    os.environ |= {
        "RANK": str(assignment.rank),
        "LOCAL_RANK": str(assignment.local_rank),
        "WORLD_SIZE": str(assignment.world_size),
    }


def _redirect_output(path: Path) -> None:
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # a full disk must not stop a rank from measuring
        target = os.open(os.devnull, os.O_WRONLY)
    source = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((source, 0), (target, 1), (target, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor) if descriptor > 2 and number != 1 else None
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.stderr.write(f"raybench rank started at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n")
