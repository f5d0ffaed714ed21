"""Collectives of a step that tensor, context, expert and pipeline parallelism need.

Sizes are of one rank and its pipeline stage. b, s, h: samples of a micro-batch, tokens of a sequence, hidden size.
"""

from collections import Counter
from collections.abc import Iterator

from raybench.performance_model.communication import Message, Traffic, joined
from raybench.performance_model.layout import Group, Layout, Operation
from raybench.performance_model.memory.recomputed_modules import is_feedforward_again
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.setup.training_setup import TrainingSetup

# How many times as long as large messages NCCL's all_to_all of tokens takes over nodes at most: it has half of the line
# rate, these have 0.92. Kimi-K2 on 256 B300 by 16 NICs of EFA a node takes 5.79 s a step by it and 3.83 s by DeepEP's
# kernels, which send a token once to each of four nodes (awslabs/awsome-distributed-ai, megatron-bridge/kimi-k2,
# benchmarks/RESULTS.md): 0.46 of the rate, if these have all of it; DeepSeek-V3 the same. Qwen3-235B on 256 H800 has
# 0.79 of it so (InternLM/xtuner, megatron_moe_benchmark.md), a layer of DeepSeek-V3 on 64 H100 0.63 (13 ms;
# deepseek-ai/DeepEP issue 59). Of routing from fine-tuning, over 16 H100, DeepEP's kernels take 0.62 of the time beside
# what they need not send (deepspeedai/DeepSpeed pull request 8213).
_NCCL_EXCHANGE_TIMES = 1.8


def cut_traffic(model: Transformer, setup: TrainingSetup, layout: Layout, *, accumulation: int = 1) -> Traffic:
    """All collectives of a step that exist because the model is cut."""
    if not layout.is_cut:
        return Traffic(messages=())
    part, local = part_of(model, layout), local_setup(setup, layout)
    once = [
        *_tensor(part, local, layout),
        *_context(part, setup, layout),
        *_expert(part, local, layout),
        *_stages(part, local, layout),
    ]
    return Traffic(messages=joined(message.times(accumulation) for message in once if message.group.ranks > 1))


def _tensor(part: Transformer, local: TrainingSetup, layout: Layout) -> Iterator[Message]:
    """Two all_reduces of b s h per layer and pass, after attention and the MLP (Shoeybi et al. 2019, section 3).

    With sequence parallelism each is a reduce_scatter and an all_gather of as much (Korthikanti et al. 2022, section
    4.2.2); what the backward pass gathers once more for the weights' gradients is hidden behind them. Recomputed blocks
    send again. Nothing can be computed meanwhile except, in programs with fused kernels, pieces of the product itself.
    """
    size, widths = int(local.tokens * part.hidden * local.compute_bytes), _tensor_widths(part, layout)
    operations: tuple[Operation, ...] = ("all_gather", "reduce_scatter") if local.spreads_sequence else ("all_reduce",)
    phases = {"forward": widths, "backward": Counter(widths) + _tensor_widths_again(part, local, layout)}
    for phase, counts in phases.items():
        for operation in operations:
            for width, count in counts.items():
                yield Message(
                    operation=operation,
                    phase="forward" if phase == "forward" else "backward",
                    message_bytes=int(size * width),
                    group=layout.tensor_group,
                    count=count,
                    blocking=True,
                    overlappable=local.spreads_sequence and local.kernels == "fused",
                )


def _tensor_widths(part: Transformer, layout: Layout) -> dict[float, int]:
    """Collectives over tensor ranks in a pass through all layers: size in units of b s h -> how many.

    One after attention and one after the MLP. Experts that are spread and cut exchange each copy of a token that came
    to them (Megatron-LM's megatron/core/transformer/moe/token_dispatcher.py: gathered over the tensor ranks after the
    all_to_all, with ``expert-tensor-parallel-size`` above 1). Whole experts exchange nothing over tensor ranks. An
    expert that all tokens pass is cut in any case.
    """
    spread = part.layers - part.dense_layers if part.experts and layout.expert > 1 else 0
    once = 2 * part.layers - (0 if part.shared_feedforward else spread)
    if not spread or layout.has_whole_experts:
        return {1: once}
    copies = part.experts_per_token
    return {1: once + spread} if copies == 1 else {1: once, copies: spread}


def _tensor_widths_again(part: Transformer, local: TrainingSetup, layout: Layout) -> Counter[float]:
    """The same for recomputation: all of them for whole blocks, those after the MLP where that alone is recomputed."""
    if local.checkpointing or local.selective:
        return Counter(_tensor_widths(part, layout))
    found: Counter[float] = Counter()
    for kind in part.kinds():
        if is_feedforward_again(kind, local):
            found += Counter(_tensor_widths(kind, layout))
            found[1] -= kind.layers
    return found


def _context(part: Transformer, setup: TrainingSetup, layout: Layout) -> Iterator[Message]:
    """Keys and values of the whole sequence, again in the backward pass, and their gradients back.

    Of Ring Attention (Liu et al. 2023), which passes them around while it computes, and of Llama 3's all_gather
    (Grattafiori et al. 2024, section 3.3.2) alike: each rank gets all but its own.
    """
    size = int(setup.tokens * 2 * part.key_value_heads * part.head_size * setup.compute_bytes)
    group = layout.context_group
    again = 2 if setup.checkpointing else 1
    yield Message(operation="all_gather", phase="forward", message_bytes=size, group=group, count=part.layers)
    yield Message(operation="all_gather", phase="backward", message_bytes=size, group=group, count=again * part.layers)
    yield Message(operation="reduce_scatter", phase="backward", message_bytes=size, group=group, count=part.layers)


def _expert(part: Transformer, local: TrainingSetup, layout: Layout) -> Iterator[Message]:
    """Each token to its experts and back, in each pass: b s h times the experts a token (GShard, Lepikhin et al. 2020).

    With tensor and sequence parallelism a rank sends its share of the tokens. Selective checkpointing keeps what comes
    (torchtitan/distributed/activation_checkpoint.py, from 2026 on). Where nobody says, programs with fused kernels may
    send while they compute another micro-batch. That saves little where it is slow: with it DeepSeek-V3 and Kimi-K2 on
    256 B300 by NCCL over EFA take 1.8 times as long as told (awslabs/awsome-distributed-ai, megatron-bridge).
    """
    shards = local.sequence_shards if layout.expert_tensor == layout.tensor else 1  # else it is in experts a token
    size = int(local.tokens * part.experts_per_token * part.hidden * local.compute_bytes / shards)
    (least, most), beside = _exchange_times(part, local, layout), local.overlaps_exchange
    again = local.checkpointing or "moe" in local.recompute_modules
    for phase, times in (("forward", 1), ("backward", 2 if again else 1)):
        yield Message(
            operation="all_to_all",
            phase="forward" if phase == "forward" else "backward",
            message_bytes=size,
            group=layout.expert_group if part.experts else Group(ranks=1),
            count=2 * (part.layers - part.dense_layers) * times,
            blocking=True,
            overlappable=local.kernels == "fused" if beside is None else beside,
            least_times=least,
            most_times=most,
        )


def _exchange_times(part: Transformer, local: TrainingSetup, layout: Layout) -> tuple[float, float]:
    """How many times as long as the links alone the exchange of all copies takes: fastest and slowest.

    Where nobody says, programs with fused kernels may send a token once to each node, and NCCL each copy of it.
    """
    may_send_once = local.sends_once or (local.sends_once is None and local.kernels == "fused")
    by_nccl = _NCCL_EXCHANGE_TIMES if layout.expert_group.nodes > 1 else 1.0
    once = _sent_once(part, layout)
    return once if may_send_once else 1.0, once if local.sends_once else by_nccl


def _sent_once(part: Transformer, layout: Layout) -> float:
    """Of the copies of a token that go to other nodes, those that do where each node is sent one, if experts are drawn.

    Of N nodes k experts are on N (1 - (1 - 1/N)^k).
    """
    nodes, experts = layout.expert_group.nodes, part.experts_per_token * layout.tensor / layout.expert_tensor
    return 1.0 if nodes == 1 or experts <= 1 else nodes * (1 - (1 - 1 / nodes) ** experts) / experts


def _stages(part: Transformer, local: TrainingSetup, layout: Layout) -> Iterator[Message]:
    """b s h to the next stage and as much back, once for each virtual stage (Narayanan et al. 2021, section 3.2).

    Of tensor-parallel ranks each sends its share, which sequence parallelism has spread already.
    """
    size = int(local.tokens * part.hidden * local.compute_bytes / layout.tensor)
    for phase in ("forward", "backward"):
        yield Message(
            operation="send_recv",
            phase="forward" if phase == "forward" else "backward",
            message_bytes=size,
            group=layout.stage_group,
            count=layout.virtual_stages,
        )
