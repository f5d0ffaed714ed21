"""What a machine with two H200 says of itself, and runs on it: recorded readings, each test changes one thing."""

from collections.abc import Mapping
from typing import Any

from diagnostics.findings import Diagnosis, LineCounts, RankRow
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.result import RunResult
from raybench.documents.selftest import DriverGpu, DriverReading, NcclLibrary, TorchGpu, TorchReading
from raybench.services.selftest.check import Package, Readings, RunReading
from raybench.services.selftest.measured import OPERATION_NAMES
from tests.reports.sample import point

UUIDS = ("6d3e0a52-7f1c-4c55-9a61-0e4b7a4f0d11", "0b77e1a4-93d0-4d0e-8f0b-5b1c6f9e2a22")
NCCL = NcclLibrary(path="/venv/nvidia/nccl/lib/libnccl.so.2", version="2.27.5")


def driver(**changes: Any) -> DriverReading:
    values: dict[str, Any] = {
        "pci_gpus": 2,
        "device_files": 2,
        "version": "580.159.04",
        "gpus": tuple(DriverGpu(uuid=f"GPU-{uuid}", name="NVIDIA H200", mig=False, nvlinks=18) for uuid in UUIDS),
        "cuda": "13.0",
        "cuda_init": 0,
    }
    return DriverReading(**(values | changes))


def torch(**changes: Any) -> TorchReading:
    values: dict[str, Any] = {
        "version": "2.13.0",
        "cuda": "13.0",
        "architectures": ("sm_80", "sm_90", "sm_100", "compute_100"),
        "available": True,
        "gpus": tuple(
            TorchGpu(uuid=uuid, name="NVIDIA H200", capability="9.0", memory_bytes=150_000_000_000) for uuid in UUIDS
        ),
        "nccl": "2.27.5",
        "nccl_libraries": (NCCL,),
        "cudnn": "91002",
        "import_seconds": 2.0,
    }
    return TorchReading(**(values | changes))


def unusable(**changes: Any) -> TorchReading:
    """Torch for CUDA that cannot use it."""
    return torch(**({"available": False, "gpus": (), "cuda_problem": "No CUDA GPUs are available"} | changes))


def readings(**changes: Any) -> Readings:
    values: dict[str, Any] = {
        "driver": driver(),
        "torch": torch(),
        "packages": (Package(name="torch", least="2.6", installed="2.13.0+cu130"),),
    }
    return Readings(**(values | changes))


def cluster(
    uuids: tuple[str | None, ...] = UUIDS, *, gpus: int = 2, visible: int = 2, backend: str = "nccl"
) -> ClusterInfo:
    ranks = {
        str(rank): {"pid": str(rank + 1), "device": f"cuda:{rank}", "gpu_uuid": uuid, "visible_gpus": str(visible)}
        for rank, uuid in enumerate(uuids)
    }
    node = NodeInfo(
        name="node-1", address="127.0.0.1", ranks=tuple(range(len(uuids))), gpu_count=gpus, facts={"ranks": ranks}
    )
    return ClusterInfo(nodes=(node,), world_size=len(uuids), backend=backend, emulated=True)


def operation(name: str, **changes: Any) -> BenchmarkResult:
    """A collective that was verified at one size."""
    values: dict[str, Any] = {
        "name": name,
        "kind": "collective",
        "parameters": {"dtype": "float32"},
        "status": "complete",
        "points": (point(1024, samples=(((1e-4, 1e-4),),)),),
    }
    return BenchmarkResult(**(values | changes))


def collectives(**changed: BenchmarkResult) -> tuple[BenchmarkResult, ...]:
    return tuple(changed.get(name) or operation(name) for name in OPERATION_NAMES)


def result(benchmarks: tuple[BenchmarkResult, ...], *, where: ClusterInfo | None = None, **changes: Any) -> RunResult:
    values: dict[str, Any] = {
        "run_id": "20261123-060000-aaaa",
        "status": "complete",
        "started_at": "2026-11-23T06:00:00+00:00",
        "finished_at": "2026-11-23T06:00:09+00:00",
        "cluster": where or cluster(),
        "versions": {"ray": "2.60.0"},
        "variables": {},
        "config": {},
        "benchmarks": benchmarks,
    }
    return RunResult(**(values | changes))


def diagnosis(transports: tuple[str, ...] = ("P2P",), **changes: Any) -> Diagnosis:
    values: dict[str, Any] = {
        "verdict": "ok",
        "network": "none",
        "nccl_versions": ("2.27.5+cuda13.0",),
        "ranks": tuple(RankRow(rank=rank, transports=transports) for rank in range(2)),
        "lines": LineCounts(read=200, nccl=200),
    }
    return Diagnosis(**(values | changes))


def after(name: str, run: RunReading, **changes: Any) -> Readings:
    """The readings once a run was done."""
    runs: Mapping[str, RunReading] = {name: run}
    return readings(runs=runs, **changes)
