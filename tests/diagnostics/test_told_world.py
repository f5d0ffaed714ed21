"""Ranks and nodes that only the program's own lines name: what is said of the whole job; NCCL's lines win."""

import pytest

from tests.diagnostics.threads import diagnose

STARTED = "n1:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks {} cudaDev 0 busId b000 - Init COMPLETE\n"
AGENT = """\
[2024-04-18 10:41:06,648] torch.distributed.launcher.api: [INFO]   min_nodes        : 2
[2024-04-18 10:41:06,648] torch.distributed.launcher.api: [INFO]   max_nodes        : 2
[2024-04-18 10:41:06,648] torch.distributed.launcher.api: [INFO]   nproc_per_node   : 4
"""
JOINED = """\
ray/0 (CommandActor pid=494406)   group_rank=0
ray/0 (CommandActor pid=494406)   group_world_size=2
ray/0 (CommandActor pid=494406)   global_world_sizes=[8, 8, 8, 8]
"""
WORKERS = """\
(RayTrainWorker pid=7410, ip=10.0.59.242) Setting up process group for: env:// [rank=0, world_size=2]
(TorchTrainer pid=7236) Started distributed worker processes:
(TorchTrainer pid=7236) - (ip=10.0.59.242, pid=7410) world_rank=0, local_rank=0, node_rank=0
(TorchTrainer pid=7236) - (ip=10.0.12.174, pid=3381) world_rank=1, local_rank=0, node_rank=1
"""
DEEPSPEED = """\
stdout: g0001: [2023-06-18 23:37:16,789] [INFO] [launch.py:151:main] nnodes=2, num_local_procs=8, node_rank=0
stdout: g0001: [2023-06-18 23:37:16,789] [INFO] [launch.py:163:main] dist_world_size=16
"""
LIGHTNING = """\
Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16
----------------------------------------------------------------------------------------------------
distributed_backend=nccl
All distributed processes registered. Starting with 16 processes
"""
ACCELERATE = "Distributed environment: DistributedType.FSDP  Backend: nccl\nNum processes: 16\nProcess index: 0\n"
OPTIONS = "[rank3]:[I1204] [PG ID {} Rank 3] ProcessGroupNCCL initialization options: size: {}, global rank: 3\n"
RAS = """\
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         8         1       4-8         8        64   RUNNING      OK
    1         1         8         8        64        64   RUNNING  MISMATCH
"""
TWO_HOSTS = "n1:7:7 [0] NCCL INFO Using network Socket\nn2:7:7 [0] NCCL INFO Using network Socket\n"
GROUPS = "tensor parallel group: rank 1, world_size=4, backend nccl\n"
TYPED = "+ torchrun --nnodes=2 --nproc_per_node=8 train.py\n"


@pytest.mark.parametrize(("text", "size", "nodes"), [
    (AGENT, 8, 2),
    (AGENT.replace("max_nodes        : 2", "max_nodes        : 4"), None, None),  # elastic
    (AGENT.replace("nproc_per_node   : 4\n", "nproc_per_node   : 4\nmin_nodes        : 3\n"), None, None),
    (JOINED, 8, 2),
    (JOINED.replace("[8, 8, 8, 8]", "[8, 8, 4]"), None, 2),
    (WORKERS, 2, 2),
    (WORKERS.replace("world_size=2", "world_size=4"), 4, None),  # two workers of which no line is
    (WORKERS.replace("node_rank=1", "node_rank=0"), 2, 1),
    (DEEPSPEED, 16, 2),
    (LIGHTNING, 16, None),
    (LIGHTNING.replace("MEMBER: 1/16", "MEMBER: 1/8"), None, None),  # two jobs
    (ACCELERATE, 16, None),
    (ACCELERATE.replace("Num processes: 16", "Num processes: 16 of the tokenizer"), None, None),
    ("Num processes: 16\n", None, None),  # of what?
    ("using world size: 16, data-parallel size: 2, tensor-model-parallel size: 8\n", 16, None),
    ("data-parallel world size: 16, rank 3 of nccl\n", None, None),
    (OPTIONS.format("0 PG GUID 0", 16), 16, None),
    (OPTIONS.format("2 PG GUID 4", 8), None, None),  # a group
    ("Rank 3: Completed store-based barrier for key:store_based_barrier_key:1 with 16 nodes.\n", 16, None),
    ("Rank 3: Completed store-based barrier for key:store_based_barrier_key:2 with 8 nodes.\n", None, None),
    ("INFO parallel_state.py:1] world_size=8 rank=0 local_rank=0 distributed_init_method=tcp://n1:1\n", 8, None),
    ("rank 0: initialised the process group over nccl, world size: 16\n", 16, None),
    (GROUPS, None, None),
    ("rank 1 of the data loader, world_size=4\n", None, None),
    ("WORLD_SIZE=2 RANK=0 MASTER_ADDR=n1 NCCL_DEBUG=INFO\n", None, None),  # of pods
    ("the world_size=2.5 of rank 1 with nccl\n", None, None),
    ("rank 0 local_world_size=8 backend nccl\n", None, None),
    (RAS, 64, 8),
    (RAS.replace("RUNNING", "NOCOMM"), None, None),
    (RAS.replace("  64   RUNNING  MISMATCH", "  64   RUNNING on 3 hosts"), 8, 1),
    (TYPED, 16, 2),
    ("PYTHONPATH=. NCCL_DEBUG=INFO python -m torch.distributed.run --nproc_per_node=8 --nnodes=2 a.py\n", 16, 2),
    (TYPED.replace("=2 ", "=1:2 "), None, None),
    (TYPED.replace("=2 ", "=$N "), None, None),
    ("+ torchrun --nproc_per_node=8 train.py\n", None, None),  # PET_NNODES may say how many
    ("usage: for instance torchrun --nnodes=2 --nproc_per_node=8 is what two machines take\n", None, None),
    ("$ mpirun -np 16 -H n1:8,n2:8 python train.py\n", 16, None),
    ("$ mpirun -np 2 hostname\n", None, None),
    ("+ srun --nodes=2 --ntasks-per-node=8 python train.py\n", 16, 2),
    ("+ srun --nodes=2 --ntasks-per-node=1 torchrun --nnodes=2 --nproc_per_node=4 train.py\n", 8, 2),
    (LIGHTNING + TYPED.replace("=8", "=4"), 16, 2),  # what the framework says goes before what was typed
    (STARTED.format(8) + LIGHTNING + DEEPSPEED, 8, None),  # NCCL's own line
    (STARTED.format(16) + DEEPSPEED, 16, 2),
    (STARTED.format(1) + DEEPSPEED, 1, 1),
    (TWO_HOSTS + "[INFO] [launch.py:151:main] nnodes=1, num_local_procs=8, node_rank=0\n", None, None),
])  # fmt: skip
def test_programs_tell_the_size_of_the_job(text: str, size: int | None, nodes: int | None) -> None:
    diagnosis = diagnose(text)
    assert (diagnosis.world_size, diagnosis.nodes) == (size, nodes)


def test_nodes_that_the_launcher_names_tell_that_sockets_are_a_fallback() -> None:
    network = "n1:7:7 [0] NCCL INFO NET/IB : No device found.\nn1:7:7 [0] NCCL INFO Using network Socket\n"
    single = DEEPSPEED.replace("nnodes=2", "nnodes=1").replace("size=16", "size=8")
    found = {text: {one.rule for one in diagnose(network + text).findings} for text in ("", DEEPSPEED, single)}
    assert [text for text, rules in found.items() if "tcp-fallback" in rules] == [DEEPSPEED]
