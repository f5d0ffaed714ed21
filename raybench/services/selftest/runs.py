"""The runs that checks rest on: small, on this machine, each on its own so that one that breaks spoils no other."""

from collections.abc import Callable, Mapping
from pathlib import Path

from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.training.options import STRATEGIES, TrainingOptions
from raybench.config import RunConfig
from raybench.services.selftest.measured import OPERATION_NAMES

EMULATED_NODES = 2  # of a machine without GPUs: two ranks are the least that have anything to send
LIMIT_SECONDS = 60.0  # of one benchmark


def run_config(name: str, *, gpus: int, output_dir: Path, quick: bool) -> RunConfig:
    """A run by its name; ``gpus``: those that torch can use, where there are none over gloo."""
    return _RUNS[name](gpus, str(output_dir), quick)


def _collectives(gpus: int, output_dir: str, quick: bool) -> RunConfig:
    sizes = ("8,64K,16M" if gpus else "1K,256K").split(",")
    return RunConfig(
        nodes=1 if gpus else EMULATED_NODES,
        suite=",".join(OPERATION_NAMES),
        sizes=sizes[-1] if quick else ",".join(sizes),
        warmup=1,
        iters=2,
        blocks=1,
        backend=_backend(gpus),
        address="local",
        timeout=LIMIT_SECONDS,
        output_dir=output_dir,
        agent=False,
    )


def _training(gpus: int, output_dir: str, quick: bool) -> RunConfig:
    options = TrainingOptions(layers=2, batch_size=2, sequence_length=32, warmup_steps=1, steps=3, overlap_steps=0)
    return RunConfig(
        nodes=1 if gpus else EMULATED_NODES,
        suite="ddp" if quick else ",".join(STRATEGIES),
        backend=_backend(gpus),
        address="local",
        timeout=LIMIT_SECONDS,
        output_dir=output_dir,
        agent=False,
        options={"training": options},
    )


def _memory(gpus: int, output_dir: str, _: bool) -> RunConfig:
    """On a GPU a model of gigabytes: beside a small one the workspaces of cuBLAS would count."""
    options = (
        MemoryOptions(model="gpt2", batch_sizes=(1, 4), most_batch=4, sequence_length=512)
        if gpus
        else MemoryOptions(model="tiny", batch_sizes=(1, 2), most_batch=2, sequence_length=64, limit="512M")
    )
    return RunConfig(
        nodes=1,
        gpus_per_node=1,
        suite="memory",
        backend=_backend(gpus),
        address="local",
        timeout=LIMIT_SECONDS,
        output_dir=output_dir,
        agent=False,
        options={"memory": options},
    )


def _network(gpus: int, output_dir: str, _: bool) -> RunConfig:
    """An all_reduce that NCCL has to send through the NIC."""
    return RunConfig(
        nodes=1,
        suite="all_reduce",
        sizes="1M",
        warmup=1,
        iters=2,
        blocks=1,
        backend=_backend(gpus),
        address="local",
        timeout=LIMIT_SECONDS,
        output_dir=output_dir,
        agent=False,
        env=("NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"),
    )


def _backend(gpus: int) -> str:
    return "nccl" if gpus else "gloo"


_RUNS: Mapping[str, Callable[[int, str, bool], RunConfig]] = {
    "collectives": _collectives,
    "training": _training,
    "memory": _memory,
    "network": _network,
}
