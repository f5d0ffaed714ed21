"""How a model is spread over the ranks: replicas (DDP), shards (FSDP2), or replicas of adapters on a frozen base."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from raybench.benchmarks.base import RankContext, UnsupportedError
from raybench.benchmarks.training.hook import install_hook, reduce_dtype
from raybench.benchmarks.training.models.adapters import adapt
from raybench.benchmarks.training.models.initial import fill
from raybench.benchmarks.training.models.peft_adapters import adapt_by_peft
from raybench.benchmarks.training.models.precision import compute_dtype, use_float8
from raybench.benchmarks.training.models.trainable import blocks_of
from raybench.benchmarks.training.models.weights import load_weights
from raybench.benchmarks.training.options import TrainingOptions


class Replica:
    """A model in every rank: gradients are averaged in buckets while the backward pass goes on."""

    has_gradient_marks = True  # a parameter's hook fires when its own gradient is ready, before it is averaged
    reduces_each = False

    def __init__(self, context: RankContext, model: nn.Module, options: TrainingOptions) -> None:
        self.plain = model
        on_gpu = context.device.type == "cuda"  # gpu: train-ddp
        self._wrapped = DistributedDataParallel(
            model,
            device_ids=[context.device] if on_gpu else None,  # gpu: train-ddp
            bucket_cap_mb=options.bucket_mib,
            gradient_as_bucket_view=True,
            broadcast_buffers=False,  # a quantised base is buffers, and never changes
        )
        install_hook(self._wrapped, options)
        self.module: Any = torch.compile(self._wrapped) if options.compile else self._wrapped

    @contextlib.contextmanager
    def synchronising(self, enabled: bool) -> Iterator[None]:
        """Whether the gradients of what runs within are averaged over the ranks."""
        with contextlib.nullcontext() if enabled else self._wrapped.no_sync():
            yield

    def group_of(self, operation: str) -> Any:  # noqa: ARG002 - as replay.Grouping has it
        """All ranks run every collective."""
        return None


class Shards:
    """A part of every parameter in each rank: gathered when it is used, gradients summed into the parts (FSDP2)."""

    has_gradient_marks = False  # PyTorch runs hooks on parts once they are reduced

    def __init__(self, mesh: Any, model: nn.Module, options: TrainingOptions, dtype: str) -> None:
        self.plain = model
        self.reduces_each = options.reduce_each  # of a step's micro-batches; else the last alone
        self._groups = {} if mesh.ndim == 1 else {name: mesh.get_group(name) for name in mesh.mesh_dim_names}
        settings: dict[str, Any] = {"mesh": mesh}
        if options.sharding == "grad-op":  # else PyTorch's own: all but the root are released after the forward pass
            settings["reshard_after_forward"] = False
        gathered_as = None if dtype == "float32" else compute_dtype(dtype)
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=gathered_as, reduce_dtype=reduce_dtype(options))
        for block in blocks_of(model):
            fully_shard(block, **settings)
        self._sharded = fully_shard(model, **settings)
        self.module: Any = torch.compile(model) if options.compile else model

    @contextlib.contextmanager
    def synchronising(self, enabled: bool) -> Iterator[None]:
        """Whether gradients are reduced over the ranks; parameters are gathered all the same."""
        self._sharded.set_requires_gradient_sync(enabled)
        try:
            yield
        finally:
            self._sharded.set_requires_gradient_sync(True)

    def group_of(self, operation: str) -> Any:
        """Of hybrid shards: a node's ranks gather and scatter, equal shards of all nodes are reduced."""
        return self._groups.get("replicate" if operation == "all_reduce" else "shard")


def mesh_of(context: RankContext, options: TrainingOptions) -> Any:
    """The ranks that share a model; of hybrid shards, nodes by ranks of a node."""
    from torch.distributed.device_mesh import init_device_mesh  # a second to import

    kind = context.device.type
    if options.sharding != "hybrid":
        return init_device_mesh(kind, (context.world_size,))
    per_node = context.ranks_on_node
    if context.world_size % per_node or context.world_size == per_node:
        raise UnsupportedError(
            f"hybrid sharding needs two nodes or more with as many ranks each, and there are "
            f"{context.world_size} ranks with {per_node} on a node"
        )
    shape = (context.world_size // per_node, per_node)
    return init_device_mesh(kind, shape, mesh_dim_names=("replicate", "shard"))


Strategy = Replica | Shards


def apply_strategy(context: RankContext, model: nn.Module, name: str, options: TrainingOptions, dtype: str) -> Strategy:
    """A model as ``Trainable.build`` made it, on the rank's device, filled and under a strategy."""
    if dtype == "float8":
        use_float8(model)
    if name == "fsdp":
        sharded = Shards(mesh_of(context, options), model, options, dtype)
        materialise(model, context.device, options)
        return sharded
    prepare(model, name, context.device, options, dtype)
    return Replica(context, model, options)


def prepare(model: nn.Module, name: str, device: torch.device, options: TrainingOptions, dtype: str) -> None:
    """A whole model on one device, with adapters where the strategy has them: what the reference trains as well."""
    if name in ("lora", "qlora"):
        if not hasattr(model, "lm_head"):
            raise UnsupportedError(f"{name} adapts the linear layers of transformers; --model is {options.called}")
        model.to(compute_dtype(dtype))
    materialise(model, device, options)
    if name in ("lora", "qlora") and options.adapter == "peft":
        adapt_by_peft(model, options, compute_dtype(dtype), quantised=name == "qlora")
    elif name in ("lora", "qlora"):
        adapt(
            model,
            rank=options.lora_rank,
            alpha=options.lora_alpha,
            quantised=name == "qlora",
            targets=options.lora_targets,
        )


def materialise(model: nn.Module, device: torch.device, options: TrainingOptions) -> None:
    """Give the parameters memory on the device and values: from a folder of weights, or by the seed."""
    if any(parameter.is_meta for parameter in model.parameters()):
        model.to_empty(device=device)
    else:
        model.to(device)
    if options.weights:
        load_weights(model, options.weights)
    else:
        fill(model, seed=options.seed)
