"""What a training point is found to be, from made-up records; and when, from made-up events."""

import struct
from math import inf, nan

import pytest
import torch
from msgspec.structs import replace

from raybench.benchmarks.memory.findings import memory_findings
from raybench.benchmarks.training.clock import DeviceClock
from raybench.benchmarks.training.findings import training_findings
from raybench.benchmarks.training.record import Check, differences
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.communication import Communication
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.straggler import Straggler


def benchmark(losses: tuple[float, ...]) -> BenchmarkResult:
    point = TrainingPoint(
        label="ddp tiny",
        world_size=2,
        launches=((0.1,) * len(losses),),
        rank_seconds=(0.1, 0.1),
        batch_size=8,
        tokens_per_sample=None,
        flop_per_sample=1.0,
        phases={},
        losses=losses,
        memory={},
        utilization={},
        communication=Communication(),
        facts={},
        verified=True,
        check={},
    )
    return BenchmarkResult(name="ddp", kind="training", parameters={}, status="complete", points=(), workload=(point,))


@pytest.mark.parametrize(
    ("losses", "words"), [((nan, nan), "from the first timed step on"), ((2.0, 1.5, inf), "in timed step 3 of 3")]
)
def test_a_loss_that_is_no_number_is_critical(losses: tuple[float, ...], words: str) -> None:
    (finding,) = training_findings(benchmark(losses), lambda _: None)
    assert (finding.rule, finding.severity) == ("loss-not-finite", "critical")
    assert words in finding.summary


@pytest.mark.parametrize(
    ("data", "seconds", "found"),
    [
        ("corpus.jsonl", 0.02, ["data-loading-slow"]),
        ("corpus.jsonl", 0.009, []),
        ("text", 0.05, []),
        (None, 0.05, []),
    ],
)
def test_a_loader_that_steps_wait_for_is_found(data: str | None, seconds: float, found: list[str]) -> None:
    made = benchmark((2.0, 1.0))
    point = replace(made.workload[0], facts={"data": data}, phases={"data": seconds, "forward": 0.04})
    told = list(training_findings(replace(made, workload=(point,)), lambda _: None))
    assert [one.rule for one in told] == found
    assert all("20% of a step waits for data" in one.summary for one in told)


def test_a_loss_that_rises_is_none_of_our_business() -> None:
    assert not list(training_findings(benchmark((2.0, 9e30)), lambda _: None))


@pytest.mark.parametrize(
    ("excess", "z", "emulated", "severity"),
    [
        (0.82, 20.0, False, "critical"),  # a rank at 0.55 of the others' speed
        (0.82, 20.0, True, "critical"),
        (0.4, 20.0, False, "critical"),
        (0.4, 20.0, True, "warning"),  # emulated nodes share processors
        (0.3, 6.0, False, "warning"),  # large, and its interval is not clear of the bound
        (0.02, 9.0, False, "warning"),
    ],
)
def test_a_straggler_is_as_grave_as_it_is_slow(excess: float, z: float, emulated: bool, severity: str) -> None:
    one = Straggler(rank=1, excess=excess, z=z, own_seconds=0.1, wait_seconds=0.0, others_wait_seconds=0.05)
    made = benchmark((2.0, 1.5))
    (point,) = made.workload
    slow = replace(point, stragglers=(one,))
    found = training_findings(replace(made, workload=(slow,)), lambda _: "node-2", emulated=emulated)
    assert [(one.rule, one.severity, one.hosts) for one in found] == [("straggler", severity, ("node-2",))]


def test_a_reference_that_diverges_too_refutes_nothing() -> None:
    both = Check(losses=(6.2, nan), expected_losses=(6.2, nan), gradient_norms=(1.0, inf),
                 expected_gradient_norms=(1.0, nan), tolerance=1e-3)  # fmt: skip
    assert differences(both) == 0
    ours = Check(losses=(6.2, nan), expected_losses=(6.2, 6.1), gradient_norms=(1.0, 1.0),
                 expected_gradient_norms=(1.0, 1.0), tolerance=1e-3)  # fmt: skip
    assert differences(ours) == inf
    none = Check(losses=(nan,), expected_losses=(nan,), gradient_norms=(nan,), expected_gradient_norms=(nan,))
    assert differences(none) is None


class Single:
    """An event as CUDA's: milliseconds between two of them in float32."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def elapsed_time(self, later: "Single") -> float:
        return struct.unpack("f", struct.pack("f", (later.seconds - self.seconds) * 1e3))[0]


def test_steps_after_an_hour_are_as_sharp_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.synchronize", lambda _: None)
    clock = DeviceClock.__new__(DeviceClock)
    clock._device, clock._begin, clock._resumed = torch.device("cuda"), Single(0.0), {}
    ends = [3600.0 * step / 50 for step in range(1, 51)] + [3600.0001, 3600.0003]
    clock._steps = [{"forward:0": Single(end - 5e-5), "end": Single(end)} for end in ends]
    stamps, marks = clock.read()
    assert stamps[-1] - stamps[-2] == pytest.approx(2e-4, rel=1e-3)
    assert marks[-1][-1][1] - marks[-1][0][1] == pytest.approx(5e-5, rel=1e-3)
    assert stamps[49] == pytest.approx(3600, rel=1e-7)
    clock._resumed = {1: Single(3600.0 / 50 + 5.0)}  # an evaluation of 5 s behind the first step
    paused, _ = clock.read()
    assert paused[:2] == pytest.approx([stamps[0], stamps[1] - 5.0], rel=1e-6)
    assert paused[-1] - paused[-2] == pytest.approx(2e-4, rel=1e-3)


@pytest.mark.parametrize(
    ("largest", "complete", "failed", "rules"),
    [
        (0, True, None, ["does-not-fit"]),
        (1, True, None, []),
        (0, False, None, []),
        (0, True, "it hung", []),
    ],
)
def test_a_model_of_which_no_sample_fits_is_critical_and_a_search_that_was_cut_short_is_not(
    largest: int, complete: bool, failed: str | None, rules: list[str]
) -> None:
    point = MemoryPoint(
        label="memory small", uses=(), largest_batch=largest, reached_most=False, limit_bytes=2**29, emulated=False,
        complete=complete, failed=failed,
    )  # fmt: skip
    found = list(
        memory_findings(
            BenchmarkResult(name="memory", kind="memory", parameters={}, status="complete", workload=(point,))
        )
    )
    assert [finding.rule for finding in found] == rules
    assert all("not even one sample fits into 512M" in finding.summary for finding in found)
