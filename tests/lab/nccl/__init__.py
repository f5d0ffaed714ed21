"""A real NCCL on nodes that have no GPU.

NCCL's own host code, built from its public source, runs on an emulated machine: a CUDA driver, CUDA runtime, NVML and
libibverbs of our own (``emulation/``; nothing of NVIDIA's binaries is linked, loaded or answered) on the lab's
namespace nodes. Its logs are NCCL's own; what was broken is known, since a ``Scenario`` broke it.
"""
