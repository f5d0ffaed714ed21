"""Over how many ranks parameters and optimizer state are spread, and whether what was gathered stays so."""

from raybench.performance_model.layout import Layout
from raybench.performance_model.training_setup import TrainingSetup


def shard_count(setup: TrainingSetup, layout: Layout) -> int:
    """Ranks over which FSDP spreads each parameter; 1 under DDP."""
    if setup.strategy == "fsdp-hybrid":
        return layout.sharing_in_node.ranks
    return layout.sharing.ranks if setup.is_sharded else 1


def keeps_gathered(setup: TrainingSetup, layout: Layout) -> bool:
    """Whether weights stay gathered, and gradients whole, over all micro-batches: FSDP under PyTorch's pipelines.

    Their schedules reshard and reduce after a stage's last micro-batch, once the weights are not resharded after each
    forward pass.
    """
    return setup.strategy == "fsdp-grad-op" and layout.pipeline > 1


def state_shard_count(setup: TrainingSetup, layout: Layout) -> int:
    """Ranks over which the optimizer state is spread."""
    return layout.sharing.ranks if setup.is_zero and not setup.whole_state else shard_count(setup, layout)
