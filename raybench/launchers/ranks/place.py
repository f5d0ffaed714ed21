"""Which rank this process is, by the variables of whoever started it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from raybench.errors import UsageError

DEFAULT_PORT = 29500
# Launcher: the variables of rank, local rank, ranks in all and ranks on this machine. The first whose rank is set counts.
_LAUNCHERS: tuple[tuple[str, str, str, str, str], ...] = (
    ("torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("mpirun (MPICH, Intel MPI)", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("srun", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"),
)  # fmt: skip
_MOST_RANKS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedRank:
    """A rank as its launcher numbers it. ``master_address`` and ``master_port``: where all ranks meet."""

    launcher: str
    rank: int
    local_rank: int
    world_size: int
    ranks_on_node: int
    master_address: str
    master_port: int


def rank_of(environment: Mapping[str, str]) -> LaunchedRank:
    """The rank that variables tell of. Raises UsageError where no launcher set any, or they contradict each other."""
    found = next((row for row in _LAUNCHERS if environment.get(row[1], "") != ""), None)
    if found is None:
        raise UsageError(
            "no launcher has set the number of this rank: start it by torchrun, mpirun or srun; 'raybench launch "
            "torchrun --dry-run -- run' prints the command"
        )
    launcher, *names = found
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise UsageError(f"{launcher} has set {names[0]}, and not {', '.join(missing)}")
    rank, local_rank, world_size = (_number(name, environment[name]) for name in names[:3])
    on_node = _on_this_node(names[3], environment[names[3]], _number("SLURM_NODEID", environment.get("SLURM_NODEID", "0")))
    if not (rank < world_size and local_rank < on_node <= world_size):
        raise UsageError(
            f"{launcher} says that this is rank {rank} of {world_size} and {local_rank} of {on_node} on its node, which "
            "cannot be"
        )
    port = _number("MASTER_PORT", environment.get("MASTER_PORT") or str(DEFAULT_PORT))
    return LaunchedRank(
        launcher=launcher,
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        ranks_on_node=on_node,
        master_address=_master(environment, launcher, alone=on_node == world_size),
        master_port=port,
    )


def _master(environment: Mapping[str, str], launcher: str, *, alone: bool) -> str:
    named = environment.get("MASTER_ADDR") or environment.get("SLURM_LAUNCH_NODE_IPADDR", "" if not alone else "")
    if alone:
        return environment.get("MASTER_ADDR") or "127.0.0.1"
    if not environment.get("MASTER_ADDR"):
        raise UsageError(
            f"the ranks are on several nodes, and {launcher} does not say where they meet: set MASTER_ADDR to the address "
            "of rank 0's node for all of them (mpirun -x MASTER_ADDR=10.0.0.1 ...)"
        )
    return named


def _on_this_node(name: str, text: str, node: int) -> int:
    """``8``, or Slurm's ``8(x3),4`` for tasks by node."""
    if name != "SLURM_TASKS_PER_NODE":
        return _number(name, text)
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,7})(?:\(x([0-9]{1,7})\))?", part)
        if not found or len(counts) > node:
            break
        counts += [int(found[1])] * min(int(found[2] or 1), _MOST_RANKS)
    if node >= len(counts):
        raise UsageError(f"{name} is {text!a}, which does not tell how many tasks node {node} has")
    return counts[node]


def _number(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,7}", text):
        raise UsageError(f"{name} is {text!a}, which is not a number")
    return int(text)
