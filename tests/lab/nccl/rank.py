"""One rank of NCCL over the emulated driver: ``python -I -S rank.py LIBRARY RANK WORLD_SIZE MEETING [STEP...]``.

MEETING is a path that all ranks see: rank 0 writes the unique id there, the others wait for it. Steps, in order: init,
split, allreduce[=COUNT], broadcast, broadcast-from=ROOT, sendrecv, put, sleep=SECONDS, abort, destroy, die (SIGKILL),
stop, die-in=SECONDS, files=LIMIT, link-down, ras, say=TEXT, meet (wait for all, then end). Results go to stdout.
RANK_DEVICE, RANK_RANK and RANK_WORLD_SIZE are a launcher that tells this process something else; with RANK_OWN_ID each
rank makes its id itself, as with NCCL_COMM_ID.
"""

import ctypes as c
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

SUCCESS, IN_PROGRESS = 0, 7
NOT_READY = 600
FLOAT, SUM = 7, 0
MEET_SECONDS = 15
RAS_PORT = 28028


class UniqueId(c.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = (("internal", c.c_char * 128),)


class Rank:
    """A process of the job: the library, its communicator, and what it says."""

    def __init__(self, library: str, rank: int, world_size: int, meeting: Path) -> None:
        self.rank = int(os.environ.get("RANK_RANK", rank))
        self.world_size = int(os.environ.get("RANK_WORLD_SIZE", world_size))
        self.meeting = meeting
        self.driver = c.CDLL("libcuda.so.1")
        self.nccl = c.CDLL(library)
        self.nccl.ncclGetErrorString.restype = c.c_char_p
        self.communicator = c.c_void_p()

    def say(self, *words: object) -> None:
        """One line of this rank."""
        text = " ".join(map(str, words))
        os.write(1, f"rank {self.rank}: {text}\n".encode())  # a line at once: others write to the same file

    def check(self, name: str, code: int) -> None:
        """Say what a call gave; after an error end, as a framework would."""
        self.say(name, "->", code, self.nccl.ncclGetErrorString(code).decode())
        if code not in (SUCCESS, IN_PROGRESS):
            if hasattr(self.nccl, "ncclGetLastError"):
                self.nccl.ncclGetLastError.restype = c.c_char_p
                said = self.nccl.ncclGetLastError(None) or b""
                self.say("last error:", said.decode(errors="replace").strip())
            os._exit(10 + code)

    def call(self, name: str, *arguments: object) -> None:
        """One call of NCCL."""
        self.check(name, getattr(self.nccl, name)(*arguments))

    def driver_call(self, name: str, *arguments: object) -> int:
        """One call of the driver, looked up as NCCL does, so that faults planted in it reach it."""
        function = c.c_void_p()
        self.driver.cuGetProcAddress(name.encode(), c.byref(function), 12000, c.c_uint64(0))
        return int(c.CFUNCTYPE(c.c_int, *[c.c_void_p] * len(arguments))(function.value or 0)(*arguments))

    def take_device(self) -> None:
        """Make the local rank's GPU current."""
        device = int(os.environ.get("RANK_DEVICE", os.environ.get("LOCAL_RANK", "0")))
        context = c.c_void_p()
        for name, arguments in (
            ("cuInit", (0,)),
            ("cuDevicePrimaryCtxRetain", (c.addressof(context), device)),
            ("cuCtxSetCurrent", (context,)),
        ):
            code = self.driver_call(name, *(getattr(value, "value", value) for value in arguments))
            if code != SUCCESS:
                sys.exit(f"rank {self.rank}: {name} -> {code}")

    def unique_id(self) -> UniqueId:
        """The id of the job, from rank 0 through the file."""
        unique = UniqueId()
        if self.rank == 0 or "RANK_OWN_ID" in os.environ:
            self.call("ncclGetUniqueId", c.byref(unique))
            if not self.meeting.exists():  # a second rank 0 keeps to itself
                fresh = self.meeting.with_suffix(f".{socket.gethostname()}")
                fresh.write_bytes(bytes(unique))
                fresh.rename(self.meeting)
            return unique
        while not self.meeting.exists():
            time.sleep(0.02)
        return UniqueId.from_buffer_copy(self.meeting.read_bytes())

    def buffer(self, count: int) -> int:
        """Device memory of ``count`` floats, each rank + 1."""
        place = c.c_uint64()
        code = self.driver_call("cuMemAlloc", c.addressof(place), 4 * count)
        if code != SUCCESS:
            sys.exit(f"rank {self.rank}: cuMemAlloc -> {code}")
        c.memmove(place.value, (c.c_float * count)(*[self.rank + 1.0] * count), 4 * count)
        return place.value

    def collective(self, name: str, count: int) -> None:
        """Launch one operation and wait for it."""
        send, received = c.c_void_p(self.buffer(count)), self.buffer(count)
        receive, size = c.c_void_p(received), c.c_size_t(count)
        if name == "allreduce":
            self.call("ncclAllReduce", send, receive, size, FLOAT, SUM, self.communicator, None)
        elif name == "broadcast":
            self.call("ncclBroadcast", send, receive, size, FLOAT, 0, self.communicator, None)
        else:
            after, before = (self.rank + 1) % self.world_size, (self.rank - 1) % self.world_size
            self.call("ncclGroupStart")
            self.call("ncclSend", send, size, FLOAT, after, self.communicator, None)
            self.call("ncclRecv", receive, size, FLOAT, before, self.communicator, None)
            self.call("ncclGroupEnd")
        self.finish()
        if os.environ.get("FAKEGPU_KERNEL") == "play":
            self.say(name, "gave", (c.c_float * 4).from_address(received)[:])

    def broadcast_from(self, root: int) -> None:
        """A broadcast of which the program says where it comes from."""
        data, size = c.c_void_p(self.buffer(8)), c.c_size_t(8)
        self.call("ncclBroadcast", data, data, size, FLOAT, root, self.communicator, None)

    def put(self) -> None:
        """Write into another rank's memory without its doing."""
        data, nothing = c.c_void_p(self.buffer(8)), c.c_size_t(0)
        peer = (self.rank + 1) % self.world_size
        call = (data, c.c_size_t(8), FLOAT, peer, None, nothing, 0, 0, c.c_uint(0), self.communicator, None)
        self.call("ncclPutSignal", *call)

    def finish(self) -> None:
        """Wait for the stream as a framework's watchdog does: look for the communicator's asynchronous error too."""
        code = c.c_int()
        while self.driver_call("cuStreamQuery", None) == NOT_READY:
            self.nccl.ncclCommGetAsyncError(self.communicator, c.byref(code))
            if code.value not in (SUCCESS, IN_PROGRESS):
                self.say("asynchronous error:", self.nccl.ncclGetErrorString(code.value).decode())
                self.nccl.ncclCommAbort(self.communicator)
                self.say("aborted")
                os._exit(20 + code.value)
            time.sleep(0.01)

    def initialise(self) -> None:
        """Join the communicator of all ranks."""
        self.call("ncclCommInitRank", c.byref(self.communicator), self.world_size, self.unique_id(), self.rank)

    def split(self) -> None:
        """A second communicator, of the ranks that are even or odd."""
        child = c.c_void_p()
        self.call("ncclCommSplit", self.communicator, self.rank % 2, self.rank, c.byref(child), None)

    def meet(self) -> None:
        """End together and quietly: what threads say of peers that exit a moment earlier is no part of the run."""
        self.say("end")
        for phase in ("end", "quiet"):
            Path(f"{self.meeting}.{phase}{self.rank}").touch()
            stop = time.monotonic() + MEET_SECONDS
            while time.monotonic() < stop and not all(
                Path(f"{self.meeting}.{phase}{rank}").exists() for rank in range(self.world_size)
            ):
                time.sleep(0.01)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
        os._exit(0)

    def ask_ras(self) -> None:
        """What ncclras prints: the answer of the RAS thread of this node."""
        with socket.create_connection(("localhost", RAS_PORT), timeout=10) as connection:
            connection.sendall(b"client protocol 2\ntimeout 3\nverbose status\n")
            while piece := connection.recv(65536):
                sys.stdout.write(piece.decode(errors="replace"))
        sys.stdout.flush()

    def step(self, name: str, value: str) -> None:
        """Do one step."""
        steps: dict[str, Callable[[], object]] = {
            "init": self.initialise,
            "split": self.split,
            "meet": self.meet,
            "ras": self.ask_ras,
            "put": self.put,
            "broadcast-from": lambda: self.broadcast_from(int(value)),
            "abort": lambda: self.call("ncclCommAbort", self.communicator),
            "destroy": lambda: self.call("ncclCommDestroy", self.communicator),
            "sleep": lambda: time.sleep(float(value)),
            "say": lambda: os.write(1, f"{value}\n".encode()),
            "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
            "die-in": lambda: threading.Timer(float(value), os.kill, (os.getpid(), signal.SIGKILL)).start(),
            "files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (int(value), int(value))),
            "link-down": lambda: subprocess.run(["ip", "link", "set", "eth0", "down"], check=True),
        }
        if name in ("allreduce", "broadcast", "sendrecv"):
            self.collective(name, int(value or 1024))
        else:
            steps[name]()


def main() -> None:
    """Do the steps, then end without the library's destructors, as a framework that exits does."""
    library, rank, world_size, meeting, *steps = sys.argv[1:]
    process = Rank(library, int(rank), int(world_size), Path(meeting))
    process.take_device()
    for step in steps:
        name, _, value = step.partition("=")
        process.step(name, value)
    process.say("end")
    os._exit(0)


if __name__ == "__main__":
    main()
