"""Which rank a process is by its launcher's variables, what is typed, and how ranks and run meet: no torch, no Ray."""

import shlex
import socket
import threading
from multiprocessing import AuthenticationError
from typing import Any

import pytest

from raybench.errors import IncompleteRunError, UsageError
from raybench.execution.launched.meeting import find, key_of, listen, ports_near, proven
from raybench.execution.launched.messages import Hello
from raybench.execution.launched.session import nodes_of
from raybench.launchers.command_words import check_words
from raybench.launchers.ranks.nsys import OPEN_ADDRESS, nsys_lines
from raybench.launchers.ranks.place import LaunchedRank, rank_of
from raybench.launchers.ranks.rank_task import shared_words
from raybench.launchers.ranks.words import RanksRequest, mpirun_words, torchrun_words

# As the launchers set them, shortened: torchrun 2.13, mpirun of Open MPI 4.1.4, mpiexec.hydra of MPICH 4, srun 22.05.
TORCHRUN = {
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "gpu-01",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "raybench",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_COMM_WORLD_NODE_RANK": "3",
    "PMIX_RANK": "3",
    "OMPI_MCA_ess_base_jobid": "3573809153",
}
HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "PMI_FD": "8"}
SRUN = {
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "6",
    "SLURM_TASKS_PER_NODE": "2(x3)",
    "SLURM_NODEID": "2",
    "SLURM_JOB_ID": "1417",
    "SLURM_STEP_NODELIST": "gpu[03-05]",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
}


def place(environment: dict[str, str]) -> tuple[Any, ...]:
    rank = rank_of(environment)
    return rank.launcher.split()[0], rank.rank, rank.local_rank, rank.world_size, rank.ranks_on_node


def test_each_launcher_says_which_rank_this_is() -> None:
    assert place(TORCHRUN) == ("torchrun", 9, 1, 16, 8)
    assert place(OPEN_MPI) == ("mpirun", 3, 3, 4, 4)
    assert place(HYDRA) == ("mpirun", 0, 0, 2, 2)
    assert place(SRUN) == ("srun", 5, 1, 6, 2)


def test_rank_0_is_found_where_the_launcher_says() -> None:
    under_slurm = rank_of(SRUN)
    assert (under_slurm.master_address, under_slurm.master_port) == ("gpu03", 20000 + 1417 * 16 % 12000)
    assert rank_of(SRUN | {"MASTER_ADDR": "10.0.0.3", "MASTER_PORT": "4000"}).master_address == "10.0.0.3"
    torchrun = rank_of(TORCHRUN)
    assert (torchrun.master_address, torchrun.master_port, torchrun.port_is_taken) == ("gpu-01", 29500, True)
    assert rank_of(OPEN_MPI).master_address == "127.0.0.1"  # all four are here


def test_the_launcher_of_this_process_counts_and_not_the_job_around_it() -> None:
    assert place(SRUN | OPEN_MPI)[0] == "mpirun"
    assert place(SRUN | TORCHRUN)[0] == "torchrun"


def test_a_step_smaller_than_its_job_counts_its_own_tasks() -> None:
    step = {"SLURM_NTASKS": "64", "SLURM_TASKS_PER_NODE": "8(x8)"}
    assert place(SRUN | step) == ("srun", 5, 1, 6, 2)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "no launcher has set the number of this rank"),
        ({"SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/slurm.conf"}, "no launcher has set"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "torchrun has set RANK, and not LOCAL_RANK, LOCAL_WORLD_SIZE"),
        (TORCHRUN | {"RANK": "16"}, "which cannot be"),
        (TORCHRUN | {"WORLD_SIZE": "two"}, "not a number"),
        (TORCHRUN | {"MASTER_PORT": "29500; id"}, "not a number"),
        (OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "8"}, "set MASTER_ADDR"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, "does not tell how many tasks node 2 has"),
    ],
)
def test_what_cannot_be_a_rank_is_refused_with_the_next_step(environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rank_of(environment)


def test_torchrun_is_typed_alike_on_every_node() -> None:
    request = RanksRequest(nodes=2, ranks_per_node=8, master_address="gpu-01", python="/env/python")
    assert torchrun_words(request, ("run", "--suite", "p2p")) == [
        *("/env/python", "-P", "-m", "torch.distributed.run", "--nnodes=2", "--rdzv-backend=c10d"),
        *("--rdzv-endpoint=gpu-01:29500", "--rdzv-id=raybench", "--nproc-per-node=8"),
        *("-m", "raybench", "launch", "rank", "--", "run", "--suite", "p2p"),
    ]
    assert "--standalone" in torchrun_words(RanksRequest(python="python"), ("run",))


def test_mpirun_is_told_the_nodes_and_where_rank_0_is() -> None:
    words = mpirun_words(RanksRequest(hosts=("a", "b"), ranks_per_node=4, python="python"), ("run",))
    assert words[: words.index("--map-by")] == ["mpirun", "-np", "8", "--host", "a:4,b:4"]
    assert {"ppr:4:node", "MASTER_ADDR=a", "MASTER_PORT=29500"} <= set(words)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"nodes": 2}, "give --master-address"),
        ({"nodes": 3, "hosts": ("a", "b")}, "--hosts names 2 nodes and --nodes is 3"),
        ({"ranks_per_node": 0}, "count from 1"),
        ({"master_port": 70000}, "ports are 1 to 65535"),
    ],
)
def test_a_request_that_cannot_be_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RanksRequest(python="python", **values)


def test_a_launch_of_ranks_leaves_the_folder_to_the_command_and_not_the_address() -> None:
    check_words(("run", "--output-dir", "/results"), own_folder=True)
    with pytest.raises(UsageError, match="--address after -- is not taken"):
        check_words(("run", "--address", "head:6379"), own_folder=True)


def test_ranks_and_run_meet_with_the_key_alone() -> None:
    key = key_of("secret", "job", 29500)
    with listen([0]) as listener:
        port = listener.getsockname()[1]
        outcomes: list[str] = []

        def serve() -> None:
            for _ in range(2):
                accepted, _ = listener.accept()
                try:
                    with proven(accepted, key) as connection:
                        outcomes.append(connection.recv_bytes().decode())
                except (AuthenticationError, EOFError, OSError):
                    outcomes.append("refused")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(IncompleteRunError, match="no run of this job"):
            find("127.0.0.1", [port], key_of("another", "job", 29500), 0.0)
        connection, own, there = find("127.0.0.1", [port], key, 60.0)
        with connection:
            connection.send_bytes(b"hello")
            thread.join(60)
    assert outcomes == ["refused", "hello"]
    assert (own, there) == ("127.0.0.1", "127.0.0.1")


def test_a_port_that_is_taken_is_passed_by() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with listen([port, 0]) as found:
            assert found.getsockname()[1] != port
        with pytest.raises(IncompleteRunError, match="none of the ports"):
            listen([port])
    assert ports_near(29500, above=True)[0] == 29501
    assert max(ports_near(65534, above=False)) < 65536


class _Link:
    def __init__(self, rank: int, host: str, local_rank: int, each: int, words: tuple[str, ...] = ("run",)) -> None:
        self.hello = Hello(
            launcher="srun",
            rank=rank,
            local_rank=local_rank,
            world_size=4,
            ranks_on_node=each,
            host=host,
            address="10.0.0.1",
            reached="10.0.0.1",
            words=words,
        )


def links(*places: tuple[int, str, int, int]) -> list[Any]:
    return [_Link(*one) for one in places]


def test_ranks_are_put_together_by_node_whatever_the_order_they_come_in() -> None:
    groups = nodes_of(links((3, "b", 1, 2), (0, "a", 0, 2), (2, "b", 0, 2), (1, "a", 1, 2)))
    assert [[one.hello.rank for one in group] for group in groups] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([(0, "a", 0, 2), (1, "b", 0, 2), (2, "a", 1, 2), (3, "b", 1, 2)], "--map-by ppr:N:node"),  # dealt in turn
        ([(0, "a", 0, 3), (1, "a", 1, 3), (2, "a", 2, 3), (3, "b", 0, 1)], "be as many on each"),
        ([(0, "a", 0, 1), (0, "b", 0, 1)], "started a rank twice"),
    ],
)
def test_ranks_that_lie_across_nodes_are_refused(places: list[tuple[int, str, int, int]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        nodes_of(links(*places))


def test_ranks_of_another_command_are_refused() -> None:
    other: Any = _Link(1, "b", 0, 1, ("train",))
    with pytest.raises(UsageError, match="rank 1 on b was started with another command"):
        nodes_of([*links((0, "a", 0, 1)), other])


def test_a_rank_is_what_it_says() -> None:
    assert isinstance(rank_of(HYDRA), LaunchedRank)


def test_where_results_go_may_differ_between_nodes() -> None:
    words = ("run", "--output-dir", "/tmp/a", "--suite", "p2p", "--output-dir=/tmp/b")
    assert shared_words(words) == ("run", "--suite", "p2p")


def test_lines_for_nsight_systems_are_those_of_the_launchers_with_nsys_before_what_it_has_to_see() -> None:
    request = RanksRequest(nodes=2, ranks_per_node=4, master_address=OPEN_ADDRESS, python="python3")
    lines = dict(nsys_lines(request, ["train", "--model", "my model"]))
    assert list(lines) == ["torchrun", "srun", "mpirun"]
    for line in lines.values():
        assert line.endswith("raybench launch rank -- train --model 'my model'")
        assert "nsys profile --trace=cuda,nvtx,osrt" in line
    assert shlex.split(lines["torchrun"])[0] == "nsys"
    assert '"--rdzv-endpoint=$MASTER_ADDR:29500"' in lines["torchrun"]
    assert lines["srun"].startswith("srun --nodes=2 --ntasks-per-node=4 nsys profile ")
    assert "'--output=raybench-rank-%q{SLURM_PROCID}'" in lines["srun"]
    words = shlex.split(lines["mpirun"])
    assert words[:3] == ["mpirun", "-np", "8"]
    assert words.index("-x") < words.index("nsys") < words.index("python3")
