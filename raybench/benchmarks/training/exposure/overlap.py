"""How much of the communication a step waits for, by three estimators that share nothing but the step.

1. *Differencing*: alternating steps with and without synchronisation; the difference of their times. It compares real
   steps, and is blind to what communication takes from computation while both run (cores, memory, SMs).
2. *Profiler*: communication that no computation covers, in profiled steps, without the waiting for late ranks.
3. *Replay* (replay.py): the same operations alone, one by one; then what would stay exposed if each took that long,
   one after another, from the moment at which its data were ready. What it gives is the least that this network allows.
"""

import gzip
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import msgspec
import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.rank.folder import passing_folder, rank_folder
from raybench.benchmarks.timing import synchronize
from raybench.benchmarks.training.exposure.agreement import agreed, timed
from raybench.benchmarks.training.exposure.division import Division, division_of
from raybench.benchmarks.training.exposure.replay import Grouping, replay, replayed
from raybench.benchmarks.training.exposure.trace import COUNTED, STEP, Operation, Shares, StepTrace, shares_of, steps_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.ranges import in_nsight_systems
from raybench.benchmarks.training.record import Exposure

_UNSEEN = (
    "powersgd starts most of its messages in callbacks, which the profiler does not see: what a step sends is not "
    "counted, and by differencing alone is known what it waits for"
)
_PROFILED = 4  # the first of them pays for starting the profiler and is left out


class Step(Protocol):
    """A step that can be run with and without synchronising its gradients."""

    def step(self, number: int, *, synchronised: bool = True) -> object:
        """Run it."""


def trace_name(rank: int, strategy: str) -> str:
    """File name of a rank's trace, for Perfetto (ui.perfetto.dev), chrome://tracing or TensorBoard.

    TensorBoard's profiler plugin takes only files named ``WORKER.TIME.pt.trace.json`` or that with ``.gz``.
    """
    return f"trace-rank-{rank}-{strategy}.{time.time_ns()}.pt.trace.json.gz"


def measure_exposure(context: RankContext, trainer: Any, strategy: str, options: TrainingOptions) -> Exposure:
    """All three on this rank. Every rank must call it."""
    context.progress.enter("measuring overlap")
    pairs = difference(context, trainer, options.overlap_steps)
    keep = rank_folder() / trace_name(context.rank, strategy) if options.profile else None
    trace = traced(context, trainer, keep)
    steps = steps_of(trace)[1:]
    if options.comm_hook == "powersgd":
        exposure = Exposure(synchronised=pairs[0], unsynchronised=pairs[1], remarks=(_UNSEEN,))
    else:
        exposure = exposure_of(context, pairs, steps, trainer.strategy)
    if keep is None:
        return exposure
    exposure = msgspec.structs.replace(exposure, division=division_of(trace))
    if keep.exists():
        return exposure
    lost = f"the trace of rank {context.rank} could not be written: see logs/output-rank-{context.rank}.log"
    return msgspec.structs.replace(exposure, remarks=(*exposure.remarks, lost))


def keep_trace(context: RankContext, trainer: Any, strategy: str) -> Division | None:
    """The trace of a rank that is alone; how its time divides."""
    context.progress.enter("measuring overlap")
    return division_of(traced(context, trainer, rank_folder() / trace_name(context.rank, strategy)))


def difference(context: RankContext, trainer: Step, pairs: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of steps with and without synchronisation, alternating, each after a barrier."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * pairs):
        synchronised = (number + number // 2) % 2 == 0  # with, without, without, with: a drift falls on both alike
        synchronize(context)
        seconds[synchronised].append(timed(context, partial(trainer.step, 0, synchronised=synchronised)))
    return tuple(seconds[True]), tuple(seconds[False])


def profiled(
    context: RankContext, trainer: Step, keep: Path | None = None, *, all_threads: bool = False
) -> tuple[StepTrace, ...]:
    """Some steps as the profiler saw them; the trace itself, compressed, in ``keep``."""
    return steps_of(traced(context, trainer, keep, all_threads=all_threads))[1:]


def traced(
    context: RankContext, trainer: Step, keep: Path | None = None, *, all_threads: bool = False
) -> Mapping[str, Any]:
    """The trace of some steps, of which the first pays for the profiler's start."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if context.device.type == "cuda" and not in_nsight_systems():  # gpu: profiler-overlap
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    settings: dict[str, Any] = {}
    if all_threads:
        settings["experimental_config"] = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(activities=activities, record_shapes=True, **settings) as profiler:
        for number in range(_PROFILED):
            synchronize(context)
            with torch.profiler.record_function(f"{COUNTED}{number}"), torch.profiler.record_function(STEP):
                trainer.step(0)
                if context.device.type == "cuda":  # gpu: profiler-overlap
                    torch.cuda.synchronize(context.device)
    with passing_folder() as folder:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        if keep is not None:
            _compress(path, keep)
        trace: Mapping[str, Any] = msgspec.json.decode(path.read_bytes())
        return trace


def _compress(source: Path, target: Path) -> None:
    """What is written is whole. Where it cannot be, the rank goes on, and its output says why there is no trace."""
    try:
        with source.open("rb") as file, gzip.open(target, "wb", compresslevel=5) as packed:
            shutil.copyfileobj(file, packed)
    except OSError as error:  # a full disk must not stop a rank from measuring
        target.unlink(missing_ok=True)
        sys.stderr.write(f"{target.name} could not be written: {error.strerror}\n")


def exposure_of(
    context: RankContext,
    pairs: tuple[tuple[float, ...], tuple[float, ...]],
    steps: Sequence[StepTrace],
    grouping: Grouping,
) -> Exposure:
    """What the estimators give on this rank. Every rank must call it: transfers are compared between ranks."""
    remarks: list[str] = []
    shares = _shares(context, steps, remarks)
    operations = [
        replace(one, ranks=one.ranks or dist.get_world_size(grouping.group_of(one.name)))
        for one in _common_operations(context, steps, remarks)
    ]
    durations = replay(context, operations, grouping)
    return Exposure(
        synchronised=pairs[0],
        unsynchronised=pairs[1],
        communication=_median([one.communication for one in shares]),
        computation=_median([one.computation for one in shares]),
        overlap=_median([one.overlap for one in shares]),
        idle=_median([one.idle for one in shares]),
        isolated=sum(durations) if durations else None,
        replayed=replayed(context, steps, durations, grouping) if durations else None,
        wire_bytes=sum(one.wire_bytes(context.world_size) for one in operations) if operations else None,
        operations={name: sum(one.name == name for one in operations) for name in {one.name for one in operations}},
        remarks=tuple(remarks),
    )


def _median(values: Sequence[float]) -> float | None:
    return float(median(values)) if values else None


def _shares(context: RankContext, steps: Sequence[StepTrace], remarks: list[str]) -> list[Shares]:
    durations = [end - begin for step in steps for begin, end in step.communication]
    least = agreed(context, durations, dist.ReduceOp.MIN)
    if least is None:
        remarks.append("ranks were profiled with different numbers of operations; waiting counts as communication")
        return [shares_of(step) for step in steps]
    shares, start = [], 0
    for step in steps:
        count = len(step.communication)
        shares.append(shares_of(step, least[start : start + count]))
        start += count
    return shares


def _common_operations(context: RankContext, steps: Sequence[StepTrace], remarks: list[str]) -> tuple[Operation, ...]:
    """The operations of the last profiled step, where all ranks called for the same."""
    operations = steps[-1].operations if steps else ()
    sizes = [float(one.message_bytes) for one in operations]
    low, high = agreed(context, sizes, dist.ReduceOp.MIN), agreed(context, sizes, dist.ReduceOp.MAX)
    if low is None or low != high:
        remarks.append("the operations of a step differ between ranks, or the profiler did not name them; no replay")
        return ()
    return operations
