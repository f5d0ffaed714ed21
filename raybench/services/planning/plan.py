"""The best way to train a model on a machine: options in, document out."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.services.estimating.own_runs import with_corrections
from raybench.services.estimating.results import measured_settings
from raybench.services.planning.assumed import as_started, follows_from, machine_assumed, program_assumed
from raybench.services.planning.fewest import fewest_nodes, nodes_in_time
from raybench.services.planning.goal import judged
from raybench.services.planning.goal_asked import goal_asked
from raybench.services.planning.launch import launch_lines
from raybench.services.planning.left_open import left_open
from raybench.services.planning.nearest import nearest_plan
from raybench.services.planning.options import machine_options
from raybench.services.planning.request import check_modules, plan_request, with_own_runs
from raybench.services.planning.samples import samples_per_step
from raybench.services.planning.search import any_way_fits, best_in_words, fitting_best, ranked_ways
from raybench.services.planning.way_told import marked, way_told

if TYPE_CHECKING:
    from raybench.documents.training_plan import FewestNodes, TrainingPlan, TrainingWay
    from raybench.performance_model.request.own_runs import OwnRun
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.ways.way import Way
    from raybench.services.estimating.measured_setting import Setting
    from raybench.services.planning.goal import Goal
    from raybench.services.planning.options import PlanOptions


def training_plan(options: "PlanOptions") -> "TrainingPlan":
    """All ways with the best first. Raises UsageError for what cannot be."""
    from raybench.documents.estimate import links_measured
    from raybench.documents.training_plan import TrainingPlan
    from raybench.performance_model.estimate.report import own_runs_told
    from raybench.performance_model.request.taken import with_method

    settings = measured_settings(options.machine)
    options = with_own_runs(options, settings)
    request = with_method(plan_request(options))
    check_modules(request)
    per_step, assumed = samples_per_step(options, request)
    goal = goal_asked(options, request)
    known, measured = ranked_ways(request, per_step, options, settings, goal)
    ways = tuple(one.way for one in known)
    own_runs = options.own_runs if any(way.estimate.traits is not None for way in ways) else ()
    told = tuple(marked(way_told(one, ways[0], request, options.machine), measured) for one in known)
    still_open = left_open(ways[0])
    conclusion, nearest = judged(told, request, goal, lambda: nearest_plan(options, best_in_words))
    is_unlike = own_runs and not any(_is_of(ways[0], run) for run in own_runs)
    without = _first_without(request, per_step, options, settings, goal) if is_unlike else None
    return TrainingPlan(
        model=request.model.name,
        parameters=request.model.parameters,
        method=options.method,
        world_size=request.layout.world_size,
        nodes=request.layout.nodes,
        gpu=request.gpu.name if request.gpu else None,
        device_bytes=request.memory_bytes,
        sequence_length=request.setup.sequence_length,
        samples_per_step=per_step,
        tokens=goal.tokens,
        currency=request.price.currency if request.price else None,
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        ways=told,
        launch=launch_lines(ways[0]),
        assumed=(
            *machine_assumed(options),
            *assumed,
            *follows_from(request, per_step, goal),
            *as_started(ways[0], request),
            *program_assumed(ways[0]),
        ),
        unknown=tuple(ways[0].estimate.unknown),
        measured=with_corrections(measured, own_runs, settings, machine_options(options)),
        own_runs=own_runs_told(own_runs),
        first_without_runs=None if without == told[0].name else without,
        fewest_nodes=_fewest(options, per_step, ways[0]),
        nodes_in_time=_in_time(options, told),
        links_measured=links_measured(request.basis),
        price=_price(request),
        program=request.program.asked if request.program else None,
        not_said=still_open.not_said,
        open_tokens_per_second=still_open.tokens_per_second,
        other_programs=still_open.other_programs,
        nearest=nearest,
    )


def _is_of(way: "Way", run: "OwnRun") -> bool:
    """Whether the run is of the way, whatever its batch."""
    own, ran = way.estimate.traits, run.told[0].traits
    return own is not None and (own.strategy, own.cut) == (ran.strategy, ran.cut)


def _first_without(
    request: "EstimateRequest", per_step: int, options: "PlanOptions", settings: "tuple[Setting, ...]", goal: "Goal"
) -> str:
    """The first way where trainings of other settings correct none."""
    alone = replace(request, own_runs=())
    known, _ = ranked_ways(alone, per_step, options, settings, goal)
    return way_told(known[0], known[0].way, alone, options.machine).name


def _price(request: "EstimateRequest") -> str | None:
    price = request.price
    return None if price is None else f"{price.per_node_hour:,.10g} {price.currency} a node and hour, {price.source}"


def _fewest(options: "PlanOptions", per_step: int, best: "Way") -> "FewestNodes | None":
    """The fewest nodes; ways that cut the model are tried there only where the best is one: they are many."""
    cut = best.estimate.request.layout.is_cut
    if not best.fits:
        return None
    return fewest_nodes(
        options, per_step, lambda fewer: fitting_best(fewer, cut=cut), lambda fewer: any_way_fits(fewer, cut)
    )


def _in_time(options: "PlanOptions", told: "tuple[TrainingWay, ...]") -> "FewestNodes | None":
    """Of a deadline that the best way may miss; ways that cut the model are tried there where one fits here."""
    best = told[0]
    if not best.fits or options.deadline_seconds is None or best.hours is None:
        return None
    if best.hours[1] * 3600 <= options.deadline_seconds:
        return None
    cut = any(way.is_cut for way in told if way.fits)
    return nodes_in_time(replace(options, budget=None), lambda more: fitting_best(more, cut=cut), best.hours[1])
