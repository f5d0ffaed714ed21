"""Time of the optimizer's update, on the GPU or, with its state offloaded, on the CPU."""

from raybench.hardware.gpus import Gpu
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import Held, state_bytes
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.setup.training_setup import TrainingSetup

# Of a node's CPUs for a billion parameters: PyTorch's fused Adam, all of it in 16 bits (4 s of 405 billion on 8 nodes
# of H100: LambdaLabsML/distributed-training-guide, 05-training-llama-405b), and a plain one (ZeRO-Offload, Ren et al.
# 2021, table 4; weak: from memory; 5 to 7 times as long as DeepSpeed's by docs/_tutorials/zero-offload.md).
CPU_SECONDS_PER_BILLION = (0.08, 1.4)
# Of DeepSpeed's, which ZeRO has; the longest with half as many cores a parameter.
_ZERO_SECONDS_PER_BILLION = (0.22, 0.44)
# How often PyTorch's Adam over lists of tensors reads or writes an element, one operation after another, against a
# fused one: decay 2, first moment 3, second 2 and 4, root 2, division 2, epsilon 2, step 3; or each of four read, three
# written.
_FOREACH_PASSES = 20 / 7
# Of a rank for a billion parameters of its own, where its Adam has one thread, as torchrun starts it (OMP_NUM_THREADS).
# Steps of ZeRO took 20 to 24 s longer with the optimizer on the CPUs of 8 A800 (gist.github.com/chenyaofo, 2024).
_ONE_THREAD_SECONDS_PER_BILLION = 22.0
PCIE_SHARE = 0.80  # of the line rate, of large copies to and from pinned memory


def update_seconds(model: Transformer, setup: TrainingSetup, layout: Layout, gpu: Gpu | None) -> tuple[float, float]:
    """Shortest and longest.

    On the GPU it is bound by memory: it reads parameters, gradients and state and writes all but the gradients, once
    where it is fused and, where it may not be, several times. Paged state may have to come and go over PCIe. On the
    CPU all ranks of a node share its cores; gradients go there and weights come back, in the compute type
    (ZeRO-Offload).
    """
    if gpu is None:
        return 0.0, 0.0
    held = Held.of(part_of(model, layout), setup, layout)
    bus = gpu.pcie_gb_per_s * 1e9 * PCIE_SHARE
    if setup.offload != "none":
        moved = 2 * held.trained * setup.compute_bytes / bus
        billions = held.trained * layout.node.ranks / 1e9
        least, most = _ZERO_SECONDS_PER_BILLION if setup.strategy.startswith("zero") else CPU_SECONDS_PER_BILLION
        return moved + billions * least, moved + billions * most
    moved = held.trained * (3 * setup.parameter_bytes + 2 * state_bytes(setup)) / (gpu.memory_gb_per_s * 1e9)
    several = 1.0 if setup.fused_optimizer or setup.optimizer not in ("adam", "adamw") else _FOREACH_PASSES
    return moved, several * moved + 2 * held.offloaded / bus


def one_thread_seconds(model: Transformer, setup: TrainingSetup, layout: Layout) -> float:
    """Of the update on the CPU with one thread a rank; 0 where it is on the GPU."""
    if setup.offload == "none":
        return 0.0
    return _ONE_THREAD_SECONDS_PER_BILLION * Held.of(part_of(model, layout), setup, layout).trained / 1e9
