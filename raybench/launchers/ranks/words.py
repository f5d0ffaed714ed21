"""What is typed to start ranks by torchrun or mpirun, on one node or on several. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.errors import UsageError
from raybench.launchers.ranks.place import DEFAULT_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksRequest:
    """Nodes, ranks on each, and where rank 0 is. ``hosts``: names of the nodes, the first is rank 0's; for mpirun.

    ``options`` are more options of the launcher. ``python`` has raybench on every node. Raises UsageError.
    """

    nodes: int | None = None
    ranks_per_node: int = 1
    master_address: str | None = None
    master_port: int = DEFAULT_PORT
    hosts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    python: str

    def __post_init__(self) -> None:
        if self.node_count < 1 or self.ranks_per_node < 1:
            raise UsageError("--nodes and --gpus-per-node count from 1")
        if not 0 < self.master_port < 65536:
            raise UsageError(f"--master-port is {self.master_port}; ports are 1 to 65535")
        if self.hosts and self.nodes not in (None, len(self.hosts)):
            raise UsageError(f"--hosts names {len(self.hosts)} nodes and --nodes is {self.nodes}; leave --nodes away")
        if self.node_count > 1 and not self.meeting:
            raise UsageError(
                "on several nodes the ranks have to know where rank 0 is: give --master-address, the address of the "
                "first node that the others reach"
            )

    @property
    def node_count(self) -> int:
        """Nodes of the run."""
        return len(self.hosts) or (1 if self.nodes is None else self.nodes)

    @property
    def meeting(self) -> str:
        """The address of rank 0's node; empty where nobody said it."""
        return self.master_address or (self.hosts[0] if self.hosts else "")


def torchrun_words(request: RanksRequest, words: Sequence[str]) -> list[str]:
    """The command that is started on every node alike; torchrun numbers the nodes as they come."""
    if request.node_count == 1:
        place = ["--standalone"]
    else:
        meeting = f"{request.meeting}:{request.master_port}"
        place = [
            *(f"--nnodes={request.node_count}", "--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}"),
            "--rdzv-id=raybench",
        ]
    return [
        *(request.python, "-P", "-m", "torch.distributed.run", *place, f"--nproc-per-node={request.ranks_per_node}"),
        *(*request.options, "-m", "raybench", *rank_words(words)),
    ]


def mpirun_words(request: RanksRequest, words: Sequence[str]) -> list[str]:
    """The one command, started on any of the nodes, that starts the ranks of all (Open MPI)."""
    hosts = ",".join(f"{host}:{request.ranks_per_node}" for host in request.hosts)
    meeting = request.meeting or "127.0.0.1"
    return [
        *("mpirun", "-np", str(request.node_count * request.ranks_per_node)),
        *(["--host", hosts] if hosts else ["--oversubscribe"] * (request.node_count == 1)),
        *("--map-by", f"ppr:{request.ranks_per_node}:node", "--bind-to", "none"),
        *("-x", f"MASTER_ADDR={meeting}", "-x", f"MASTER_PORT={request.master_port}", *request.options),
        *(request.python, "-P", "-m", "raybench", *rank_words(words)),
    ]


def rank_words(words: Sequence[str]) -> list[str]:
    """What each rank is started with."""
    return ["launch", "rank", "--", *words]
