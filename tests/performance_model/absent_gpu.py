"""A training step on a GPU that is not there, with every tensor counted: what its allocator would hand out.

PyTorch's fake tensors have a device, a type and a size and no memory. They run through the same dispatcher as real
ones: autocast, autograd, FSDP2 and the optimizer do with them what they do on a GPU, kernel by kernel. Two things
have to be there for that, and ``SOURCE`` is both: a guard of the device and hooks that say that there is one. What a
kernel takes inside itself is not counted, and nothing here is a GPU: streams and events do nothing.

``LD_PRELOAD=guard.so python -m tests.performance_model.absent_gpu`` reads cases (JSON) and writes the peak of each.
"""

import contextlib
import functools
import gc
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.training import strategies
from raybench.benchmarks.training.models.precision import compute_dtype
from raybench.benchmarks.training.models.trainable import trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.step import Trainer

SOURCE = """
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace at {
struct CUDAHooks : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);
}
namespace {
struct Guard : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Device getDevice() const override { return c10::Device(c10::DeviceType::CUDA, 0); }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getNewStream(c10::Device, int = 0) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::DeviceType::CUDA, 0)); }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);
}
"""
_STEPS = 2  # the optimizer makes its state in the first


def build(folder: Path) -> Path:
    """The library to preload. Raises RuntimeError, with the reason, where it cannot be made."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("there is no C++ compiler")
    if torch.cuda.is_available() or torch.version.cuda:
        raise RuntimeError("this PyTorch has CUDA of its own")
    home, source, library = Path(torch.__file__).parent, folder / "guard.cpp", folder / "guard.so"
    source.write_text(SOURCE, encoding="utf-8")
    include = [f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}"]
    link = [f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{home / 'lib'}"]
    command = [compiler, "-O0", "-shared", "-fPIC", "-std=c++20", *include, str(source), "-o", str(library), *link]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"the compiler failed: {done.stderr[:300]}")
    return library


class Counted(TorchDispatchMode):
    """The most bytes of the absent GPU's storages at once, or of a CPU's, looked at whenever there is a new one."""

    def __init__(self, device: str = "cuda") -> None:
        super().__init__()
        self.peak = 0
        self._device = device
        self._known: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        fresh = False
        for one in torch.utils._pytree.tree_leaves(result):
            if isinstance(one, torch.Tensor) and one.device.type == self._device:
                reference = StorageWeakRef(getattr(one, "_local_tensor", one).untyped_storage())
                fresh |= reference.cdata not in self._known
                self._known[reference.cdata] = reference
        if fresh:
            self.peak = max(self.peak, self.now())
        return result

    def now(self) -> int:
        """Bytes that are there."""
        total = 0
        for key, reference in list(self._known.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._known[key]
            else:
                total += storage.nbytes()
        return total


class Idle:
    """A stream or event that does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: self


class Buckets(torch.nn.Module):
    """What DDP does with memory: gradients are views of buckets that stay, each copied there when it is ready.

    DDP's own reducer is written in C++ and wants memory.
    """

    def __init__(self, module: torch.nn.Module, **_: Any) -> None:
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(functools.partial(_moved, torch.empty_like(parameter)))

    def forward(self, *batch: torch.Tensor) -> Any:
        """The module's."""
        return self.module(*batch)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Gradients are added up in their places all the same."""
        return contextlib.nullcontext()


def _moved(place: torch.Tensor, parameter: torch.Tensor) -> None:
    if parameter.grad is not None and parameter.grad is not place:
        place.copy_(parameter.grad)
        parameter.grad = place


def fused_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **_: Any) -> torch.Tensor:
    """The kernel that a GPU takes for causal attention. A PyTorch without CUDA takes none, here and in the next two.

    FlashAttention, in PyTorch, of 16 bits and of values as wide as keys alone (``aten/.../cuda/sdp_utils.cpp``).
    """
    if query.dtype == torch.float32 or query.shape[-1] != value.shape[-1]:
        return torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.0, True)[0]
    return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True)[0]


class FusedNorm(torch.autograd.Function):
    """RMSNorm as a GPU computes it: one kernel that keeps its input and a deviation a row."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(states, weight, states.new_empty(states.shape[:-1], dtype=torch.float32))
        return torch.empty_like(states)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, weight, _deviation = ctx.saved_tensors
        return torch.empty_like(states), torch.empty_like(weight)


def fused_norm(self: torch.nn.RMSNorm, states: torch.Tensor) -> Any:
    """Under autocast in fp32, as PyTorch's list of operations has it."""
    weight: torch.Tensor = self.weight
    if torch.is_autocast_enabled("cuda"):
        states, weight = states.float(), weight.float()
    return FusedNorm.apply(states, weight)


class FusedSilu(torch.autograd.Function):
    """One kernel each way."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(states)
        return torch.empty_like(states)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(ctx.saved_tensors[0])


@contextlib.contextmanager
def pretended() -> Iterator[None]:
    """``torch.cuda`` as far as training asks it, parameters that nobody fills, DDP without the exchanges."""
    on_cpu = torch.Generator()
    with (
        mock.patch.multiple(
            torch.cuda, Stream=Idle, Event=Idle, current_stream=Idle, current_device=lambda: 0,
            stream=lambda _: contextlib.nullcontext(), is_bf16_supported=lambda *_, **__: True,
            get_device_capability=lambda *_: (9, 0), set_device=lambda _: None, device_count=lambda: 1,
        ),
        mock.patch("torch.cuda.amp.common.amp_definitely_not_available", return_value=False),
        mock.patch.object(torch, "Generator", return_value=on_cpu),
        mock.patch("torch.nn.functional.scaled_dot_product_attention", fused_attention),
        mock.patch("torch.nn.functional.silu", FusedSilu.apply),
        mock.patch.object(torch.nn.RMSNorm, "forward", fused_norm),
        mock.patch.object(strategies, "fill"),
        mock.patch.object(strategies, "DistributedDataParallel", Buckets),
    ):  # fmt: skip
        yield


def counted_peak(strategy: str, options: TrainingOptions, *, ranks: int, per_node: int) -> int:
    """Bytes of one rank at the fullest moment of a step."""
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    try:
        with pretended():
            return _counted(_context(ranks, per_node), strategy, options)
    finally:
        dist.destroy_process_group()


def _counted(context: RankContext, strategy: str, options: TrainingOptions) -> int:
    """Modules cannot exchange a fake parameter, so the model is a plain one without memory until it is spread."""
    trainable, dtype = trainable_of(options), str(options.dtype)
    mesh = strategies.mesh_of(context, options)
    with torch.device("meta"):
        model = trainable.build()
    if strategy in ("lora", "qlora"):
        model.to(compute_dtype(dtype))
    with (
        mock.patch.object(strategies, "mesh_of", return_value=mesh),
        mock.patch.object(strategies, "materialise", functools.partial(_materialise, tied=trainable.tied)),
        FakeTensorMode(allow_non_fake_inputs=True),
        Counted() as counted,
    ):
        spread = strategies.apply_strategy(context, model, strategy, options, dtype)
        trainer = Trainer(context, trainable, spread, options, dtype)
        for group in trainer.optimizer.param_groups:
            group["foreach"] = True  # what PyTorch chooses on a GPU, for tensors that are no fakes
        for step in range(_STEPS):
            gc.collect()
            counted.peak = counted.now()
            trainer.step(step)
        return counted.peak


def _materialise(model: Any, device: torch.device, options: TrainingOptions, *, tied: bool) -> None:
    """As training does it, but for the values. Layers that share a parameter share it again."""
    model.to_empty(device=device)
    if tied:
        model.lm_head.weight = model.model.embed_tokens.weight


def _context(ranks: int, per_node: int) -> RankContext:
    nothing: dict[str, Any] = {"store": None}
    return RankContext(
        rank=0, local_rank=0, world_size=ranks, ranks_on_machine=ranks, ranks_on_node=per_node, backend="nccl",
        device=torch.device("cuda", 0), progress=ProgressSlot(), **nothing,
    )  # fmt: skip


def main() -> int:
    """Read a list of cases from standard input, write the list of their peaks."""
    peaks = [
        counted_peak(
            case["strategy"], TrainingOptions(**case["options"]), ranks=case["ranks"], per_node=case["per_node"]
        )
        for case in json.load(sys.stdin)
    ]
    print(json.dumps(peaks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
