"""The life of one rank: join the process group, run the plan, say what happens. The same under Ray and torchrun."""

import contextlib
import importlib
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from raybench.benchmarks.base import Benchmark, RankContext, TooLargeError, UnsupportedError
from raybench.benchmarks.events import (
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    OwnSpeedMeasured,
    PointMeasured,
    RankFailed,
    RankFinished,
    RankReady,
    WorkloadMeasured,
)
from raybench.benchmarks.machine_use import MachineUseMeter
from raybench.benchmarks.mlx_ring.meeting import mlx_version
from raybench.benchmarks.own_speed import processor_wait
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.rank.recording import inside, recording
from raybench.benchmarks.registry import module_of
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.secret_values import recorded

if TYPE_CHECKING:
    from raybench.benchmarks.mlx_ring.ring import Ring

Emit = Callable[[Event], None]
_ENVIRONMENT = (
    *("NCCL_", "TORCH_NCCL_", "GLOO_", "TORCH_GLOO_", "UCX_", "FI_", "OFI_NCCL_", "RCCL_", "OMP_", "MLX_"),
    *("MLX5_", "IBV_", "RDMAV_", "SHARP_", "CUDA_"),
)


def run_rank(assignment: RankAssignment, plan: Sequence[BenchmarkSpec], emit: Emit, progress: ProgressSlot) -> bool:
    """Run the whole plan as one rank. Every error becomes a RankFailed event. Returns whether it went well."""
    try:
        with recording(progress), process_group(assignment, progress) as context:
            emit(RankReady(rank=assignment.rank, facts=rank_facts(context)))
            for index, spec in enumerate(plan):
                progress.benchmark(index)
                _run_benchmark(context, index, spec, emit)
            progress.enter("finished")
            dist.barrier()  # who has said that it is finished may be ended, and no other needs it any more
            emit(RankFinished(rank=assignment.rank))
    except Exception as error:  # noqa: BLE001 - whatever ends a rank must be told to the driver
        benchmark = progress.read().benchmark
        text = traceback.format_exc()
        sys.stderr.write(text)  # the rank's own log keeps it even where the event is lost
        sys.stderr.flush()
        emit(RankFailed(rank=assignment.rank, benchmark=benchmark, error=summary_of(error), traceback=text))
        return False
    return True


def summary_of(error: Exception) -> str:
    """An error on one line of at most 400 characters: type, first line, and what NCCL gives as its last error."""
    text = str(error).strip()
    first = next(iter(text.splitlines()), "")
    _, _, last = text.partition("Last error:")
    cause = " ".join(last.split())
    line = f"{type(error).__name__}: {first}".removesuffix(": ")
    return f"{line[:300]} Last error: {cause}"[:400] if cause and "Last error:" not in first else line[:400]


def _run_benchmark(context: RankContext, index: int, spec: BenchmarkSpec, emit: Emit) -> None:
    emit(BenchmarkStarted(rank=context.rank, benchmark=index))
    meter = MachineUseMeter() if context.local_rank == 0 else None
    skipped, too_large = None, 0
    try:
        too_large = _measure(context, index, spec, emit)
    except TooLargeError as error:
        skipped, too_large = str(error), error.too_large
    except UnsupportedError as error:
        skipped = str(error)
    machine = meter.until_now() if meter else None
    context.progress.enter("waiting for the others")
    finished = BenchmarkFinished(
        rank=context.rank, benchmark=index, skipped=skipped, too_large=too_large, machine=machine
    )
    emit(finished)


def _measure(context: RankContext, index: int, spec: BenchmarkSpec, emit: Emit) -> int:
    """Emit every point. Returns how many sizes did not fit the memory."""
    if context.ring is not None:
        context.ring.refuse(spec)
    measured = implementation(spec)(context, spec)
    while True:
        try:
            found = next(measured)
        except StopIteration as end:
            return int(end.value or 0)
        match found:
            case RankSamples():
                emit(PointMeasured(rank=context.rank, benchmark=index, samples=found))
            case OwnSpeed():
                emit(OwnSpeedMeasured(rank=context.rank, benchmark=index, speed=found))
            case _:
                emit(WorkloadMeasured(rank=context.rank, benchmark=index, record=found))


def implementation(spec: BenchmarkSpec) -> Benchmark:
    """The ``run`` function of a benchmark."""
    run: Benchmark = importlib.import_module(module_of(spec)).run
    return run


@contextlib.contextmanager
def process_group(assignment: RankAssignment, progress: ProgressSlot) -> Iterator[RankContext]:
    """The process group of all ranks, left again at the end unless an error broke it."""
    progress.enter("joining the process group")
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")  # PyTorch keeps its last collectives: see flight_record
    torch.set_num_threads(assignment.threads)
    device = torch.device("cpu") if assignment.device_index is None else torch.device("cuda", assignment.device_index)
    if device.type == "cuda":  # gpu: machine, ray-masking
        _assert_fresh_cuda()
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=assignment.timeout_seconds)
    with inside("init_process_group"):
        store = _store(assignment, timeout)
        dist.init_process_group(
            "gloo" if assignment.backend == "mlx" else assignment.backend,  # what the ring has not, such as a barrier
            store=store,
            rank=assignment.rank,
            world_size=assignment.world_size,
            timeout=timeout,
            device_id=device if assignment.backend == "nccl" else None,  # gpu: collectives-1, collectives-2
        )
        ring = _ring(assignment, store) if assignment.backend == "mlx" else None
    yield RankContext(
        rank=assignment.rank,
        local_rank=assignment.local_rank,
        world_size=assignment.world_size,
        ranks_on_machine=assignment.ranks_on_machine,
        backend=assignment.backend,
        device=device,
        progress=progress,
        store=store,
        ranks_on_device=assignment.ranks_on_device,
        ranks_on_node=assignment.ranks_on_node,
        ring=ring,
    )
    with inside("destroy_process_group"):
        dist.destroy_process_group()


def _ring(assignment: RankAssignment, store: torch._C._distributed_c10d.Store) -> "Ring":
    from raybench.benchmarks.mlx_ring.meeting import meet, mlx_core  # MLX starts threads: never before the fork
    from raybench.benchmarks.mlx_ring.ring import Ring

    return Ring(core=mlx_core(), group=meet(assignment, store))


def _assert_fresh_cuda() -> None:  # gpu: machine, ray-masking
    """A forked rank cannot use CUDA that its parent has started, and fails late and obscurely when it tries."""
    started: bool = torch.cuda.is_initialized()
    if started or torch.cuda._is_in_bad_fork():
        raise RuntimeError(
            "CUDA was already initialised when this rank started: its parent process used a GPU before it forked; "
            "nothing may touch torch.cuda before the ranks are started"
        )


def _store(assignment: RankAssignment, timeout: timedelta) -> torch._C._distributed_c10d.Store:
    return torch._C._distributed_c10d.TCPStore(
        assignment.master_address,
        assignment.master_port,
        assignment.world_size,
        is_master=assignment.rank == 0,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=assignment.listen_fd,
    )


def rank_facts(context: RankContext) -> dict[str, str]:
    """What this rank is and how the system treats it: what explains a figure that differs from another run's."""
    facts = {
        "pid": str(os.getpid()),
        "torch": str(torch.__version__),
        "niceness": str(os.nice(0)),
        "omp_threads": str(torch.get_num_threads()),
        "affinity": str(len(os.sched_getaffinity(0))),
        "processor_wait": processor_wait(),
        "tcp_congestion_control": _line("/proc/sys/net/ipv4/tcp_congestion_control"),
        "device": str(context.device),
        "memlock": _memlock(),
    }
    known = recorded({name: value for name, value in sorted(os.environ.items()) if _is_told(name)})
    facts |= {f"env.{name}": value for name, value in known.items()}
    if context.ring is not None:
        facts["mlx"] = mlx_version()
    if context.device.type == "cuda":  # gpu: machine, ray-masking
        facts |= _device_facts(context)
    return facts


def _is_told(name: str) -> bool:
    """Whether a variable may explain a figure: where the flight record is kept, a folder of this run, does not."""
    return name.startswith(_ENVIRONMENT) and name != "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"


def _memlock() -> str:
    """Bytes that may be pinned: RDMA registers its buffers within this limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "unlimited" if soft == resource.RLIM_INFINITY else str(soft)


def _device_facts(context: RankContext) -> dict[str, str]:  # gpu: machine, ray-masking
    properties = torch.cuda.get_device_properties(context.device)
    return {
        "gpu": properties.name,
        "gpu_memory_bytes": str(properties.total_memory),
        "gpu_uuid": str(getattr(properties, "uuid", "unknown")),
        "visible_gpus": str(torch.cuda.device_count()),
        "nccl": ".".join(str(part) for part in _nccl_version()) if context.backend == "nccl" else "not used",
        "cuda": str(torch.version.cuda),
    }


def _nccl_version() -> tuple[int, ...]:  # gpu: machine, ray-masking
    version: tuple[int, ...] = torch.cuda.nccl.version()
    return version


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
