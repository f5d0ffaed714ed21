"""Over how many ranks parameters and optimizer state are spread, and whether what was gathered stays so."""

from dataclasses import replace

from raybench.performance_model.layout import Layout
from raybench.performance_model.setup.training_setup import TrainingSetup


def shard_count(setup: TrainingSetup, layout: Layout) -> int:
    """Ranks over which FSDP spreads each parameter; 1 under DDP."""
    if setup.strategy == "fsdp-hybrid":
        return layout.sharing_in_node.ranks
    return layout.sharing.ranks if setup.is_sharded else 1


def as_pipelined(setup: TrainingSetup, layout: Layout) -> TrainingSetup:
    """FSDP as PyTorch's programs have it in a pipeline: no layer is resharded after its forward pass.

    So torchtitan (distributed/fsdp.py, get_fsdp_reshard_after_forward_policy: ``default``) and NeMo Automodel
    (components/distributed/parallelizer.py, apply_fsdp2_sharding_recursively), unless they are told otherwise.
    """
    keeps = setup.strategy == "fsdp" and layout.pipeline > 1 and not setup.reshards_in_pipeline
    return replace(setup, strategy="fsdp-grad-op") if keeps else setup


def keeps_gathered(setup: TrainingSetup, layout: Layout) -> bool:
    """Whether weights stay gathered, and gradients whole, over all micro-batches: FSDP under PyTorch's pipelines.

    Their schedules reshard and reduce after a stage's last micro-batch, once the weights are not resharded after each
    forward pass.
    """
    return as_pipelined(setup, layout).strategy == "fsdp-grad-op" and layout.pipeline > 1


def state_shard_count(setup: TrainingSetup, layout: Layout) -> int:
    """Ranks over which the optimizer state is spread."""
    return layout.sharing.ranks if setup.is_zero and not setup.whole_state else shard_count(setup, layout)
