"""What a fabric of a size takes: rounds, time, and how well planted faults are found. Pure."""

from typing import Any

from raybench.documents.fabric_plan import FabricPlan, FabricSimulation, ScopePlan
from raybench.preflight.fabric.rounds import SAMPLE_MATCHINGS, Scope, leaves_by_size, plan_rounds
from raybench.preflight.fabric.settings import FabricSettings
from raybench.preflight.fabric.simulate import EXTRA_ROUNDS, Trials, simulate


def forecast(
    *,
    nodes: int,
    leaf: int | None = None,
    scope: Scope | None = None,
    matchings: int = SAMPLE_MATCHINGS,
    seconds: int = 2,
    simulate: bool = False,
    trials: int = 400,
    seed: int = 0,
) -> FabricPlan:
    """The plan: every scope's rounds and time, and for the chosen one the simulation, if it was asked for.

    A round measures both directions of its pairs, one after the other. The time is that of the tests alone; collecting
    results over ssh comes on top (about 12 ms a host and fetch on the control node).
    """
    leaves = leaves_by_size(nodes, leaf) if leaf else ()
    settings = FabricSettings(seconds=seconds)
    chosen: Scope = scope or "sample"
    rounds = {
        name: plan_rounds(nodes, name, leaves=leaves, matchings=matchings, seed=seed) for name in ("ring", "sample")
    }
    rounds["all"] = plan_rounds(nodes, "all")
    per_round = 2 * settings.test_seconds
    scanned = rounds["ring" if chosen == "rails" else chosen]
    return FabricPlan(
        nodes=nodes,
        leaf_size=leaf,
        leaves=len(leaves) or None,
        scope=chosen,
        seconds_per_round=per_round,
        scopes=tuple(
            ScopePlan(
                scope=name,
                rounds=len(plan),
                pairs=sum(map(len, plan)),
                of_all_pairs=sum(map(len, plan)) / (nodes * (nodes - 1) / 2),
                seconds=len(plan) * per_round,
            )
            for name, plan in rounds.items()
        ),
        simulation=_simulation(nodes, scanned, leaves, trials, seed) if simulate else None,
    )


def _simulation(nodes: int, plan: Any, leaves: Any, trials: int, seed: int) -> FabricSimulation:
    leaf_of = [number for number, hosts in enumerate(leaves) for _ in hosts]
    done: Trials = simulate(nodes, plan, trials=trials, seed=seed, leaf_of=leaf_of)
    planted = [trial.planted for trial in done.trials]
    return FabricSimulation(
        trials=trials,
        exact=done.exact,
        most_extra_rounds_allowed=EXTRA_ROUNDS,
        extra_rounds={str(rounds): number for rounds, number in done.extra_rounds.items()},
        planted_hosts=sum(len(one.hosts) for one in planted),
        planted_links=sum(len(one.links) for one in planted),
        scan_rounds=done.scan_rounds,
        basis="outcomes are made up from the planted faults, without noise: it is the planning that is tried",
    )
