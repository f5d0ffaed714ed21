"""What a run needs of this machine, checked before anything is started: GPUs, ranks, interfaces, libraries, weights.

Of a cluster of machines only its nodes can tell most of it, so that all of this is about nodes embedded here.
"""

import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.shapes import weight_shapes
from raybench.benchmarks.training.weight_files import check_weights
from raybench.config import RunConfig
from raybench.errors import UsageError, known_names
from raybench.execution.placement import Candidate, Plan, plan_of
from raybench.execution.ray_cluster.found_cluster import find_running
from raybench.execution.ray_cluster.ray_calls import connection_problem
from raybench.execution.ray_cluster.session import embedded_gpus, emulated_candidates, no_cluster
from raybench.installation import install_advice
from raybench.metadata import interfaces
from raybench.run_folder import check_can_be_folder

_CONNECT_SECONDS = 5.0
# Libraries of checkpoint storage: (how a place begins, module, extra).
_STORES = (("s3://", "boto3", "s3"), ("gs://", "gcsfs", "gcs"))


def check_needs(config: RunConfig) -> None:
    """Whether the run can be begun, without beginning it. Raises UsageError with what is missing."""
    if config.address == "local" or (config.address == "auto" and find_running() is None):
        check_embedded(config)
    elif config.address != "auto":
        problem = connection_problem(config.address, _CONNECT_SECONDS)
        if problem is not None:
            raise no_cluster(config.address, problem)


def check_embedded(config: RunConfig) -> None:
    """Raises UsageError for what nodes of this machine cannot do."""
    plan = plan_over(config, emulated_candidates(config.nodes or 1, embedded_gpus(config.backend)))
    _check_interfaces(config, plan.backend)
    specs = config.plan(plan.backend)
    missing = [need for spec in specs for need in _libraries(spec) if importlib.util.find_spec(need[0]) is None]
    for module, extra in missing[:1]:
        raise UsageError(f"{module} is not installed, which this run needs: {install_advice(extra)}")
    for spec in specs:
        if spec.training is not None and spec.training.weights is not None:
            check_weights(spec.training.weights, weight_shapes(spec.training))
        if spec.checkpoint is not None:
            _check_folders(spec.checkpoint.to)


def _check_folders(places: Sequence[str]) -> None:
    """Raises UsageError for a place on this machine that is no folder and cannot become one."""
    for place in places:
        scheme, separator, rest = place.partition("://")
        if separator and scheme != "file":
            continue
        try:
            check_can_be_folder(Path(rest if separator else place))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"--to {place} cannot be written: {reason}; name a folder, or one that can be made"
            ) from error


def plan_over(config: RunConfig, candidates: Sequence[Candidate]) -> Plan:
    """The plan over these nodes. Raises UsageError where they are too few, or the root is none of their ranks."""
    plan = plan_of(candidates, nodes=config.nodes, ranks_per_node=config.gpus_per_node, backend=config.backend)
    if config.root >= plan.world_size:
        raise UsageError(
            f"--root is {config.root}, and the run has ranks 0 to {plan.world_size - 1}: {len(plan.nodes)} nodes "
            f"with {plan.ranks_per_node} each. Choose one of these, or more ranks with --nodes or --gpus-per-node."
        )
    return plan


def _check_interfaces(config: RunConfig, backend: str) -> None:
    """NCCL takes a list of prefixes, ``=`` before exact names, ``^`` before those to leave out; gloo exact names."""
    variable = f"{backend.upper()}_SOCKET_IFNAME"
    text = config.variables().get(variable, "")
    there = sorted(set(interfaces().values()))
    wanted = [] if text.startswith("^") else [part for part in re.split(r"[,\s]+", text.removeprefix("=")) if part]
    exact = text.startswith("=") or backend == "gloo"
    if wanted and not any(one == name or (not exact and one.startswith(name)) for name in wanted for one in there):
        raise UsageError(f"{variable}={text}: this machine has no such interface; {known_names(wanted[0], there)}")


def _libraries(spec: BenchmarkSpec) -> Iterator[tuple[str, str]]:
    """Modules beside torch that a benchmark imports, each with the extra that brings it."""
    if spec.training is not None and spec.training.adapter == "peft" and spec.name in ("lora", "qlora"):
        yield ("peft", "peft")
        if spec.name == "qlora":
            yield ("bitsandbytes", "bitsandbytes")
    if spec.checkpoint is not None:
        for place in spec.checkpoint.to:
            yield from ((module, extra) for start, module, extra in _STORES if place.startswith(start))
