"""Activations that wait in the memory of the CPU: how long they take to go there and come back. Pure."""

from raybench.performance_model.memory_moments import Step
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.step.request import EstimateRequest
from raybench.performance_model.update import PCIE_SHARE


def offload_seconds(request: EstimateRequest) -> float:
    """Of a micro-batch's activations over PCIe, both ways; 0 where they stay on the GPU, or the GPU is not known."""
    if not request.setup.offloads_activations or request.gpu is None:
        return 0.0
    part, setup = part_of(request.model, request.layout), local_setup(request.setup, request.layout)
    step = Step(model=part, setup=setup, shards=1, gradients=0.0, temporaries=0.0)
    moved = part.layers * step.kept_of_block - step.kept(part.layers)
    return 2 * max(0.0, moved) / (PCIE_SHARE * request.gpu.pcie_gb_per_s * 1e9)
