"""The checks in their order: software, then what ranks prove, then the ways between GPUs."""

from collections.abc import Sequence

from raybench.errors import unknown_name
from raybench.services.selftest import measured, paths, versions
from raybench.services.selftest.check import GPU, NVIDIA, RDMA, TWO_GPUS, Check
from raybench.services.selftest.runs import LIMIT_SECONDS

_TRAINING = "its losses and gradient norms are those of one process that computes the whole batch"

CHECKS: tuple[Check, ...] = (
    Check(
        id="python-packages",
        title="Python packages",
        proves="Ray, torch and what else runs need is installed and new enough",
        judge=versions.python_packages,
    ),
    Check(id="torch-import", title="torch", proves="torch can be imported", judge=versions.torch_import),
    Check(
        id="gpu-driver",
        title="NVIDIA driver",
        proves="the driver is loaded and NVML answers for each GPU",
        judge=versions.gpu_driver,
        needs=(NVIDIA,),
    ),
    Check(
        id="cuda-driver-fit",
        title="driver and CUDA",
        proves="the driver is new enough for the CUDA that torch was built for",
        judge=versions.cuda_driver_fit,
        needs=(NVIDIA,),
    ),
    Check(
        id="torch-cuda",
        title="torch on GPUs",
        proves="torch can use the GPUs; else why not",
        judge=versions.torch_cuda,
        needs=(NVIDIA,),
    ),
    Check(
        id="gpu-architecture",
        title="kernels of torch",
        proves="torch was built with kernels for each GPU's compute capability",
        judge=versions.gpu_architecture,
        needs=(GPU,),
    ),
    Check(
        id="cudnn",
        title="cuDNN",
        proves="the cuDNN that is loaded is one that torch was compiled for",
        judge=versions.cudnn,
        needs=(GPU,),
    ),
    Check(
        id="nccl-library",
        title="NCCL library",
        proves="one NCCL is loaded, and no older one than torch was compiled with",
        judge=versions.nccl_library,
        needs=(GPU,),
    ),
    Check(
        id="ray-cluster",
        title="Ray",
        proves="Ray starts here, places the ranks, and all of them join",
        judge=measured.ray_cluster,
        run="collectives",
        limit_seconds=LIMIT_SECONDS,
    ),
    Check(
        id="gpu-count",
        title="GPUs seen",
        proves="NVML, torch and Ray see the same GPUs",
        judge=measured.gpu_count,
        needs=(GPU,),
        run="collectives",
        limit_seconds=LIMIT_SECONDS,
    ),
    Check(
        id="rank-devices",
        title="one rank per GPU",
        proves="each rank takes a GPU of its own, and sees all GPUs of its node",
        judge=measured.rank_devices,
        needs=(GPU,),
        run="collectives",
        limit_seconds=LIMIT_SECONDS,
    ),
    Check(
        id="collectives",
        title="collectives",
        proves="each collective gives exactly the right elements, at a few sizes",
        judge=measured.collectives,
        run="collectives",
        limit_seconds=LIMIT_SECONDS,
    ),
    *(
        Check(
            id=f"training-{strategy}",
            title=f"training, {strategy}",
            proves=_TRAINING,
            judge=measured.training(strategy),
            run="training",
            limit_seconds=LIMIT_SECONDS,
            quick=strategy == "ddp",
        )
        for strategy in ("ddp", "fsdp", "lora", "qlora")
    ),
    Check(
        id="memory",
        title="memory",
        proves="training takes the memory that raybench estimate says, within 5 %",
        judge=measured.memory,
        run="memory",
        limit_seconds=LIMIT_SECONDS,
        quick=False,
    ),
    Check(
        id="nccl-log",
        title="NCCL log",
        proves="the ranks' NCCL logs have no critical finding, and one version of NCCL",
        judge=paths.nccl_log,
        needs=(GPU,),
        run="collectives",
        limit_seconds=LIMIT_SECONDS,
    ),
    Check(
        id="gpu-p2p",
        title="GPU to GPU",
        proves="NCCL goes from GPU to GPU directly where NVLink joins them",
        judge=paths.peer_to_peer,
        needs=(TWO_GPUS,),
        run="collectives",
        limit_seconds=LIMIT_SECONDS,
    ),
    Check(
        id="gpu-direct",
        title="GPUDirect RDMA",
        proves="NCCL sends from GPU to NIC without a copy in host memory",
        judge=paths.gpu_direct,
        needs=(TWO_GPUS, RDMA),
        run="network",
        limit_seconds=LIMIT_SECONDS,
        quick=False,
    ),
)


def chosen_checks(only: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these ids, all without any, in the table's order. Raises UsageError for an id that there is not."""
    known = [check.id for check in CHECKS]
    for name in only:
        if name not in known:
            raise unknown_name("check", name, known)
    return tuple(check for check in CHECKS if not only or check.id in only)


def list_of_checks() -> list[str]:
    """A line a check: its id, what it needs, and what it proves."""
    return [f"{check.id:<17} {', '.join(check.needs) or '-':<12} {check.proves}" for check in CHECKS]
