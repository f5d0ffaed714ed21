"""What PyTorch's allocator holds beyond what is in use, where shards are gathered and reduced on other streams. Bytes.

The allocator has one pool per stream, and none serves another (c10/cuda/CUDACachingAllocator.cpp). So each pool stays
as large as it was at its own fullest moment.
"""

from collections.abc import Mapping

from raybench.performance_model.memory.moments import WITH_GRADIENTS, ZERO_LIVE, Step
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.adapters import PACKED_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

# Fragmentation beside the pools, as a share of what comes and goes: of full training, and of adapters, gathered
# one by one beside the frozen blocks (some hundred units of a few sizes, whose holes no block fits).
STREAMS_FRAGMENTATION_SHARES = {"whole": 0.12, "adapters": 0.3}
# The same of ``fully_shard``: of 24 runs of torchtitan and torchao that printed what was reserved the eight whose
# blocks are computed again have 0.14 and 0.15 in the median, the others 0.07 to 0.11.
FULLY_SHARD_FRAGMENTATION_SHARES = {"kept": 0.1, "computed again": 0.15}
# What FSDP1 (FullyShardedDataParallel) has waiting, as a share of what comes and goes: a freed block waits until its
# stream is through (record_stream), and others are allocated meanwhile. nvidia-smi beside max_memory_allocated on 2
# and 4 A100 (fms-acceleration): medians of adapters with and without logits in chunks, and of whole models.
STREAMS_SHARES = {"chunked": 0.24, "adapters": 0.47, "whole": 0.92}
# DeepSpeed's ZeRO-3 gathers on a stream of its own as well: what published trainings hold beside the weights that are
# gathered at once, as a multiple of their limit (Qwen-72B by LoRA on four GPUs, whatever the length: 8 GB).
ZERO_WAITING = 4


def sharded_fragmentation(step: Step, moments: Mapping[str, float], *, copies: float) -> float:
    """Fragmentation of a rank with shards: a share of what comes and goes, and the pools of other streams.

    ``copies``: ZeRO-3's buckets of gradients.
    """
    setup, dynamic = step.setup, max(moments.values())
    if not setup.on_streams:
        share = FULLY_SHARD_FRAGMENTATION_SHARES["computed again" if setup.checkpointing else "kept"]
        return share * dynamic + _pools(step, moments, copies)
    share = STREAMS_FRAGMENTATION_SHARES["adapters" if setup.lora_rank else "whole"]
    return share * dynamic + _pools(step, moments, copies)


def _pools(step: Step, moments: Mapping[str, float], copies: float) -> float:
    """What pools of other streams hold at the fullest moment, beside what is counted in it.

    The gradients' shards are in the pool of the stream that reduces them; freed, they serve no activations. FSDP2
    gathers into buffers of another pool, two at once, and copies the weights out of them
    (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py). FSDP1 gathers in place, the next block beside the one in
    use (_runtime_utils.py). ZeRO-3 holds as much again as it gathers and reduces at once.
    """
    if step.setup.strategy == "zero3":
        return step.live + min(copies, float(step.setup.trainable(step.model) * step.setup.compute_bytes))
    root = float(step.model.outer_parameters * step.setup.compute_bytes)
    gathered = step.gathered_block + (0.0 if step.setup.on_streams else root)
    loose = step.loose_gradients
    apart = max(size - (loose if name in WITH_GRADIENTS else 0.0) for name, size in moments.items())
    return gathered + loose - (max(moments.values()) - apart)


def waiting_bytes(model: Transformer, setup: TrainingSetup, dynamic: float) -> int:
    """Blocks that wait for other streams, beside ``dynamic``; the allocator frees them before it fails."""
    if setup.strategy == "zero3":
        each = PACKED_BYTES[setup.packing] if setup.quantized else setup.compute_bytes
        return int(min(model.parameters, ZERO_WAITING * ZERO_LIVE) * each)
    if not setup.lora_rank:
        return int(STREAMS_SHARES["whole"] * dynamic)
    return int(STREAMS_SHARES["chunked" if setup.loss.startswith("chunked") else "adapters"] * dynamic)
