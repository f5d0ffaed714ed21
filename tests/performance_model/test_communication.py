"""What training sends: DDP's buckets as torch makes them, FSDP's collectives by hand, times by alpha and beta."""

import math
from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.performance_model.communication import (
    Message,
    Sharding,
    ShardUnit,
    Traffic,
    ddp_buckets,
    ddp_traffic,
    fsdp_traffic,
    step_seconds,
)
from raybench.performance_model.layout import Layout, Network, wire_factor
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.traffic import training_traffic

EIGHT = Layout(world_size=8, ranks_per_node=8)
TWO_NODES = Layout(world_size=16, ranks_per_node=8)
NETWORK = Network(node_gb_per_s=360, fabric_gb_per_s=368)


@pytest.mark.parametrize("model", ["tiny", "gpt2", "tinyllama-1.1b"])
def test_buckets_are_those_that_torch_makes(model: str) -> None:
    torch = pytest.importorskip("torch")
    shape = preset_named(model)
    shapes = [*shape.outer_shapes()[:1], *shape.block_shapes() * shape.layers, *shape.outer_shapes()[1:]]
    tensors = [torch.empty(one, device="meta") for one in reversed(shapes)]
    indices, _ = torch._C._distributed_c10d._compute_bucket_assignment_by_size(tensors, [2**20, 25 * 2**20])
    expected = [sum(tensors[index].nbytes for index in bucket) for bucket in indices]
    assert list(ddp_buckets([tensor.nbytes for tensor in tensors])) == expected


def test_ddp_sends_each_gradient_once_and_twice_over_the_wire() -> None:
    shapes = [(1000, 1000)] * 30
    traffic = ddp_traffic(shapes, EIGHT)
    assert traffic.message_bytes == 120_000_000
    assert traffic.wire_bytes == pytest.approx(120e6 * 2 * 7 / 8)
    assert traffic.count == len(ddp_buckets([4_000_000] * 30))
    assert ddp_traffic(shapes, EIGHT, accumulation=4).message_bytes == 120_000_000
    assert ddp_traffic(shapes, EIGHT, accumulation=4, no_sync=False).message_bytes == 480_000_000
    assert ddp_traffic(shapes, Layout(world_size=1, ranks_per_node=8)).count == 0


def bytes_of(traffic: Traffic, operation: str) -> int:
    return sum(one.total_bytes for one in traffic.messages if one.operation == operation)


def test_full_sharding_gathers_twice_and_scatters_once() -> None:
    units = [ShardUnit(shapes=((64, 10),), stays_gathered=True), *[ShardUnit(shapes=((100, 10), (100,)))] * 3]
    full = fsdp_traffic(units, EIGHT, Sharding())
    padded = 104 * 10 + 104  # 100 rows over 8 ranks are padded to 104
    assert bytes_of(full, "all_gather") == 2 * (640 + 2 * 3 * padded)
    assert bytes_of(full, "reduce_scatter") == 4 * (640 + 3 * padded)
    kept = fsdp_traffic(units, EIGHT, Sharding(strategy="grad-op"))
    assert bytes_of(kept, "all_gather") == 2 * (640 + 3 * padded)
    assert bytes_of(kept, "reduce_scatter") == bytes_of(full, "reduce_scatter")


def test_hybrid_sharding_reduces_each_shard_over_the_nodes() -> None:
    units = [ShardUnit(shapes=((80, 10),))]
    traffic = fsdp_traffic(units, TWO_NODES, Sharding(strategy="hybrid"))
    (over_nodes,) = [one for one in traffic.messages if one.operation == "all_reduce"]
    assert over_nodes.message_bytes == 800 * 4 / 8
    assert (over_nodes.group.ranks, over_nodes.group.nodes, over_nodes.group.beside) == (2, 2, 8)
    assert {one.group.ranks for one in traffic.messages if one.operation != "all_reduce"} == {8}


def test_frozen_parameters_are_gathered_and_not_reduced() -> None:
    unit = ShardUnit(shapes=((80, 10), (8, 10)), trainable=((8, 10),))
    traffic = fsdp_traffic([unit], EIGHT, Sharding(accumulation=3, no_sync=True))
    assert bytes_of(traffic, "all_gather") == 2 * 880 * 2 * 3
    assert bytes_of(traffic, "reduce_scatter") == 80 * 4
    untrained = fsdp_traffic([ShardUnit(shapes=((80, 10),), trainable=())], EIGHT, Sharding())
    assert bytes_of(untrained, "reduce_scatter") == 0


def test_a_presets_traffic_is_its_parameters() -> None:
    model = preset_named("llama-8b")
    setup = TrainingSetup(batch_size=1, sequence_length=128)
    assert training_traffic(model, setup, EIGHT).message_bytes == 4 * model.parameters
    sharded = TrainingSetup(batch_size=1, sequence_length=128, strategy="fsdp")
    traffic = training_traffic(model, sharded, EIGHT)
    blocks = model.layers * model.parameters_per_layer
    assert bytes_of(traffic, "all_gather") == 2 * (model.parameters + blocks)
    assert bytes_of(traffic, "reduce_scatter") == 4 * model.parameters
    lora = TrainingSetup(batch_size=1, sequence_length=128, lora_rank=16)
    assert training_traffic(model, lora, EIGHT).message_bytes == 4 * model.lora_parameters(16)


@pytest.mark.parametrize(
    ("operation", "ranks", "factor"),
    [("all_reduce", 8, 1.75), ("all_gather", 8, 0.875), ("reduce_scatter", 2, 0.5), ("broadcast", 8, 1.0)],
)
def test_wire_factors_are_those_of_busbw(operation: str, ranks: int, factor: float) -> None:
    assert wire_factor(operation, ranks) == factor
    assert wire_factor(operation, 1) == 0


def test_rings_over_nodes_have_the_slower_of_links_and_cards() -> None:
    assert NETWORK.bandwidth_gb_per_s(EIGHT.world) == 360
    assert NETWORK.bandwidth_gb_per_s(TWO_NODES.world) == 360
    slow = Network(node_gb_per_s=360, fabric_gb_per_s=46)
    assert slow.bandwidth_gb_per_s(TWO_NODES.world) == 46
    assert slow.bandwidth_gb_per_s(TWO_NODES.replicas) == 46 / 8
    measured = Network(node_gb_per_s=360, fabric_gb_per_s=46, bus_gb_per_s=40)
    assert measured.bandwidth_gb_per_s(TWO_NODES.world) == 40
    assert measured.bandwidth_gb_per_s(TWO_NODES.node) == 360
    with pytest.raises(UsageError, match="network between nodes"):
        Network(node_gb_per_s=360).bandwidth_gb_per_s(TWO_NODES.world)


def test_time_is_latency_and_bytes_over_bandwidth() -> None:
    network = Network(node_gb_per_s=100, launch_seconds=1e-5, node_hop_seconds=1e-6)
    seconds = network.seconds("all_reduce", 1e9, EIGHT.world)
    assert seconds == pytest.approx(1e-5 + 7e-6 + 1.75e9 / 100e9)
    assert network.seconds("all_reduce", 1e9, Layout(world_size=1, ranks_per_node=1).world) == 0


def test_small_all_reduces_take_what_published_logs_show() -> None:
    assert 10e-6 < NETWORK.seconds("all_reduce", 8, EIGHT.world) < 25e-6  # 13 us, 8 x H100
    assert 30e-6 < NETWORK.seconds("all_reduce", 8, TWO_NODES.world) < 75e-6  # 47 to 69 us, 2 x 8 over RDMA


def test_a_step_lies_between_all_hidden_and_none() -> None:
    traffic = training_traffic(preset_named("gpt2"), TrainingSetup(batch_size=1, sequence_length=128), TWO_NODES)
    alone = traffic.seconds(NETWORK)
    for compute in (0.0, alone / 10, alone, alone * 10):
        step = step_seconds(compute, traffic, NETWORK)
        assert max(compute, alone) <= step.least <= step.most == pytest.approx(compute + alone)
    nothing = step_seconds(1.0, Traffic(messages=()), NETWORK)
    assert nothing.least == nothing.most == 1.0
    assert math.isclose(
        step_seconds(1.0, traffic, NETWORK).exposed_least, traffic.shortest_seconds(NETWORK, "backward")
    )


def test_ranks_that_do_not_fill_nodes_are_refused() -> None:
    assert Layout(world_size=4, ranks_per_node=8).nodes == 1
    for world_size, ranks_per_node in ((12, 8), (0, 8), (8, 0)):
        with pytest.raises(UsageError):
            Layout(world_size=world_size, ranks_per_node=ranks_per_node)


def test_zero1_gathers_after_the_update_what_is_trained_and_nothing_of_a_frozen_base() -> None:
    """LoRA of Llama 2 70B by NeMo on 64 H100 (MLPerf v4.1) was told 1.7 times its time."""
    layout = Layout(world_size=8, ranks_per_node=8)
    frozen = ShardUnit(shapes=((4096, 4096), (16, 4096)), trainable=((16, 4096),))
    sent = {
        strategy: fsdp_traffic([frozen], layout, Sharding(strategy=strategy)).messages
        for strategy in ("state", "grad-op")
    }
    gathered = {
        name: sum(one.total_bytes for one in messages if one.operation == "all_gather")
        for name, messages in sent.items()
    }
    assert gathered == {"state": 2 * 16 * 4096, "grad-op": 2 * (4096 + 16) * 4096}


@pytest.mark.parametrize(("beside", "hidden"), [(0.0, 0.0), (0.25, 0.1), (1.0, 0.4)])
def test_the_slowest_step_hides_what_is_sent_beside_its_last_micro_batch(beside: float, hidden: float) -> None:
    """Of a second of computation, beside which two seconds are sent, 0.4 of what fits beside it are saved."""
    gathers = Message(operation="all_gather", phase="forward", message_bytes=10**9, group=TWO_NODES.sharing, count=1000)
    sums = replace(gathers, operation="reduce_scatter", phase="backward")
    each = gathers.seconds(NETWORK) / 1000
    step = step_seconds(1.0, Traffic(messages=(gathers, sums)), NETWORK, beside=beside)
    assert step.most == pytest.approx(1 + 2000 * each - hidden)
    short = step_seconds(4000 * each, Traffic(messages=(gathers, sums)), NETWORK, beside=1.0)
    assert short.most == pytest.approx((4000 + 0.6 * 2000) * each)
