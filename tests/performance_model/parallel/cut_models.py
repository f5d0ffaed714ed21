"""Models that are cut over ranks in these tests, and what is asked of them."""

from dataclasses import replace

from raybench.performance_model.communication import Traffic
from raybench.performance_model.layout import Group, Layout, Network
from raybench.performance_model.memory.rank import MemoryEstimate, estimate_memory
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import TrainingSetup

LLAMA, SMALL = preset_named("llama-70b"), preset_named("llama-8b")
MIXTURE = replace(preset_named("mistral-7b"), name="mixture", experts=8, experts_per_token=2)
TEN_GROUPS = replace(SMALL, heads=40, kv_heads=10, hidden=5120)  # as Phi-4
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, kernels="fused", loss="fused")
NETWORK = Network(node_gb_per_s=360, fabric_gb_per_s=368)


def layout(world_size: int, **cuts: int) -> Layout:
    return Layout(world_size=world_size, ranks_per_node=8, **cuts)


def memory(model: Transformer, where: Layout, **changes: object) -> MemoryEstimate:
    return estimate_memory(model, replace(SETUP, **changes), where)  # type: ignore[arg-type]  # as given


def sent_by(traffic: Traffic, group: Group) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in traffic.messages:
        if one.group == group:
            found[one.operation] = found.get(one.operation, 0) + one.total_bytes
    return found
