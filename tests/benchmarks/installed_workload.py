"""A distribution with one workload, written into a folder as pip would leave it there."""

from pathlib import Path

ENTRY_POINTS = "[raybench.workloads]\nechoes = echoes:WORKLOAD\n"
METADATA = "Metadata-Version: 2.1\nName: echoes\nVersion: 1.0\n"
DECLARATION = """
from dataclasses import asdict, dataclass

from raybench.benchmarks.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Echoes:
    calls: int = 4

    def parameters(self):
        return asdict(self)


WORKLOAD = Workload(
    kind="echoes",
    benchmarks={"echo": "echoes.rank"},
    options=Echoes,
    labels=lambda spec, _: ("echo of a byte",),
    fewer="calls",
    records="echoes.records:RECORDS",
)
"""
RANK = """
import time

import torch
import torch.distributed as dist

from echoes.records import EchoRecord


def run(context, spec):
    seconds = []
    for _ in range(spec.options.calls):
        begin = time.perf_counter()
        dist.all_reduce(torch.ones(1))
        seconds.append(time.perf_counter() - begin)
    yield EchoRecord(label="echo of a byte", seconds=tuple(seconds))
    return 0
"""
RECORDS = """
import msgspec

from diagnostics.findings import Finding
from raybench.benchmarks.timed import are_times
from raybench.benchmarks.workload import Records
from raybench.documents.run.figures import Figure, FiguresPoint


class EchoRecord(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    seconds: tuple[float, ...]
    interim: bool = False


def point(launches, spec, world_size, cut):
    slowest = [max(times) for launch in launches for times in zip(*(one.seconds for one in launch.values()))]
    figures = (
        Figure(name="echoes", value=len(slowest) / sum(slowest), unit="1/s"),
        Figure(name="ranks", value=float(world_size)),
    )
    return FiguresPoint(label="echo of a byte", figures=figures, samples_seconds=tuple(slowest), verified=True)


def findings(benchmark, node_of, emulated):
    yield Finding(rule="echoes-heard", severity="info", confidence="certain", explanation="",
                  summary=f"rank 0 of {node_of(0)} heard its echo", ranks=(0,))


RECORDS = Records(
    record=EchoRecord,
    point=point,
    problem=lambda record: None if are_times(record.seconds) else "a time that is none",
    findings=findings,
)
"""


def install(site: Path) -> None:
    """Write the distribution into a folder of ``sys.path``."""
    for name, text in {
        "echoes-1.0.dist-info/METADATA": METADATA,
        "echoes-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
        "echoes/__init__.py": DECLARATION,
        "echoes/rank.py": RANK,
        "echoes/records.py": RECORDS,
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
