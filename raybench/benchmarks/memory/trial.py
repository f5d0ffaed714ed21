"""One trial: a few training steps at one batch size, and what they take of the memory.

On a GPU each trial is a process of its own (``python -m raybench.benchmarks.memory.trial``), so that one that runs
out of memory leaves nothing behind: no fragments, no broken context. On a CPU a trial that may not fit is one as well,
and the kernel holds it to the limit. A rank of FSDP is measured without the other ranks: its collectives go to a
process group that moves nothing, and everything that PyTorch allocates for them is there.
"""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import nn

from raybench.benchmarks.base import UnsupportedError
from raybench.benchmarks.memory.allocator import allocated_peak, is_refusal, limited
from raybench.benchmarks.memory.record import Trial
from raybench.benchmarks.training.data.samples import Batch
from raybench.benchmarks.training.models.precision import chosen_dtype, forward_context, loss_scaler, use_float8
from raybench.benchmarks.training.models.trainable import Trainable, built, trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.step import batch_of
from raybench.benchmarks.training.strategies import Shards, materialise, prepare
from raybench.benchmarks.training.update import optimizer_of

_STEPS = 2  # the optimizer makes its state in the first
_FULL = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA out of memory")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process is asked for. ``limit_bytes`` caps the allocator where it is below the device's memory.

    ``shards``: ranks over which fsdp spreads the model.
    """

    device: str
    strategy: str
    training: TrainingOptions
    limit_bytes: int
    shards: int = 1


def measure_apart(order: Order, seconds: float) -> Trial:
    """The trial in a process of its own. Raises RuntimeError where it fails for another reason than memory."""
    command = [sys.executable, "-P", "-m", "raybench.benchmarks.memory.trial"]
    try:
        child = subprocess.run(
            command, input=msgspec.json.encode(order), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"the trial with batch size {order.training.batch_size} took more than {seconds:g} s; "
            "give it more with --trial-timeout, or end the search at smaller ones with --most-batch"
        ) from None
    if (
        child.returncode < 0
        and order.device == "cpu"
        and is_refusal(RuntimeError(child.stderr.decode("utf-8", "replace")))
    ):
        return Trial(batch_size=order.training.batch_size, fits=False)
    if child.returncode != 0:
        tail = child.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
        raise RuntimeError(f"the trial with batch size {order.training.batch_size} failed: {tail[0][:300]}")
    return msgspec.json.decode(child.stdout.splitlines()[-1], type=Trial)


def measure(order: Order, *, is_limited: bool = False) -> Trial:  # gpu: memory-estimate, largest-batch
    """The trial in this process. ``is_limited``: on a CPU, hold the process to the limit."""
    device = torch.device(order.device)
    if device.type != "cuda":
        return _within_limit(order, device) if is_limited else _counted(order, device)
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(order.limit_bytes / total, 1.0), device)
    try:
        return _allocated(order, device)
    except RuntimeError as error:
        if not ran_out(error):
            raise
        return Trial(batch_size=order.training.batch_size, fits=False)


def ran_out(error: RuntimeError) -> bool:
    """Whether a GPU's memory was too small.

    PyTorch's allocator says so by a type of its own. Where the memory is all but full, what needs some beside it fails
    first, with an error that only its text tells: a kernel that CUDA loads when it is first called, or a library.
    """
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in _FULL)


def _within_limit(order: Order, device: torch.device) -> Trial:
    _warm_up()
    try:
        with limited(order.limit_bytes):
            return _counted(order, device)
    except (MemoryError, RuntimeError) as error:
        if not is_refusal(error):
            raise
        return Trial(batch_size=order.training.batch_size, fits=False)


def _warm_up() -> None:
    """What PyTorch loads with the first model, so that it does not count."""
    layer = nn.Linear(8, 8)
    layer(torch.ones(2, 8)).sum().backward()
    torch.optim.AdamW(layer.parameters()).step()


class _Training:
    """A model with its optimizer on one device."""

    def __init__(self, order: Order, device: torch.device) -> None:
        options = order.training
        self.dtype = chosen_dtype(options.dtype, device)
        self.trainable: Trainable = trainable_of(options)
        self.model: nn.Module = built(self.trainable, device)
        if self.dtype == "float8":
            use_float8(self.model)
        self._spread(order, device, replace(options, weights=None))
        self.parameters = [one for one in self.model.parameters() if one.requires_grad]
        self.optimizer = optimizer_of(options, self.parameters)
        self.forward = forward_context(self.dtype, device)
        self.scaler = loss_scaler(self.dtype, device)
        self.batch: Batch = tuple(part.to(device) for part in batch_of(self.trainable, options, 0, 0))

    def _spread(self, order: Order, device: torch.device, options: TrainingOptions) -> None:
        if order.strategy == "fsdp":
            Shards(_lone_rank(device, order.shards), self.model, options, self.dtype)
            materialise(self.model, device, options)
        else:
            prepare(self.model, "ddp" if order.strategy == "single" else order.strategy, device, options, self.dtype)

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
    """Bytes of this rank's parts, where tensors are sharded."""
    from torch.distributed.tensor import DTensor  # costs a second

    own = (one.to_local() if isinstance(one, DTensor) else one for one in tensors)
    return sum(one.numel() * one.element_size() for one in own)


def _lone_rank(device: torch.device, ranks: int) -> Any:
    """A mesh of so many ranks of which this is the first and the others are not there."""
    from torch.distributed.device_mesh import init_device_mesh  # a second to import

    try:
        from torch.testing._internal.distributed.fake_pg import FakeStore
    except ImportError as error:
        raise UnsupportedError(f"this PyTorch has no process group that moves nothing ({error})") from error
    make: Any = FakeStore
    dist.init_process_group("fake", rank=0, world_size=ranks, store=make())
    return init_device_mesh(device.type, (ranks,))


def _counted(order: Order, device: torch.device) -> Trial:
    made: list[_Training] = []

    def work() -> None:
        training = _Training(order, device)
        made.append(training)
        for _ in range(_STEPS):
            training.optimizer.zero_grad(set_to_none=True)
            training.loss().backward()
            training.update()

    peak = allocated_peak(work)
    (training,) = made
    sizes = training.sizes()
    fits = peak <= order.limit_bytes
    saved = saved_bytes(training) if fits and order.strategy != "fsdp" else max(peak - sum(sizes.values()), 0)
    return Trial(batch_size=order.training.batch_size, fits=fits, activations=saved, peak=peak, reserved=peak, **sizes)


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


def _allocated(order: Order, device: torch.device) -> Trial:  # gpu: memory-estimate, largest-batch
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
    sys.stdout.write(msgspec.json.encode(measure(order, is_limited=True)).decode() + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    STATUS = main()
    os._exit(STATUS)  # the trial is told; taking a CUDA context apart only costs time
