"""Runs whose points are on the clock, for the rules over samples."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.communication import Communication
from raybench.documents.run.point_time import PointTime
from raybench.documents.run.result import RunResult
from raybench.documents.run.training.point import TrainingPoint
from tests.reports.sample import cluster, launches, pairs, point, run_result

SIZE = 2**30


def collective(seconds: Sequence[float], *, blocks: int = 5, times: bool = True) -> BenchmarkResult:
    """An all_reduce of 1 GiB: a launch for each of ``seconds``, measured for 10 s each from 10 s on."""
    samples = tuple(launches(one, shape=(1, blocks, 5), seed=number)[0] for number, one in enumerate(seconds))
    return BenchmarkResult(
        name="all_reduce",
        kind="collective",
        parameters={"dtype": "float32"},
        status="complete",
        points=(point(SIZE, samples=samples, bus_factor=1.75),),
        times=tuple(
            PointTime(
                launch=launch, begin_seconds=10.0 + 20 * launch, end_seconds=20.0 + 20 * launch, message_bytes=SIZE
            )
            for launch in range(len(seconds))
        )
        if times
        else (),
    )


def matrix(slow: Sequence[tuple[int, int]] = (), *, ranks: int = 8) -> BenchmarkResult:
    """All pairs of ranks, one a node, a second each from 10 s on."""
    measured = pairs(ranks, per_node=1, slow=slow)
    return replace(
        measured,
        times=tuple(
            PointTime(
                launch=0,
                begin_seconds=10.0 + number,
                end_seconds=11.0 + number,
                message_bytes=one.message_bytes,
                source_rank=one.source_rank,
                destination_rank=one.destination_rank,
            )
            for number, one in enumerate(measured.points)
        ),
    )


def training(
    steps: Sequence[float], *, data: float = 0.0, gpu: str | None = "NVIDIA H100", begin: float = 10.0
) -> BenchmarkResult:
    """A training whose first timed step began at ``begin``; ``data``: seconds of each step."""
    measured = TrainingPoint(
        label="ddp tiny",
        world_size=4,
        launches=(tuple(steps),),
        rank_seconds=(sum(steps) / len(steps),) * 4,
        batch_size=8,
        tokens_per_sample=None,
        flop_per_sample=1e9,
        phases={"data": data, "forward": 0.01},
        losses=(2.0, 1.0),
        memory={"kind": "cuda"},
        utilization={"gpu": None, "cpu": 0.5},
        communication=Communication(exposed={}),
        facts={"gpu": gpu},
        verified=None,
        check={"reason": "off"},
    )
    time = PointTime(
        launch=0,
        begin_seconds=begin - 5,
        end_seconds=begin + sum(steps) + 2,
        label="ddp tiny",
        steps_begin_seconds=begin,
    )
    return BenchmarkResult(
        name="ddp", kind="training", parameters={}, status="complete", workload=(measured,), times=(time,)
    )


def run_of(*benchmarks: BenchmarkResult, nodes: int = 2, per_node: int = 2, **changes: Any) -> RunResult:
    """A run of them on ``node-0``, ``node-1``, ..."""
    return run_result(*benchmarks, cluster=cluster(nodes, per_node, **changes))
