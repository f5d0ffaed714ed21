"""The ways of a plan, and the best of them."""

from typing import TYPE_CHECKING, Any

from raybench.errors import UsageError
from raybench.services.estimating.trained import is_trained
from raybench.services.planning.as_run import as_run
from raybench.services.planning.goal import Goal, Reckoned, meeting_first, reckoned
from raybench.services.planning.goal_asked import goal_asked
from raybench.services.planning.request import plan_request
from raybench.services.planning.samples import samples_per_step
from raybench.services.planning.way_told import way_told

if TYPE_CHECKING:
    from raybench.documents.estimate import MeasuredSetting
    from raybench.documents.training_plan import TrainingWay
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.ways.way import Way
    from raybench.services.estimating.measured_setting import Setting
    from raybench.services.estimating.options import EstimateOptions
    from raybench.services.planning.options import PlanOptions


def ranked_ways(
    request: "EstimateRequest", per_step: int, options: "PlanOptions", settings: "tuple[Setting, ...]", goal: Goal
) -> "tuple[tuple[Reckoned, ...], tuple[MeasuredSetting, ...]]":
    """All ways with the best for the goal first, and what became of each result."""
    ways = _ways_of(request, per_step, options)
    ways, measured = _with_measured(ways, settings, request, options.machine) if settings else (ways, ())
    return meeting_first([reckoned(way, request.price, goal) for way in ways], goal), measured


def fitting_best(options: "PlanOptions", *, cut: bool = True) -> "TrainingWay | None":
    """The best way for what is to be reached, if it fits. Raises UsageError for a plan that cannot be."""
    request = plan_request(options)
    per_step, _ = samples_per_step(options, request)
    goal = goal_asked(options, request)
    ways = _ways_of(request, per_step, options, cut=cut, fitting_only=True)
    known = meeting_first([reckoned(way, request.price, goal) for way in ways], goal)
    return way_told(known[0], known[0].way, request, options.machine) if known else None


def best_in_words(options: "PlanOptions") -> str | None:
    """The best way and what it needs; None where none fits, or the plan cannot be (ranks do not divide samples)."""
    try:
        best = fitting_best(options)
    except UsageError:
        return None
    return f"{best.name}: {best.peak / 2**30:.0f} GiB" if best else None


def any_way_fits(options: "PlanOptions", cut: bool) -> bool:
    """Whether there is a best way that fits, without finding it. Raises UsageError for a plan that cannot be."""
    from raybench.performance_model.ways.to_train import any_fits

    request = plan_request(options)
    per_step, _ = samples_per_step(options, request)
    return any_fits(request, per_step, cut=cut, **_run_with(options))


def _ways_of(
    request: "EstimateRequest", per_step: int, options: "PlanOptions", *, cut: bool = True, fitting_only: bool = False
) -> "tuple[Way, ...]":
    from raybench.performance_model.ways.to_train import ways_to_train

    return ways_to_train(request, per_step, cut=cut, fitting_only=fitting_only, **_run_with(options))


def _run_with(options: "PlanOptions") -> dict[str, Any]:
    """How ways are run, and by what."""
    from raybench.hardware.nodes import node_type_named

    trained = options.method != "full" and is_trained(options.machine.model)  # of a whole model nobody asks

    def run(one: "EstimateRequest") -> "EstimateRequest":
        if one.program is not None and one.program.starts != "transformers":
            return one
        return as_run(one, is_trained=trained and one.program is None)

    named = options.machine.node_type
    on_aws = named is not None and node_type_named(named).is_of_aws
    return {"as_run": run, "on_sagemaker": on_aws, "is_measured": options.is_measured}


def _with_measured(
    ways: "tuple[Way, ...]", settings: "tuple[Setting, ...]", request: "EstimateRequest", asked: "EstimateOptions"
) -> "tuple[tuple[Way, ...], tuple[MeasuredSetting, ...]]":
    from raybench.performance_model.ways.ranking import ranked
    from raybench.services.estimating.measured import with_measured_ways

    named = [(way, way_told(reckoned(way, None, Goal()), way, request, asked).name) for way in ways]
    found, told = with_measured_ways(named, settings)
    return ranked(found), told
