"""What replicas of a model share, and in which types: shards, ZeRO's weights and gradients, what is offloaded."""

from dataclasses import dataclass
from typing import Literal

from raybench.performance_model.setup.element_types import ElementTypes
from raybench.performance_model.setup.strategies import Strategy

Offload = Literal["none", "optimizer", "all"]
Dispatcher = Literal["alltoall", "deepep", "hybridep"]
SENDING_ONCE: tuple[Dispatcher, ...] = ("deepep", "hybridep")  # each token once to each node


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas(ElementTypes):
    """How replicas are kept and kept the same."""

    # Strategy. zero1 shards the optimizer state with the fp32 weights (Megatron-LM's distributed optimizer), zero2 the
    # gradients as well; the model itself is in the compute type (ZeRO, Rajbhandari et al. 2020).
    strategy: Strategy = "ddp"
    bucket_view: bool = False  # DDP with gradient_as_bucket_view
    # Gradients are there when a forward pass begins: in DDP's buckets, or while they accumulate. False: they were freed
    # by zero_grad(set_to_none=True).
    gradients_kept: bool = True
    # FSDP that reduces in the last micro-batch only, and adds up the gradients of all parameters unsharded until then.
    whole_gradients: bool = False
    # FSDP reshards after each forward pass in a pipeline too, which programs have to be told (parallel/sharding.py).
    reshards_in_pipeline: bool = False
    # Shards are gathered on streams of their own, as by FSDP1 and ZeRO-3; the allocator has a pool for each stream.
    on_streams: bool = False
    # Shards in the compute type: the optimizer keeps fp32 copies of them and makes fp32 copies of their gradients in
    # the update (InternEvo over FSDP). zero3, which is DeepSpeed's, always does.
    optimizer_weights: bool = False
    # zero1 whose state is not sharded: replicas of a model that is cut (Megatron-LM's own DDP).
    whole_state: bool = False
    # zero1 whose gradients stay in Megatron-Core's buffers, whatever their type (NeMo's performance recipes: bf16);
    # without it zero1 with gradients in the compute type is DeepSpeed's.
    gradient_buffers: bool = False
    # ZeRO-3 of a model that was made before DeepSpeed was told of it: zero.Init alone replaces PyTorch's linear layers,
    # which keep a view of each gathered weight until the backward pass (deepspeed/runtime/zero/partition_parameters.py,
    # linear.py).
    graph_holds_weights: bool = False
    # Each rank gathers all shards on its GPU, as they are stored, to save the model (FSDP's full state dict unless told
    # otherwise).
    gathers_to_save: bool = False
    # ZeRO-3's bucket of gradients is as large as DeepSpeed has it, whatever the loss: transformers' "auto" is not said.
    default_bucket: bool = False
    bucket_times: float = 1.0  # as large as their size are ZeRO-2's buckets: 4.5 from DeepSpeed 0.3.0 to 0.3.17
    gathers_nothing: bool = False  # ZeRO-3 of one rank, as ``local_setup`` finds it: its hooks have nothing to gather
    gathers_8bit: bool = False  # fp8: FSDP gathers weights in it (torchao's enable_fsdp_float8_all_gather)
    dtensors: bool | None = None  # under DDP, whether tensor ranks are PyTorch's DTensor's; None: unknown
    # Tensor parallelism divides what is as wide as the model, too (Korthikanti et al. 2022). None: nobody says.
    sequence_parallel: bool | None = None
    sequence_shards: int = 1  # over how many ranks it does
    # ZeRO-1 that sends gradients beside the last backward pass and weights beside the first forward pass (Megatron-LM's
    # --overlap-grad-reduce and --overlap-param-gather); of DDP False: one that reduces after it, as Megatron-LM's does
    # unless told. None: nobody says; then DDP sends beside it, and of ZeRO-1 it is open.
    overlaps: bool | None = None
    # Of experts on other ranks. A token is sent once to each node that has experts for it, by kernels of their own
    # (DeepEP, HybridEP), or each of its copies by NCCL's all_to_all; and tokens are spread evenly over experts,
    # whatever a router says, as benchmarks force them to be; and they are sent while another micro-batch is computed
    # (Megatron-Core's --overlap-moe-expert-parallel-comm). None: nobody says.
    sends_once: bool | None = None
    overlaps_exchange: bool | None = None
    is_balanced: bool | None = None
    offload: Offload = "none"  # to CPU memory: optimizer state, or all that is sharded

    @property
    def is_sharded(self) -> bool:
        """Whether FSDP cuts parameters, gradients and optimizer state into shards."""
        return self.strategy not in ("ddp", "zero1", "zero2")

    @property
    def is_zero(self) -> bool:
        """Whether the model is whole in the compute type, and its fp32 weights are sharded with the optimizer state."""
        return self.strategy in ("zero1", "zero2")

    @property
    def is_deepspeeds(self) -> bool:
        """Whether DeepSpeed shards replicas' state: Megatron-LM sums gradients in buffers, and has no ZeRO-2."""
        in_buffers = self.whole_state or self.gradient_buffers
        narrow = self.gradient_bytes == self.compute_bytes and not in_buffers
        return self.strategy == "zero2" or (self.strategy == "zero1" and narrow)

    @property
    def spreads_sequence(self) -> bool:
        """Whether tensor parallelism spreads what is as wide as the model; where nobody says, all do but with ZeRO-2.

        Programs that have both leave it out unless told: PaddleNLP (``sequence_parallel: 0`` in its llm/llama/*.json),
        Megatron-DeepSpeed.
        """
        return self.strategy != "zero2" if self.sequence_parallel is None else self.sequence_parallel

    @property
    def offloads_gradients(self) -> bool:
        """Whether an optimizer on the CPU has its gradients there as well: DeepSpeed's, of all stages.

        Stage 3's flat buffer of gradients is on the optimizer's device (deepspeed/runtime/zero/stage3.py 0.19.6,
        ``grad_partitions_flat_buffer``); 1 and 2 copy what is reduced to the CPU and keep none (stage_1_and_2.py).
        """
        return self.offload != "none" and (self.strategy == "zero3" or self.is_deepspeeds)

    @property
    def keeps_masters(self) -> bool:
        """Whether fp32 weights stay on the GPU when moments are on the CPU: Megatron-Core's distributed optimizer.

        It makes them on the GPU and gives them to its HybridDeviceOptimizer, which copies them to the CPU
        (core/optimizer/distrib_optimizer.py, ``shard_main_param``), unless --use-precision-aware-optimizer leaves them
        to that.
        """
        return self.offload == "optimizer" and self.is_zero and not self.is_deepspeeds and not self.stores_remainders

    @property
    def has_optimizer_weights(self) -> bool:
        """Whether shards in the compute type have fp32 copies in the optimizer."""
        wide = self.parameter_bytes > self.compute_bytes
        in_optimizer = self.optimizer_weights or self.stores_remainders or self.strategy == "zero3"
        return wide and self.is_sharded and in_optimizer

    @property
    def stored_bytes(self) -> int:
        """An element of the parameters that forward and backward passes are given."""
        return self.compute_bytes if self.is_zero or self.has_optimizer_weights else self.parameter_bytes

    @property
    def master_bytes(self) -> int:
        """An element of the fp32 weights that are with the optimizer state: of ZeRO-1 and 2, and of such shards."""
        if self.parameter_bytes <= self.compute_bytes:
            return 0
        return self.parameter_bytes - (self.compute_bytes if self.stores_remainders and not self.is_deepspeeds else 0)

    @property
    def adds_up_whole(self) -> bool:
        """Whether the gradients of shards are added up unsharded; DeepSpeed always reduces each micro-batch."""
        return self.whole_gradients and self.is_sharded and self.strategy != "zero3"

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients, of shards those of the shards, are there before the last backward pass makes them.

        Always in Megatron-LM (core/distributed/param_and_grad_buffer.py) and in DeepSpeed's ZeRO-3 (stage3.py,
        ``grad_partitions_flat_buffer``), whose buffers stay.
        """
        stays = self.strategy == "zero3" or (self.is_zero and not self.is_deepspeeds)
        return (self.gradients_kept or stays) and not self.adds_up_whole

    @property
    def reduced_bytes(self) -> int:
        """An element of a gradient of shards while it is summed over ranks, or over micro-batches unsharded."""
        is_narrow = self.has_optimizer_weights and not self.stores_remainders
        return self.compute_bytes if is_narrow else self.reduce_bytes

    @property
    def has_autocast(self) -> bool:
        """Whether layers compute in another type than that of what is trained."""
        return self.autocast and self.stored_bytes > self.compute_bytes
