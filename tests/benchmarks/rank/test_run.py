"""One rank's life: what it says of itself and of its end."""

import contextlib
import dataclasses

import pytest
import torch

from raybench.benchmarks import timing
from raybench.benchmarks.events import Event, RankFailed
from raybench.benchmarks.rank import run as rank
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.rank.run import rank_facts, run_rank, summary_of
from raybench.benchmarks.timing import follow
from tests.benchmarks.messages.test_verify import context

NCCL = "NCCL error in: NCCLUtils.cpp:94, unhandled system error\nncclSystemError: a call failed.\nLast error:\n"


def test_the_summary_of_an_nccl_error_has_its_cause_on_one_line() -> None:
    text = summary_of(RuntimeError(NCCL + "socketStartConnect: Connect to\n10.0.0.1<1> failed"))
    assert text == (
        "RuntimeError: NCCL error in: NCCLUtils.cpp:94, unhandled system error "
        "Last error: socketStartConnect: Connect to 10.0.0.1<1> failed"
    )
    assert summary_of(ValueError("first\nsecond")) == "ValueError: first"
    assert summary_of(ValueError()) == "ValueError"
    assert len(summary_of(RuntimeError("x" * 999 + "\nLast error:\n" + "y" * 999))) == 400


def assignment(device_index: int | None = None) -> RankAssignment:
    return RankAssignment(
        rank=0,
        local_rank=0,
        world_size=1,
        ranks_on_machine=1,
        backend="gloo",
        master_address="127.0.0.1",
        master_port=1,
        timeout_seconds=1.0,
        device_index=device_index,
    )


@pytest.mark.parametrize("sign", ["is_initialized", "_is_in_bad_fork"])
def test_cuda_that_the_parent_started_is_an_error_and_the_traceback_reaches_the_log(
    sign: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, sign, lambda: True)
    events: list[Event] = []
    assert not run_rank(assignment(0), [], events.append, ProgressSlot())
    (failed,) = events
    assert isinstance(failed, RankFailed)
    assert "CUDA was already initialised" in failed.error
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("soft", "said"), [(65536, "65536"), (rank.resource.RLIM_INFINITY, "unlimited")])
def test_facts_tell_the_pinning_limit_and_the_environment(
    soft: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank.resource, "getrlimit", lambda _: (soft, soft))
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("SOME_SECRET", "x")
    facts = rank_facts(context(1))
    assert (facts["memlock"], facts["env.NCCL_ALGO"]) == (said, "Ring")
    assert "env.SOME_SECRET" not in facts


class FakeEvent:
    """An event that is complete at the given look."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def query(self) -> bool:
        self.looks -= 1
        return self.looks <= 0


def test_progress_follows_the_events_of_a_device() -> None:
    marked: list[int] = []
    follow([FakeEvent(1), FakeEvent(3)], marked.append)
    assert marked == [1, 2]


def test_progress_stays_where_a_device_hangs() -> None:
    class HangError(Exception):
        pass

    class Stuck:
        def query(self) -> bool:
            raise HangError

    progress = ProgressSlot()
    with pytest.raises(HangError):
        follow([FakeEvent(1), FakeEvent(2), Stuck(), FakeEvent(1)], progress.iteration)
    assert progress.read().iteration == 2


def test_a_device_block_counts_completed_operations_not_queued_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    progress, seen, at = ProgressSlot(), [], iter(range(100))

    class Recorded:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing
            self.time = 0

        def record(self) -> None:
            self.time = next(at)

        def query(self) -> bool:
            seen.append(progress.read().iteration)
            return True

        def elapsed_time(self, later: "Recorded") -> float:
            return later.time - self.time

    monkeypatch.setattr(torch.cuda, "Event", Recorded)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    queued: list[int] = []
    here = dataclasses.replace(context(1), progress=progress)
    stamps = timing._device_block(here, lambda: queued.append(progress.read().iteration), 3)
    assert stamps == (0.001, 0.002, 0.003)
    assert (queued, seen, progress.read().iteration) == ([0, 0, 0], [0, 1, 2], 3)


def test_a_rank_is_finished_once_no_other_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is finished may be ended: the others' last barrier would break, and their logs accuse a lost peer."""
    seen: list[str] = []
    monkeypatch.setattr(rank, "process_group", lambda *_: contextlib.nullcontext(context(1)))
    monkeypatch.setattr(rank, "rank_facts", lambda _: {})
    monkeypatch.setattr(rank.dist, "barrier", lambda *_, **__: seen.append("barrier"))
    assert run_rank(assignment(), [], lambda event: seen.append(type(event).__name__), ProgressSlot())
    assert seen == ["RankReady", "barrier", "RankFinished"]
