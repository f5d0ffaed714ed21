"""Predicted collectives against those that DDP's and FSDP2's own code issues, counted at the dispatcher.

The process group is PyTorch's fake one: it accepts every collective and moves nothing, so one process stands for rank 0
of many, and the sizes are those of a real run.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raybench.performance_model.communication import Sharding, ShardUnit, Traffic, ddp_traffic, fsdp_traffic
from raybench.performance_model.layout import Layout

torch = pytest.importorskip("torch")
dist = torch.distributed
fsdp = pytest.importorskip("torch.distributed.fsdp")
fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
from torch.distributed.device_mesh import init_device_mesh
from torch.utils._python_dispatch import TorchDispatchMode

RANKS, PER_NODE = 8, 4
WIDTH, INNER, BLOCKS = 10, 36, 3  # rows that 8 does not divide: padding counts
NAMES = {
    "_allgather_base_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allreduce_": "all_reduce",
}


class Counting(TorchDispatchMode):
    """S of every collective of c10d, by operation: the gathered, the scattered, the reduced message."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, list[int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.partition(".")[0]
        if func.namespace == "c10d" and name in NAMES:
            tensors = torch.utils._pytree.tree_leaves(args[:2])
            sizes = [leaf.numel() * leaf.element_size() for leaf in tensors if isinstance(leaf, torch.Tensor)]
            self.seen.setdefault(NAMES[name], []).append(max(sizes))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def group() -> Iterator[None]:
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=fake.FakeStore())
    yield
    dist.destroy_process_group()


def network() -> Any:
    blocks = [torch.nn.Sequential(torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(INNER, WIDTH)) for _ in range(BLOCKS)]
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), *blocks)


def units(*, root_gathered: bool) -> list[ShardUnit]:
    block = ShardUnit(shapes=((INNER, WIDTH), (INNER,), (WIDTH, INNER), (WIDTH,)))
    return [ShardUnit(shapes=((WIDTH, WIDTH), (WIDTH,)), stays_gathered=root_gathered), *[block] * BLOCKS]


def step(model: Any) -> dict[str, list[int]]:
    """The collectives of the second step: the first one settles what is done lazily."""
    for _ in range(2):
        counting = Counting()
        with counting:
            model(torch.randn(2, WIDTH)).float().sum().backward()
    return counting.seen


def sizes(traffic: Traffic) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for message in traffic.messages:
        found.setdefault(message.operation, []).extend([message.message_bytes] * message.count)
    return {operation: sorted(counted) for operation, counted in found.items()}


@pytest.mark.parametrize("strategy", ["full", "grad-op", "hybrid"])
def test_fsdp_issues_what_is_predicted(group: None, strategy: str) -> None:
    nodes = {"mesh_shape": (RANKS // PER_NODE, PER_NODE), "mesh_dim_names": ("replicas", "shards")}
    mesh = init_device_mesh("cpu", **(nodes if strategy == "hybrid" else {"mesh_shape": (RANKS,)}))
    policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = network()
    reshard = False if strategy == "grad-op" else None
    for block in model[1:]:
        fsdp.fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fsdp.fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    layout = Layout(world_size=RANKS, ranks_per_node=PER_NODE)
    sharding = Sharding(strategy=strategy, parameter_bytes=2, gradient_bytes=4)
    counted = {operation: sorted(found) for operation, found in step(model).items()}
    assert counted == sizes(fsdp_traffic(units(root_gathered=True), layout, sharding))


def test_ddp_fills_the_buckets_that_are_predicted(group: None) -> None:
    model, buckets, limit = network(), [], 2048
    parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=limit / 2**20)

    def count(state, bucket):  # DDP refuses other annotations than its own
        buckets.append(bucket.buffer().numel() * bucket.buffer().element_size())
        done: Any = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    parallel.register_comm_hook(None, count)
    for _ in range(2):  # all is one bucket in the first step
        buckets.clear()
        parallel(torch.randn(2, WIDTH)).sum().backward()
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    layout = Layout(world_size=RANKS, ranks_per_node=PER_NODE)
    predicted = sizes(ddp_traffic(shapes, layout, bucket_bytes=limit))["all_reduce"]
    assert sum(buckets) == sum(predicted) == 4 * sum(parameter.numel() for parameter in model.parameters())
    assert sorted(buckets) == predicted
