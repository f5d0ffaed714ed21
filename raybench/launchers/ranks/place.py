"""Which rank this process is, by the variables of whoever started it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from raybench.errors import UsageError
from raybench.host_ranges import expanded

DEFAULT_PORT = 29500
_MOST_RANKS = 1_000_000
_FIRST_PORT, _PORTS, _STEP = 20000, 12000, 16  # by the job's number, so that two jobs of a node begin elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launcher:
    """Variables of a launcher: rank, local rank, ranks in all, ranks on this machine, and what names its job."""

    name: str
    rank: str
    local_rank: str
    world_size: str
    ranks_on_node: str
    job: str


# The first whose rank is set counts: mpirun and torchrun run inside of jobs of Slurm, whose variables are set as well.
# torchrun: docs.pytorch.org/docs/stable/elastic/run.html; Open MPI: docs.open-mpi.org, "Environment variables";
# MPICH's Hydra and Intel MPI set PMI_* and MPI_LOCAL*; srun: "Output environment variables" of srun(1).
_LAUNCHERS = (
    _Launcher(
        name="torchrun",
        rank="RANK",
        local_rank="LOCAL_RANK",
        world_size="WORLD_SIZE",
        ranks_on_node="LOCAL_WORLD_SIZE",
        job="TORCHELASTIC_RUN_ID",
    ),
    _Launcher(
        name="mpirun (Open MPI)",
        rank="OMPI_COMM_WORLD_RANK",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
        world_size="OMPI_COMM_WORLD_SIZE",
        ranks_on_node="OMPI_COMM_WORLD_LOCAL_SIZE",
        job="OMPI_MCA_ess_base_jobid",
    ),
    _Launcher(
        name="mpirun (MPICH, Intel MPI)",
        rank="PMI_RANK",
        local_rank="MPI_LOCALRANKID",
        world_size="PMI_SIZE",
        ranks_on_node="MPI_LOCALNRANKS",
        job="PMI_KVS",
    ),
    _Launcher(
        name="srun",
        rank="SLURM_PROCID",
        local_rank="SLURM_LOCALID",
        world_size="SLURM_NTASKS",
        ranks_on_node="SLURM_TASKS_PER_NODE",
        job="SLURM_JOB_ID",
    ),
)
_STEP_TASKS = {"SLURM_NTASKS": "SLURM_STEP_NUM_TASKS", "SLURM_TASKS_PER_NODE": "SLURM_STEP_TASKS_PER_NODE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedRank:
    """A rank as its launcher numbers it. ``master_address`` and ``master_port``: where rank 0 is found.

    ``port_is_taken``: the launcher itself listens there. ``job``: what names the job to all its ranks alike.
    """

    launcher: str
    rank: int
    local_rank: int
    world_size: int
    ranks_on_node: int
    master_address: str
    master_port: int
    port_is_taken: bool = False
    job: str = ""


def rank_of(environment: Mapping[str, str]) -> LaunchedRank:
    """The rank that variables tell of. Raises UsageError where no launcher set any, or they contradict each other."""
    found = next((one for one in _LAUNCHERS if environment.get(one.rank, "") != ""), None)
    if found is None:
        raise UsageError(
            "no launcher has set the number of this rank: start it by torchrun, mpirun or srun; 'raybench launch "
            "torchrun --dry-run -- run' prints the command"
        )
    told = {name: _told(environment, name) for name in (found.rank, found.local_rank, found.world_size)}
    on_node = _told(environment, found.ranks_on_node)
    missing = [name for name, text in {**told, found.ranks_on_node: on_node}.items() if not text]
    if missing:
        raise UsageError(f"{found.name} has set {found.rank}, and not {', '.join(missing)}")
    rank, local_rank, world_size = (_number(name, text) for name, text in told.items())
    ranks_on_node = _on_this_node(found.ranks_on_node, on_node, environment)
    if not (rank < world_size and local_rank < ranks_on_node <= world_size):
        raise UsageError(
            f"{found.name} says that this is rank {rank} of {world_size} and {local_rank} of {ranks_on_node} on its "
            "node, which cannot be"
        )
    return LaunchedRank(
        launcher=found.name,
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        ranks_on_node=ranks_on_node,
        master_address=_master(environment, found, alone=ranks_on_node == world_size),
        master_port=_port(environment, found),
        port_is_taken=found.name == "torchrun",
        job=environment.get(found.job, ""),
    )


def _told(environment: Mapping[str, str], name: str) -> str:
    """Of Slurm the numbers of the step, which may be smaller than its job's."""
    step = environment.get(_STEP_TASKS.get(name, ""), "")
    return step or environment.get(name, "")


def _master(environment: Mapping[str, str], launcher: _Launcher, *, alone: bool) -> str:
    """Where rank 0 is: as told, as Slurm orders its nodes, or this machine where all ranks are here."""
    named = environment.get("MASTER_ADDR", "")
    nodes = environment.get("SLURM_STEP_NODELIST", "") if launcher.name == "srun" else ""
    if named or nodes:
        return named or next(iter(expanded(nodes)))
    if alone:
        return "127.0.0.1"
    raise UsageError(
        f"the ranks are on several nodes, and {launcher.name} does not say where rank 0 is: set MASTER_ADDR to the "
        "address of its node for all of them (mpirun -x MASTER_ADDR=10.0.0.1 ...)"
    )


def _port(environment: Mapping[str, str], launcher: _Launcher) -> int:
    if text := environment.get("MASTER_PORT", ""):
        return _number("MASTER_PORT", text)
    job = environment.get(launcher.job, "")
    return _FIRST_PORT + int(job) * _STEP % _PORTS if re.fullmatch("[0-9]{1,12}", job) else DEFAULT_PORT


def _on_this_node(name: str, text: str, environment: Mapping[str, str]) -> int:
    """``8``, or of Slurm ``8(x3),4``: the tasks of each node in turn."""
    if "SLURM" not in name:
        return _number(name, text)
    node = _number("SLURM_NODEID", environment.get("SLURM_NODEID", "0"))
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
