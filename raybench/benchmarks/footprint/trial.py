"""One trial: a few training steps at one batch size, and what they take of the memory.

On a GPU each trial is a process of its own (``python -m raybench.benchmarks.footprint.trial``), so that one that runs
out of memory leaves nothing behind: no fragments, no broken context. On a CPU, which has no memory of its own to run
out of, parameters, gradients, optimizer state and saved activations are counted instead.
"""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import msgspec
import torch
from torch import nn

from raybench.benchmarks.footprint.record import Trial
from raybench.benchmarks.training.models import Batch, Trainable, built, trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.precision import chosen_dtype, forward_context, loss_scaler, use_float8
from raybench.benchmarks.training.step import batch_of, optimizer_of
from raybench.benchmarks.training.strategies import prepare

_STEPS = 2  # the optimizer makes its state in the first


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process is asked for. ``limit_bytes`` caps the allocator where it is below the device's memory."""

    device: str
    strategy: str
    training: TrainingOptions
    limit_bytes: int


def measure_apart(order: Order, seconds: float) -> Trial:
    """The trial in a process of its own. Raises RuntimeError where it fails for another reason than memory."""
    command = [sys.executable, "-m", "raybench.benchmarks.footprint.trial"]
    child = subprocess.run(command, input=msgspec.json.encode(order), capture_output=True, timeout=seconds, check=False)
    if child.returncode != 0:
        tail = child.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
        raise RuntimeError(f"the trial with batch size {order.training.batch_size} failed: {tail[0][:300]}")
    return msgspec.json.decode(child.stdout.splitlines()[-1], type=Trial)


def measure(order: Order) -> Trial:
    """The trial in this process."""
    device = torch.device(order.device)
    if device.type != "cuda":
        return _counted(order, device)
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(order.limit_bytes / total, 1.0), device)
    try:
        return _allocated(order, device)
    except torch.cuda.OutOfMemoryError:
        return Trial(batch_size=order.training.batch_size, fits=False)


class _Training:
    """A model with its optimizer on one device."""

    def __init__(self, order: Order, device: torch.device) -> None:
        options = order.training
        self.dtype = chosen_dtype(options.dtype, device)
        self.trainable: Trainable = trainable_of(options)
        self.model: nn.Module = built(self.trainable, device)
        if self.dtype == "float8":
            use_float8(self.model)
        name = "ddp" if order.strategy == "single" else order.strategy
        prepare(self.model, name, device, replace(options, weights=None), self.dtype)
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.optimizer = optimizer_of(options, self.parameters)
        self.forward = forward_context(self.dtype, device)
        self.scaler = loss_scaler(self.dtype, device)
        self.batch: Batch = tuple(part.to(device) for part in batch_of(self.trainable, options, 0, 0))

    def loss(self) -> Any:
        """A forward pass."""
        with self.forward():
            return self.scaler.scale(self.model(*self.batch))

    def update(self) -> None:
        """The optimizer's step; gradients stay."""
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def sizes(self) -> dict[str, int]:
        """Bytes of what stays between steps."""
        held = [*self.model.parameters(), *self.model.buffers()]
        state = [value for entry in self.optimizer.state.values() for value in entry.values()]
        return {
            "parameters": _bytes(held),
            "gradients": _bytes([one.grad for one in self.parameters if one.grad is not None]),
            "optimizer_state": _bytes([value for value in state if isinstance(value, torch.Tensor)]),
        }


def _bytes(tensors: list[Any]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)


def _counted(order: Order, device: torch.device) -> Trial:
    training = _Training(order, device)
    activations = 0
    for _ in range(_STEPS):
        training.optimizer.zero_grad(set_to_none=True)
        activations = saved_bytes(training)
        training.update()
    sizes = training.sizes()
    peak = sum(sizes.values()) + activations
    fits = peak <= order.limit_bytes
    return Trial(
        batch_size=order.training.batch_size, fits=fits, activations=activations, peak=peak, reserved=peak, **sizes
    )


def saved_bytes(training: _Training) -> int:
    """Bytes that the forward pass keeps for the backward pass, each storage once, parameters left out."""
    own = {one.untyped_storage().data_ptr() for one in (*training.model.parameters(), *training.model.buffers())}
    storages: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = training.loss()
    total = sum(storages.values())
    loss.backward()
    return total


def _allocated(order: Order, device: torch.device) -> Trial:
    torch.cuda.set_device(device)
    training = _Training(order, device)
    for _ in range(_STEPS):
        training.optimizer.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats(device)
        training.loss().backward()
        training.update()
    torch.cuda.synchronize(device)
    sizes = training.sizes()
    peak = torch.cuda.max_memory_allocated(device)
    return Trial(
        batch_size=order.training.batch_size,
        fits=True,
        activations=max(peak - sum(sizes.values()), 0),
        peak=peak,
        reserved=torch.cuda.max_memory_reserved(device),
        **sizes,
    )


def main() -> int:
    """Entry point of a child process: an Order on standard input, a Trial on standard output."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    sys.stdout.write(msgspec.json.encode(measure(order)).decode() + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    STATUS = main()
    os._exit(STATUS)  # the trial is told; taking a CUDA context apart only costs time
