"""One thread's own speed on this machine, and counts of the kernel that say nothing."""

import pytest

from raybench.benchmarks.node_tests import processor
from tests.benchmarks.node_tests.said import SMALL, figures_of


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a clock shows that goes on by a millisecond with each look, and what the thread has waited."""
    waited, shown = [0.0], [0.0]

    def look() -> float:
        shown[0] += 0.001
        return shown[0]

    monkeypatch.setattr(processor.time, "perf_counter", look)
    monkeypatch.setattr(processor, "_waited_seconds", lambda: waited[0])
    return waited


def test_samples_are_of_the_thread_alone(capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = figures_of(processor.run, capsys)
    assert (only["test"], only["unit"]) == ("processor", "GFLOP/s")
    assert all(0.1 < sample < 2000 for sample in only.get("samples", ()))


def test_a_thread_that_only_waited_gives_no_sample_and_takes_no_longer(
    capsys: pytest.CaptureFixture[str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting() -> float:
        clock[0] += 0.001  # all that passed
        return clock[0]

    monkeypatch.setattr(processor, "_waited_seconds", waiting)
    (only,) = figures_of(processor.run, capsys)
    assert only.get("samples", []) == []


def test_a_full_machine_ends_it_early(
    capsys: pytest.CaptureFixture[str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clock == [0.0]
    monkeypatch.setattr(processor, "_LONGEST_BESIDE_SECONDS", 0.1)
    (only,) = figures_of(processor.run, capsys, SMALL._replace(samples=10**6, block_seconds=1e-9))
    assert 0 < len(only["samples"]) < 1000
