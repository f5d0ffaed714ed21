"""How many ranks and nodes a job has, as its launcher and its framework say: no line of NCCL's is needed for it.

Only what is said of the whole job counts. ``WORLD_SIZE=2`` alone is the number of pods under Kubeflow, a group of a
tensor parallel model has a world size of its own, and ``--nnodes=1:4`` is a range.
"""

from diagnostics.parsers.programs.rows import rows

_NUMBER = r"[1-9]\d{0,5}(?!\d|[.:]\d)"
_SIZE = rf"(?P<size>{_NUMBER})"
_NODES = rf"(?P<nodes>{_NUMBER})"
_PROMPT = r"^(?:\+{1,3} |\S{0,60}[$#>] ?)?(?:env )?(?:[A-Z_]{2,60}=\S* )*"
_MPI = r"(?:mpirun|mpiexec|horovodrun|orterun)"
_PYTHON = r"(?<![^\s/])(?:python[\d.]*|deepspeed) "
_THROUGH = r"(?:(?:srun|timeout|numactl|nohup|exec|time|singularity|apptainer|enroot|mpirun) (?:.* )?)?"

_SAID = (
    (
        "All distributed processes registered",
        rf"All distributed processes registered\. Starting with {_SIZE} processes",
        "All distributed processes registered. Starting with 16 processes",
    ),
    (
        "All DDP processes registered",
        rf"All DDP processes registered\. Starting ddp with {_SIZE} processes",
        "All DDP processes registered. Starting ddp with 4 processes",
    ),
    (
        "MEMBER: ",
        rf"\bGLOBAL_RANK: \d+, MEMBER: \d+/{_SIZE}",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16",
    ),
    (
        "global_world_sizes=[",
        rf"\bglobal_world_sizes=\[{_SIZE}(?:, (?P=size))*\]",
        "  global_world_sizes=[8, 8, 8, 8]",
    ),
    ("group_world_size=", rf"(?<![^\s(,])group_world_size={_NODES}\s*$", "  group_world_size=2"),
    ("dist_world_size=", rf"\] dist_world_size={_SIZE}", "[INFO] [launch.py:163:main] dist_world_size=16"),
    (
        "num_local_procs=",
        rf"\bnnodes={_NODES}, num_local_procs=\d+, node_rank=\d",
        "[INFO] [launch.py:151:main] nnodes=2, num_local_procs=8, node_rank=0",
    ),
    (
        "Discovered MPI settings",
        rf"Discovered MPI settings of world_rank=\d+, local_rank=\d+, world_size={_SIZE}",
        "Discovered MPI settings of world_rank=0, local_rank=0, world_size=16, master_addr=10.0.0.1, master_port=29500",
    ),
    (
        "sing world size: ",
        rf"\busing world size: {_SIZE},",
        "using world size: 16, data-parallel size: 2, tensor-model-parallel size: 8, pipeline-model-parallel size: 1",
    ),
    (
        "world_size ....",
        rf"^\s*world_size \.{{5,}} {_SIZE}\s*$",
        "  world_size ...................................... 16",
    ),
    (
        "Setting up process group for",
        rf"Setting up process group for: \S+ \[rank=\d+, world_size={_SIZE}\]",
        "Setting up process group for: env:// [rank=0, world_size=2]",
    ),
    (  # the first of a process is of all its ranks; those of groups are numbered from 2
        "store_based_barrier_key:1 ",
        rf"\bkey: ?store_based_barrier_key:1 (?:with {_SIZE} nodes|\(world_size=(?P<of>{_NUMBER}),)",
        "Rank 3: Completed store-based barrier for key:store_based_barrier_key:1 with 16 nodes.",
    ),
    (
        "ProcessGroupNCCL initialization options",
        rf"\[PG (?:ID )?0[ (][^\]]*\] ProcessGroupNCCL initialization options: size: {_SIZE},",
        "[PG ID 0 PG GUID 0 Rank 3] ProcessGroupNCCL initialization options: size: 16, global rank: 3, TIMEOUT(ms):",
    ),
    (
        "istributed init (rank ",
        rf"\bdistributed init \(rank \d+, (?:world|world_size|total)[ :=]+{_SIZE}\)",
        "| distributed init (rank 3, world 16): env://, gpu 3",
    ),
    (
        "distributed mode with multiple processes",
        rf"with multiple processes, .*\bProcess \d+, total {_SIZE}",
        "Training in distributed mode with multiple processes, 1 GPU per process. Process 0, total 16.",
    ),
    (
        " in world size ",
        rf"\brank \d+ in world size {_SIZE} is assigned as ",
        "rank 3 in world size 8 is assigned as DP rank 0, PP rank 0, TP rank 3, EP rank 3",
    ),
)
_OF_PART = (
    r"(?i)^(?!.*(?:(?<!process )\bgroups?\b|[_-]parallel|parallel\b|\bsub|"
    r"\b(?:tp|pp|dp|cp|ep|sp|fsdp|mesh|expert|replica|pod)[_ -]))"
)
_RANK = r"(?:\brank|\bglobal_rank|\bworld_rank|\bRANK)['\"]?(?: ?[:=]+ ?| )['\"]?\d{1,6}\b"
_BESIDE_A_RANK = tuple(
    (
        literal,
        _OF_PART + rf"(?=.*{_RANK})(?=.*(?:backend|init_method|env://|tcp://|nccl\b|process group)).*"
        rf"(?<![A-Za-z0-9_])world[_ ]size['\"]?(?: ?[:=]+ ?| )['\"]?{_SIZE}\b",
        sample,
    )
    for literal, sample in (
        ("world_size", "world_size=8 rank=0 local_rank=0 distributed_init_method=tcp://10.0.0.1:29500 backend=nccl"),
        ("orld size", "Initialized process group: rank 3, world size 16, backend nccl"),
    )
)
_TYPED = (
    (
        "nnodes",
        (
            rf"{_PROMPT}{_THROUGH}(?:\S*/)?(?:torchrun|python[\d.]* (?:-\w )?-m torch\.distributed\.(?:run|launch)) "
            rf"(?=.*--nnodes[= ]{_NODES}(?:\s|$))(?:.*--nproc[_-]per[_-]node[= ](?P<per_node>{_NUMBER})(?:\s|$))?"
        ),
        "+ torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint n1:29500 train.py",
    ),
    (
        "num_machines",
        (
            rf"{_PROMPT}{_THROUGH}(?:\S*/)?accelerate launch (?=.*--num_machines[= ]{_NODES}(?:\s|$))"
            rf"(?:.*--num_processes[= ]{_SIZE}(?:\s|$))?"
        ),
        "$ accelerate launch --num_machines 2 --num_processes 16 --machine_rank 0 train.py",
    ),
    (
        "num_nodes",
        (
            rf"{_PROMPT}(?:\S*/)?deepspeed (?=.*--num_nodes[= ]{_NODES}(?:\s|$))"
            rf"(?:.*--num_gpus[= ](?P<per_node>{_NUMBER})(?:\s|$))?"
        ),
        "$ deepspeed --num_nodes 2 --num_gpus 8 train.py",
    ),
    (
        "srun ",
        (
            rf"{_PROMPT}srun (?!.*(?:torchrun|accelerate|torch\.distributed|deepspeed))"
            rf"(?=.*(?:--nodes=| -N ?){_NODES} ).*--ntasks-per-node=(?P<per_node>{_NUMBER}) .*{_PYTHON}"
        ),
        "+ srun --nodes=2 --ntasks-per-node=8 --gpus-per-node=8 python train.py",
    ),
    (
        " -np ",
        rf"{_PROMPT}{_MPI} (?:.{{0,200}} )?-np {_SIZE} (?!.*(?:torchrun|torch\.distributed)).*{_PYTHON}",
        "$ mpirun -np 16 -H n1:8,n2:8 -x NCCL_DEBUG=INFO python train.py",
    ),
)
_ELASTIC = tuple(
    (
        f"{name} ",
        rf"^(?:.*\[INFO\] |.*\] )? *(?P<name>{name}) +: {{1,3}}(?P<value>{_NUMBER})\s*$",
        f"torch.distributed.launcher.api: [INFO]   {name:17s}: 2",
    )
    for name in ("min_nodes", "max_nodes", "nproc_per_node")
)
_WORKERS_OF_RAY = (
    (
        "node_rank=",
        (
            r"- \((?:node_id=\w+, )?ip=\S+, pid=\d+\) (?:world_)?rank=(?P<rank>\d{1,6}), local_rank=\d+, "
            r"node_rank=(?P<node>\d{1,6})"
        ),
        "- (ip=10.0.59.242, pid=7410) world_rank=0, local_rank=0, node_rank=0",
    ),
)
_RAS = (  # a row of its table of communicators: how many, their nodes, their ranks on each, of each, of all
    (
        " RUNNING ",
        rf"^\s*\d{{1,6}} +\d{{1,6}} +{_NODES} +\d[\d-]{{0,10}} +{_SIZE} +\d{{1,6}} +RUNNING +[A-Z,]+\s*$",
        "    0         1         4         8        32        32   RUNNING  MISMATCH",
    ),
)
_ACCELERATE = (
    ("Num processes: ", rf"^Num processes: {_SIZE}\s*$", "Num processes: 16"),
    (
        "Distributed environment: ",
        r"(?P<environment>Distributed environment: (?!.*\bNO\b).*)",
        "Distributed environment: DistributedType.MULTI_GPU  Backend: nccl",
    ),
)
SAID, BESIDE_A_RANK, TYPED, ELASTIC, RAY, ACCELERATE, RAS = (
    f"world-{name}" for name in ("said", "beside-rank", "typed", "elastic", "ray", "accelerate", "ras")
)
KINDS = frozenset({SAID, BESIDE_A_RANK, TYPED, ELASTIC, RAY, ACCELERATE, RAS})

PATTERNS = (
    *rows(SAID, _SAID),
    *rows(BESIDE_A_RANK, _BESIDE_A_RANK),
    *rows(TYPED, _TYPED),
    *rows(ELASTIC, _ELASTIC),
    *rows(RAY, _WORKERS_OF_RAY),
    *rows(ACCELERATE, _ACCELERATE),
    *rows(RAS, _RAS),
)
