"""A training run and its machine, as an estimate is asked for them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.performance_model.setup.kernels import Kernels, Loss
    from raybench.performance_model.setup.replicas import Dispatcher, Offload
    from raybench.performance_model.setup.training_setup import Optimizer
    from raybench.services.estimating.own_runs import MeasuredRun

USUAL_CURRENCY = "USD"
_MOST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """A training run and the machine that it is to run on, as ``raybench estimate --help`` says of each.

    None: the model's, the machine's, the program's, or not known; ``dtype`` auto: what the GPU has. ``result_file``:
    earlier runs, one or several. An all_reduce gives bandwidth and latency; a train or memory of this very setting
    stands in place of the estimate. ``measured``: other trainings that were run, by which it is corrected.
    """

    model: str = "llama-8b"
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    feedforward: int | None = None
    vocabulary: int | None = None
    world_size: int = 8
    gpus_per_node: int | None = None
    strategy: str | None = None
    tensor_parallel: int = 1
    sequence_parallel: bool | None = None
    overlap: bool | None = None
    pipeline_parallel: int = 1
    virtual_stages: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int | None = None
    token_dispatcher: "Dispatcher | None" = None
    overlap_experts: bool | None = None
    force_load_balancing: bool | None = None
    node_type: str | None = None
    gpu: str | None = None
    memory: str | None = None
    nics: int | None = None
    nic_gbit: float | None = None
    nic_gb_per_s: float | None = None
    node_gb_per_s: float | None = None
    bandwidth: float | None = None
    result_file: str | tuple[str, ...] = ()
    latency_us: float | None = None
    batch_size: int = 1
    sequence_length: int | None = None
    accumulation: int = 1
    program: str | None = None
    reduce_each: bool | None = None
    dtype: str = "auto"
    parameter_dtype: str | None = None
    reduce_dtype: str | None = None
    optimizer: "Optimizer" = "adamw"
    optimizer_dtype: str | None = None
    gradient_dtype: str | None = None
    cpu_offload: "Offload" = "none"
    activation_checkpointing: bool | None = None
    selective_checkpointing: bool = False
    recompute_modules: str | None = None
    activation_func_fp8_input_store: bool | None = None
    use_precision_aware_optimizer: bool | None = None
    offload_activations: bool = False
    no_flash_attention: bool | None = None
    native_attention: bool | None = None
    masked_attention: bool | None = None
    dropout: bool | None = None
    bucket_view: bool | None = None
    kernels: "Kernels | None" = None
    loss: "Loss | None" = None
    compile: bool | None = None
    cuda_graphs: bool | None = None
    power_limit: float | None = None
    mtp_layers: int | None = None
    lora_rank: int = 0
    lora_targets: str | None = None
    lora_dropout: bool | None = None
    autocast: bool | None = None
    qlora: bool = False
    base_dtype: str | None = None
    efficiency: str | None = None
    price: float | None = None
    prices: str | None = None
    currency: str = USUAL_CURRENCY
    epoch_samples: int | None = None
    mean_tokens: int | None = None
    measured: "tuple[MeasuredRun, ...]" = ()

    def __post_init__(self) -> None:
        from raybench.performance_model.programs.optimizer_names import optimizer_named

        object.__setattr__(self, "optimizer", optimizer_named(self.optimizer))


def at_least_one(value: int | None, name: str) -> int | None:
    """The value. Raises UsageError for one below 1, and for more than anything has."""
    if value is not None and not 1 <= value <= _MOST:
        raise UsageError(f"{name} is {value}; it must be at least 1 and at most {_MOST}")
    return value
