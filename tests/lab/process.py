"""Processes as the kernel lists them: which run in a node, and since when one does."""

from dataclasses import dataclass
from pathlib import Path

_RAY_TITLES = {"ray::IDLE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a node.

    ``pid`` and ``parent_pid`` are as this machine counts, so ``os.kill(process.pid, SIGSTOP)`` works from a test;
    ``node_pid`` is the same process as the node counts. ``state`` is the kernel's letter: R, S, D, T (stopped).
    """

    pid: int
    parent_pid: int
    node_pid: int
    state: str
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.node_pid} in the node, {self.state}): {self.command}"


def pid_namespace(pid: int) -> str:
    """The pid namespace of a process, such as ``pid:[4026532575]``. Raises OSError when the process is gone."""
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def processes_of(namespace: str) -> list[Process]:
    """Every process in a pid namespace, oldest first, but for those that have ended and wait to be reaped.

    One whose escort was killed is an orphan of this machine's pid 1, which may take a second to reap it.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if pid_namespace(int(entry.name)) == namespace:
                    found.append(_read(entry))
            except OSError:
                continue
    return sorted((process for process in found if process.state != "Z"), key=lambda process: process.node_pid)


def leftovers(processes: list[Process]) -> list[Process]:
    """The processes of one node that are neither its pid 1, its sshd, nor Ray's daemons and idle workers.

    A session that came in by SSH, and whatever runs below a worker of Ray's, counts as left over.
    """
    of_ray: set[int] = set()
    left = []
    for process in processes:
        is_sshd = process.command.startswith("sshd: ") and "[listener]" in process.command
        if is_ray_start(process.command) or (process.parent_pid in of_ray and is_ray_daemon(process.command)):
            of_ray.add(process.pid)
        elif process.node_pid != 1 and not is_sshd:  # an orphan, which pid 1 has for a child, is left over
            left.append(process)
    return left


def is_ray_start(command: str) -> bool:
    """Whether a command line is the ``ray start --block`` that the lab keeps as its child."""
    return " -m tests.lab.lean_start start " in command


def is_ray_daemon(command: str) -> bool:
    """Whether a child of ``ray start`` belongs to the node, not to a job: all but workers that were given work."""
    return not command.startswith("ray::") or command in _RAY_TITLES


def children_of(pid: int) -> list[int]:
    """Pids of the children of a process, found by looking at every process: the kernel may lack the shorter way."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == pid]


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _read(entry: Path) -> Process:
    fields = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(
        pid=int(entry.name),
        parent_pid=int(fields["PPid"]),
        node_pid=int(fields["NSpid"].split()[-1]),
        state=fields["State"][0],
        command=command or f"[{fields['Name']}]",
    )
