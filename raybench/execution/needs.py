"""What a run needs of this machine, checked before anything is started: GPUs, ranks, interfaces, libraries, weights.

Of a cluster of machines only its nodes can tell most of it, so that all of this is about nodes embedded here.
"""

import importlib.util
import os
import re
from collections.abc import Sequence

from raybench.benchmarks.registry import workload_of
from raybench.config import LAUNCHED, RunConfig, nothing_to_isolate
from raybench.documents.run.cluster import TCP_BACKENDS
from raybench.errors import NodeMissingError, UsageError, known_names
from raybench.execution.launched.session import place_of
from raybench.execution.placement import Candidate, PlacementPlan, plan_of
from raybench.execution.ray_cluster.found_cluster import find_running
from raybench.execution.ray_cluster.ray_calls import connection_problem
from raybench.execution.ray_cluster.session import embedded_gpus, emulated_candidates, no_cluster
from raybench.installation import install_advice
from raybench.metadata import interfaces

_CONNECT_SECONDS = 5.0
_LISTENS_AS = {"mlx": "gloo"}  # the interface that it is told


def check_needs(config: RunConfig) -> None:
    """Whether the run can be begun, without beginning it. Raises UsageError with what is missing."""
    if config.address == "local" or (config.address == "auto" and find_running() is None):
        check_embedded(config)
    elif config.address == LAUNCHED:
        check_launched(config)
    elif config.address != "auto":
        problem = connection_problem(config.address, _CONNECT_SECONDS)
        if problem is not None:
            raise no_cluster(config.address, problem)


def check_launched(config: RunConfig) -> None:
    """Raises UsageError outside of a launch, and for what needs Ray."""
    place_of(os.environ)
    for option, wanted in (("--isolate and --continue-without", config.isolates), ("--keep-warm", config.keep_warm)):
        if wanted:
            raise UsageError(f"{option} start ranks more than once, which a launcher does not: leave it away")


def check_embedded(config: RunConfig) -> None:
    """Raises UsageError for what nodes of this machine cannot do."""
    plan = plan_over(config, emulated_candidates(config.nodes or 1, embedded_gpus(config.backend)))
    _check_interfaces(config, plan.backend)
    specs = config.plan(plan.backend)
    needs = [need for spec in specs for need in workload_of(spec.kind).needs(spec)]
    needs += [("mlx.core", "mlx")] * (plan.backend == "mlx")
    missing = [need for need in needs if not _is_there(need[0])]
    for module, extra in missing[:1]:
        raise UsageError(f"{module.partition('.')[0]} is not installed, which this run needs: {install_advice(extra)}")
    for spec in specs:
        workload_of(spec.kind).check_machine(spec, plan.world_size)


def _is_there(module: str) -> bool:
    """Whether a module can be imported, as far as that can be said without doing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def plan_over(config: RunConfig, candidates: Sequence[Candidate]) -> PlacementPlan:
    """The plan over these nodes. Raises UsageError where they are too few, or the root is none of their ranks."""
    candidates = _named(config.only_nodes, candidates)
    plan = plan_of(candidates, nodes=config.nodes, ranks_per_node=config.gpus_per_node, backend=config.backend)
    if config.root >= plan.world_size:
        raise UsageError(
            f"--root is {config.root}, and the run has ranks 0 to {plan.world_size - 1}: {len(plan.nodes)} nodes "
            f"with {plan.ranks_per_node} each. Choose one of these, or more ranks with --nodes or --gpus-per-node."
        )
    if plan.backend == "mlx" and plan.world_size < 2:
        raise UsageError("--backend mlx sends around a ring of 2 ranks or more, and this run has one: give --nodes 2")
    if config.isolates and len(plan.nodes) < 2:
        raise UsageError(nothing_to_isolate(len(plan.nodes), plan.world_size))
    return plan


def _named(names: Sequence[str], candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """The nodes of these names, all where none is given. Raises NodeMissingError where a name is not that of one."""
    there = [one.name for one in candidates]
    for name in names:
        if there.count(name) != 1:
            what = "is not in the cluster" if name not in there else f"is there {there.count(name)} times"
            raise NodeMissingError(name, f"{what}; {known_names(name, dict.fromkeys(there))}")
    return [one for one in candidates if one.name in names] if names else candidates


def _check_interfaces(config: RunConfig, backend: str) -> None:
    """NCCL takes a list of prefixes, ``=`` before exact names, ``^`` before those to leave out; gloo exact names.

    MLX's ring listens on the interface that gloo is told.
    """
    variable = f"{_LISTENS_AS.get(backend, backend).upper()}_SOCKET_IFNAME"
    text = config.variables().get(variable, "")
    there = sorted(set(interfaces().values()))
    wanted = [] if text.startswith("^") else [part for part in re.split(r"[,\s]+", text.removeprefix("=")) if part]
    exact = text.startswith("=") or backend in TCP_BACKENDS
    if wanted and not any(one == name or (not exact and one.startswith(name)) for name in wanted for one in there):
        raise UsageError(f"{variable}={text}: this machine has no such interface; {known_names(wanted[0], there)}")
