"""What the runs of the selftest proved: ranks placed, collectives right, trainings right, memory as estimated. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence

from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.result import RunResult
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.selftest import Figure, RankDevice
from raybench.services.selftest.check import Outcome, Readings, RunReading, failed, passed, unknown
from raybench.units import format_bytes

MEMORY_TOLERANCE = 0.05  # of the estimate
OPERATION_NAMES = tuple(name for name, operation in OPERATIONS.items() if not operation.matrix)
_RAY = "ray"  # among the versions of a result
_LOGS = "raybench show {folder} and its logs/ say what happened"


def ray_cluster(readings: Readings) -> Outcome:
    """Ray starts, places the ranks, and all of them join."""
    run = readings.run("collectives")
    result = _result(run)
    said = sum(len(node.known_facts.ranks or ()) for node in result.cluster.nodes)
    ranks, nodes = result.cluster.world_size, len(result.cluster.nodes)
    ray = result.versions.get(_RAY)
    figures: dict[str, Figure] = {"ray": ray, "nodes": nodes, "ranks": ranks, "seconds": run.seconds}
    if result.cluster.dropped or not ranks or said < ranks:
        return failed(f"{said} of {ranks} ranks joined: {result.conclusion.reason}", _next(run), **figures)
    return passed(f"Ray {ray}: {ranks} ranks on {nodes} nodes joined", **figures)


def collectives(readings: Readings) -> Outcome:
    """Each collective gives exactly the right elements, at each size."""
    run = readings.run("collectives")
    result = _result(run)
    points = {name: [point for one in run.benchmark(name) for point in one.points] for name in OPERATION_NAMES}
    every = [point for found in points.values() for point in found]
    wrong = [one.name for one in result.benchmarks if one.wrong]
    figures: dict[str, Figure] = {
        "world_size": result.cluster.world_size,
        "backend": result.cluster.backend,
        "verified_points": sum(point.verified is True for point in every),
        "wrong_elements": sum(point.wrong_elements for point in every),
        "largest_bytes": max((point.message_bytes for point in every), default=None),
        **{f"verified_points_{name}": sum(point.verified is True for point in found) for name, found in points.items()},
    }
    if wrong or any(point.verified is False for point in every):
        advice = f"the path between ranks corrupts data: {_next(run)}"
        return failed(f"wrong data: {', '.join(dict.fromkeys(wrong))}", advice, **figures)
    lost = [name for name in OPERATION_NAMES if not run.benchmark(name) or not _complete(run.benchmark(name))]
    if lost:
        return failed(f"{', '.join(lost)}: {_why(run, lost)}", _next(run), **figures)
    if not all(point.verified for point in every) or not all(points.values()):
        unsure = [name for name, found in points.items() if not found or not all(point.verified for point in found)]
        return unknown(f"not verified: {', '.join(unsure)}: {_why(run, unsure)}", _next(run), **figures)
    sizes = sorted({point.message_bytes for point in every})
    span = " to ".join(dict.fromkeys(format_bytes(size) for size in (sizes[0], sizes[-1])))
    where = f"{result.cluster.world_size} ranks over {result.cluster.backend}"
    return passed(f"{len(points)} operations right at {len(every)} points, {span}, {where}", **figures)


def training(strategy: str) -> Callable[[Readings], Outcome]:
    """The check of a strategy: its steps give the losses of one process that computes the whole batch."""

    def judge(readings: Readings) -> Outcome:
        run = readings.run("training")
        found = run.benchmark(strategy)
        point = next((one for part in found for one in part.workload if isinstance(one, TrainingPoint)), None)
        if point is None or not _complete(found) or point.failed:
            return failed(f"no training: {_why(run, [strategy])}", _next(run))
        figures: dict[str, Figure] = {
            "world_size": point.world_size,
            "dtype": point.known_facts.dtype,
            "steps": len(point.samples_seconds),
            "step_seconds": point.seconds.median,
            "loss_last": point.losses[-1] if math.isfinite(point.losses[-1]) else None,
            "max_relative_difference": point.reference.max_relative_difference,
            "tolerance": point.reference.tolerance,
            "peak_memory_bytes": point.peak_allocated_bytes,
        }
        if not all(map(math.isfinite, point.losses)):
            return failed("a loss is not a number", _next(run), **figures)
        if point.verified is False:
            return failed(point.wrong or "it differs from a single process", _next(run), **figures)
        if point.verified is None:
            return unknown(f"not compared: {point.check_reason or 'no reference'}", _next(run), **figures)
        difference = point.reference.max_relative_difference
        apart = "" if difference is None else f" within {difference:.1g}"
        where = f"{point.world_size} rank{'s' * (point.world_size > 1)}"
        return passed(f"{len(point.samples_seconds)} steps on {where} match a single process{apart}", **figures)

    return judge


def memory(readings: Readings) -> Outcome:
    """What training takes of a rank's memory is what ``raybench estimate`` says."""
    run = readings.run("memory")
    found = run.benchmark("memory")
    point = next((one for part in found for one in part.workload if isinstance(one, MemoryPoint)), None)
    if point is None or not _complete(found) or point.failed:
        return failed(f"not measured: {_why(run, ['memory'])}", _next(run))
    fitting = [use for use in point.uses if use.fits and use.peak]
    pairs = [(use.peak, use.estimated_bytes) for use in fitting if use.estimated_bytes]
    if not pairs or len(pairs) < len(fitting):
        return unknown("there is no estimate to compare with", _next(run))
    peak, estimate = max(pairs, key=lambda pair: abs(pair[0] / pair[1] - 1))
    off = peak / estimate - 1
    figures = {"measured_bytes": peak, "estimated_bytes": estimate, "off": off, "tolerance": MEMORY_TOLERANCE}
    said = f"{format_bytes(peak)} measured, {format_bytes(estimate)} estimated ({off:+.1%})"
    if not abs(off) <= MEMORY_TOLERANCE:
        return failed(said, f"report it with {run.folder}: the estimate misses this machine", **figures)
    return passed(f"{said}, {'a CPU process' if point.emulated else 'on the GPU'}", **figures)


def gpu_count(readings: Readings) -> Outcome:
    """NVML, torch and Ray see the same GPUs."""
    driver, result = readings.driver, _result(readings.run("collectives"))
    in_ray, in_torch = sum(node.gpu_count for node in result.cluster.nodes), readings.usable_gpus
    in_nvml = None if driver.nvml_problem else len(driver.gpus)
    figures = {"nvml": in_nvml, "torch": in_torch, "ray": in_ray, "visible_devices": driver.visible_devices}
    masked = f", CUDA_VISIBLE_DEVICES={driver.visible_devices}" if driver.visible_devices is not None else ""
    said = f"NVML {'unknown' if in_nvml is None else in_nvml}, torch {in_torch}, Ray {in_ray}{masked}"
    if in_ray != in_torch:
        return failed(said, "check CUDA_VISIBLE_DEVICES: names beyond the first wrong one are passed over", **figures)
    if in_nvml is None:
        return unknown(f"{said} ({driver.nvml_problem})", "pip install nvidia-ml-py", **figures)
    hidden = driver.visible_devices is not None and in_torch < in_nvml
    if in_nvml != in_torch and not hidden:
        advice = (
            "nvidia-smi mig -lgi: with MIG torch sees one slice"
            if _sliced(readings)
            else "compare nvidia-smi -L with torch.cuda.device_count()"
        )
        return failed(said, advice, **figures)
    return passed(said, **figures)


def rank_devices(readings: Readings) -> Outcome:
    """One rank per GPU: each takes another one, and sees all of its node."""
    result = _result(readings.run("collectives"))
    ranks = {rank: facts for node in result.cluster.nodes for rank, facts in (node.known_facts.ranks or {}).items()}
    uuids = [facts.gpu_uuid for facts in ranks.values()]
    figures = {"ranks": len(ranks), "gpus_taken": len(set(uuids)), "gpus": readings.usable_gpus}
    if not ranks or any(uuid in (None, "unknown") for uuid in uuids):
        return unknown("ranks did not say which GPU they took", "update torch to 2.4 or newer", **figures)
    if len(set(uuids)) < len(ranks) or len(ranks) != readings.usable_gpus:
        said = f"{len(ranks)} ranks took {len(set(uuids))} of {readings.usable_gpus} GPUs"
        return failed(said, "unset CUDA_VISIBLE_DEVICES in the environment of the ranks", **figures)
    narrow = [rank for rank, facts in ranks.items() if facts.visible_gpus != readings.usable_gpus]
    if narrow:
        return failed(
            f"ranks {', '.join(map(str, narrow))} do not see all GPUs",
            "see raybench diagnose --explain devices-masked",
            **figures,
        )
    return passed(f"{len(ranks)} ranks, {len(set(uuids))} GPUs, each its own", **figures)


def rank_table(readings: Readings) -> tuple[RankDevice, ...]:
    """What each rank of each run said that it computed on."""
    return tuple(
        RankDevice(run=name, rank=rank, device=facts.device, gpu_uuid=facts.gpu_uuid)
        for name, run in readings.runs.items()
        if run.result is not None
        for node in run.result.cluster.nodes
        for rank, facts in sorted((node.known_facts.ranks or {}).items())
    )


def _sliced(readings: Readings) -> bool:
    return any(gpu.mig for gpu in readings.driver.gpus)


def _result(run: RunReading) -> RunResult:
    assert run.result is not None  # a run that has none is judged before its checks are
    return run.result


def _complete(benchmarks: Sequence[BenchmarkResult]) -> bool:
    return bool(benchmarks) and all(one.status in ("complete", "skipped") for one in benchmarks)


def _why(run: RunReading, names: Iterable[str]) -> str:
    """Why benchmarks are not complete: their own reason, else that of the run."""
    reasons = [one.reason for name in names for one in run.benchmark(name) if one.reason]
    failures = [point.failed for name in names for one in run.benchmark(name) for point in one.workload if point.failed]
    return (failures + reasons + [_result(run).conclusion.reason])[0]


def _next(run: RunReading) -> str:
    return _LOGS.format(folder=run.folder)
