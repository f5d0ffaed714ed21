"""What a plan asks of every way: the estimate's request for all nodes, with the trainings that correct it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.own_runs import own_runs_of
from raybench.services.estimating.request import estimate_request
from raybench.services.planning.options import machine_options

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.services.estimating.measured_setting import Setting
    from raybench.services.planning.options import PlanOptions


def with_own_runs(options: "PlanOptions", settings: "tuple[Setting, ...]") -> "PlanOptions":
    """With what the runs that are given say, of the machine as it is asked about: other numbers of nodes are tried."""
    if not settings and not options.machine.measured:
        return options
    runs = own_runs_of(machine_options(options), settings, of_plan=True)
    return replace(options, own_runs=runs, is_measured=bool(settings))


def plan_request(options: "PlanOptions") -> "EstimateRequest":
    """The request. Raises UsageError for what cannot be."""
    request = estimate_request(machine_options(options))
    return replace(request, own_runs=options.own_runs, other_sizes=(), checkpointing_known=True, is_started=True)


def check_modules(request: "EstimateRequest") -> None:
    """Raises UsageError where a plan has no way by Megatron-LM that could compute them again."""
    setup = request.setup
    if not setup.recompute_modules or request.program is not None:
        return
    lacks = "of adapters" if setup.lora_rank else "of one GPU" if request.layout.world_size == 1 else ""
    lacks = lacks or ("" if setup.is_usual else "of 16-bit weights or moments, or activations on the CPU,")
    if lacks:
        raise UsageError(
            f"--recompute-modules are of models that Megatron-LM cuts, and a plan {lacks} cuts none; leave them out"
        )
