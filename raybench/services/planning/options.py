"""A plan as it is asked for, and the machine of all its nodes."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.machine import machine_of
from raybench.services.estimating.options import EstimateOptions, at_least_one

if TYPE_CHECKING:
    from raybench.performance_model.request.own_runs import OwnRun

_LORA_RANK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """A model and a machine as ``raybench plan --help`` says of each. ``machine``: what ``raybench estimate`` takes.

    ``tokens``: of the whole training; ``samples`` and ``epochs`` give them as well. Deadline in seconds. ``own_runs``:
    what the machine's ``measured`` and results say of other trainings. ``is_measured``: results of trainings or memory
    are given.
    """

    machine: EstimateOptions
    nodes: int = 1
    method: str = "full"
    samples_per_step: int | None = None
    tokens: int | None = None
    samples: int | None = None
    epochs: float = 1.0
    deadline_seconds: float | None = None
    budget: float | None = None
    own_runs: "tuple[OwnRun, ...]" = ()
    is_measured: bool = False


def machine_options(options: PlanOptions) -> EstimateOptions:
    """The estimate's options for all GPUs of the nodes."""
    if options.nodes < 1:
        raise UsageError(f"--nodes is {options.nodes}; it must be at least 1")
    if options.method not in ("full", "lora", "qlora"):
        raise UsageError(f"--method is {options.method!r}; it is full, lora or qlora")
    machine = machine_of(options.machine)
    at_least_one(options.machine.gpus_per_node, "--gpus-per-node")
    if options.method == "full" and options.machine.lora_rank:
        raise UsageError("--lora-rank is of adapters; give --method lora or qlora with it")
    if options.method == "full" and (options.machine.lora_targets or options.machine.lora_dropout is not None):
        name = "--lora-targets" if options.machine.lora_targets else "--lora-dropout"
        raise UsageError(f"{name} is of adapters; give --method lora or qlora with it")
    if options.method == "full" and options.machine.base_dtype:
        raise UsageError("--base-dtype is of the base of adapters; give --method lora with it")
    per_node = options.machine.gpus_per_node or (machine.node.gpus if machine.node else 8)
    adapters = options.method != "full"
    return replace(
        options.machine,
        world_size=options.nodes * per_node,
        gpus_per_node=per_node,
        strategy=options.machine.strategy or "ddp",  # each way has its own
        lora_rank=(options.machine.lora_rank or _LORA_RANK) if adapters else 0,
        qlora=options.method == "qlora",
    )
