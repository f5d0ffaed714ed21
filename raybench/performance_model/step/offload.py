"""Activations that wait in the memory of the CPU: how long they take to go there and come back. Pure."""

from typing import TYPE_CHECKING

from raybench.hardware.gpus import Gpu
from raybench.performance_model.memory.moments import Step
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.update import PCIE_SHARE

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest

# What PyTorch's save_on_cpu copies a second, GB, which takes new memory of the host for each tensor: a 7B by FSDP on 16
# B300 (awsome-distributed-ai, 3.test_cases/pytorch/FSDP) took 0.85 s a step of 2.1 GB where 0.25 s are computed.
_SLOWEST_GB_PER_S = 3.5


def offload_seconds(request: "EstimateRequest") -> float:
    """Of a micro-batch's activations over PCIe, both ways; 0 where they stay on the GPU, or the GPU is not known."""
    if request.gpu is None:
        return 0.0
    part, setup = part_of(request.model, request.layout), local_setup(request.setup, request.layout)
    return _moved_bytes(part, setup) / (PCIE_SHARE * request.gpu.pcie_gb_per_s * 1e9)


def slowest_seconds(part: Transformer, setup: TrainingSetup, gpu: Gpu) -> float:
    """The same at most, before and after what is computed: by programs that take no memory that stays pinned."""
    return _moved_bytes(part, setup) / (min(_SLOWEST_GB_PER_S, PCIE_SHARE * gpu.pcie_gb_per_s) * 1e9)


def _moved_bytes(part: Transformer, setup: TrainingSetup) -> float:
    if not setup.offloads_activations:
        return 0.0
    step = Step(model=part, setup=setup, shards=1, gradients=0.0, temporaries=0.0)
    return 2 * max(0.0, part.layers * step.kept_of_block - step.kept(part.layers))
