"""How traces divide, rank beside rank: recorded ones of GPUs, made ones, and those of real gloo ranks."""

import gzip
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from raybench.benchmarks.training import ranges, step
from raybench.benchmarks.training.exposure.division import Division, division_of
from raybench.benchmarks.training.exposure.intervals import without
from raybench.benchmarks.training.exposure.profile import profile_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.documents.part import part_of
from raybench.documents.run.profile import Profile
from raybench.documents.run.training.point import TrainingPoint
from raybench.reports.workloads.profile import profile_sections
from tests.benchmarks.training.test_overlap import GPU, HOST, event
from tests.benchmarks.training.test_training import trained

TRACES = Path(__file__).parent / "traces"


def recorded(rank: int) -> Division:
    found = division_of(json.loads(gzip.decompress((TRACES / f"rank-{rank}.json.gz").read_bytes())))
    assert found is not None
    return found


def test_recorded_ranks_divide_as_holistic_trace_analysis_divides_them() -> None:
    one = recorded(0)
    assert (one.device, one.framed, one.steps) == ("GPU", False, 1)
    microseconds = [1e6 * part for part in (one.seconds, one.computation, one.memory + one.exposed, one.idle)]
    assert microseconds == pytest.approx([1_222_847, 210_320, 337_336, 675_191])
    assert one.operations["ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"].kind == "communication"


def test_recorded_ranks_beside_each_other() -> None:
    profile = profile_of({rank: recorded(rank) for rank in (0, 1)})
    assert profile is not None
    first = profile.operations[0]
    assert (first.name, first.slowest_rank) == ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 0)
    assert profile.straggler_reason == "with fewer than three ranks nobody is the odd one out"


def test_what_counts_first_and_that_the_parts_are_the_whole() -> None:
    gpu = division_of({"traceEvents": [*GPU, event("Memcpy HtoD", 1.05, 0.1, "gpu_memcpy", tid=9)]})
    assert gpu is not None
    parts = (gpu.computation, gpu.memory, gpu.exposed, gpu.idle)
    assert parts == pytest.approx((0.5, 0.05, 0.2, 0.25))  # the rest of the copy is beside a kernel
    assert gpu.communication == pytest.approx(0.4)
    copy = event("aten::copy_", 1.1, 0.1)
    host = division_of({"traceEvents": [*HOST, copy]})
    assert host is not None
    assert (host.computation, host.memory, host.exposed) == pytest.approx((0.5001, 0.1, 0.1999))
    assert host.operations["aten::mm"].seconds == pytest.approx(0.5), "without what it called"
    assert sum((host.computation, host.memory, host.exposed, host.idle)) == pytest.approx(host.seconds)


def test_a_trace_without_anything_is_none() -> None:
    assert division_of({"traceEvents": [event("cudaLaunchKernel", 1.0, 0.1, "cuda_runtime")]}) is None
    assert division_of({}) is None
    assert profile_of({}) is None


@pytest.mark.parametrize(
    ("second", "left"),
    [([(0, 9)], []), ([(2, 3), (4, 6)], [(1, 2), (3, 4)]), ([(5, 6)], [(1, 5)]), ([(0, 1), (7, 8)], [(1, 5)])],
)
def test_what_one_list_has_and_the_other_has_not(second: list[tuple[float, float]], left: list[Any]) -> None:
    assert without([(1, 5)], second) == left


def divided(own: tuple[float, ...], exposed: float) -> Division:
    seconds = sum(own) / len(own) + exposed
    parts = {"computation": sum(own) / len(own), "communication": exposed, "exposed": exposed}
    rest = {"memory": 0.0, "idle": 0.0, "own_steps": own, "operations": {}}
    return Division(device="GPU", framed=True, steps=len(own), seconds=seconds, **parts, **rest)


@pytest.mark.parametrize(
    ("late", "named"),
    [
        (divided((1.5, 1.6, 1.5), 0.1), (2,)),
        (divided((3.0, 1.0, 1.0), 0.1), ()),  # one long step is no straggler
        (divided((1.05, 1.06, 1.05), 0.55), ()),
        (divided((1.5, 1.6, 1.5), 0.6), ()),  # longer, but nobody waits for it
    ],
)
def test_who_is_late_in_every_step_while_the_others_wait(late: Division, named: tuple[int, ...]) -> None:
    usual = divided((1.0, 1.0, 1.0), 0.6)
    profile = profile_of({0: usual, 1: usual, 2: late, 3: usual})
    assert profile is not None
    assert (profile.stragglers, profile.straggler_reason) == (named, None)


def _slow_last_rank(rank: int) -> None:
    """Beside other work any rank may be late by a tenth of a second."""
    if rank == 2:
        made = step.batch_of
        step.batch_of = lambda *given: (time.sleep(0.3), made(*given))[1]


def test_ranks_that_keep_traces_say_who_they_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYBENCH_RANK_FOLDER", str(tmp_path))
    little = {
        "model": "mlp",
        "sequence_length": None,
        "profile": True,
        "overlap_steps": 1,
        "steps": 1,
        "warmup_steps": 0,
    }
    point = trained("ddp", ranks=3, sabotage=_slow_last_rank, **little)
    profile = point.profile
    assert isinstance(profile, Profile)
    assert profile.stragglers == (2,)
    assert [one.exposed > 0.15 for one in profile.ranks] == [True, True, False]
    for one in profile.ranks:
        assert one.computation + one.memory + one.exposed + one.idle == pytest.approx(one.seconds)
    assert {"communication", "computation"} <= {one.kind for one in profile.operations}
    again = part_of(TrainingPoint, json.loads(json.dumps(point.to_json())), "point")
    assert again.profile == profile
    ranks, operations = profile_sections([point])
    assert ranks.grid is not None
    assert [row[0].text for row in ranks.grid.rows] == ["0", "1", "2 (straggler)"]
    assert operations.title.startswith("Operators of ddp mlp")
    trace = json.loads(gzip.decompress(min(tmp_path.iterdir()).read_bytes()))
    check_format(trace)
    check_nesting(trace)
    marked = [one["name"] for one in sorted(trace["traceEvents"], key=lambda one: float(one.get("ts", 0)))]
    phases = [name for name in marked if name.startswith("raybench.") and name != "raybench.step"]
    assert (
        phases == ["raybench.data", "raybench.copy", "raybench.forward", "raybench.backward", "raybench.optimizer"] * 4
    )
    assert [name for name in marked if name.startswith("ProfilerStep#")] == [
        f"ProfilerStep#{step}" for step in range(4)
    ]


def check_format(trace: dict[str, Any]) -> None:
    """What the Trace Event Format asks of complete, flow, instant and metadata events, as Perfetto reads them."""
    for one in trace["traceEvents"]:
        assert one["ph"] in {"X", "s", "f", "i", "M"}
        assert "pid" in one
        assert isinstance(one["name"], str)
        assert one["ph"] == "M" or float(one["ts"]) >= 0
        assert one["ph"] != "X" or float(one["dur"]) >= 0
        assert one["ph"] not in {"s", "f"} or "id" in one


def check_nesting(trace: dict[str, Any]) -> None:
    """Of two slices of a thread one holds the other, or they are apart: Perfetto leaves out those that only overlap."""
    threads: defaultdict[tuple[object, object], list[tuple[float, float]]] = defaultdict(list)
    for one in trace["traceEvents"]:
        if one["ph"] == "X":
            threads[one["pid"], one["tid"]].append((float(one["ts"]), -float(one["dur"])))
    for slices in threads.values():
        open_until: list[float] = []
        for begin, negative in sorted(slices):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            end = begin - negative
            assert not open_until or end <= open_until[-1] + 0.001  # us, of which traces have three digits
            open_until.append(end)


def test_a_rank_that_is_alone_keeps_a_trace_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYBENCH_RANK_FOLDER", str(tmp_path))
    point = trained("ddp", ranks=1, model="mlp", sequence_length=None, profile=True, steps=2)
    assert len(list(tmp_path.iterdir())) == 1
    assert point.profile is not None
    assert point.profile.ranks[0].exposed < 0.1 * point.profile.ranks[0].seconds


class Nvtx:
    """What is pushed, popped, started and ended, in order."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.range_push = self.said.append
        self.range_pop = lambda: self.said.append("pop")
        self.range_end = self.said.append

    def range_start(self, name: str) -> int:
        self.said.append(name)
        return 7


def test_nvtx_ranges_are_closed_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    nvtx = Nvtx()
    monkeypatch.setattr(torch.cuda, "nvtx", nvtx)
    found = ranges.ranges_of(torch.device("cuda", 0), TrainingOptions(profile=True))
    with pytest.raises(ValueError, match="stop"), found.phase("forward"):
        raise ValueError("stop")
    found.begin("gradient_sync")
    found.end()
    found.end()
    assert nvtx.said == ["raybench.forward", "pop", "raybench.gradient_sync", 7]


def test_phases_are_marked_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert isinstance(ranges.ranges_of(cpu, TrainingOptions()), ranges.NoRanges)
    assert not isinstance(ranges.ranges_of(cpu, TrainingOptions()), ranges.HostRanges)
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    assert isinstance(ranges.ranges_of(cpu, TrainingOptions()), ranges.HostRanges)
