"""What a rank writes only to read it again: in the folder of its run, since a rank can be killed at any moment."""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.memory.allocator import allocated_peak
from raybench.benchmarks.rank.folder import FOLDER_VARIABLE, passing_folder
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.training.exposure import overlap


class _Nothing:
    def step(self, number: int, *, synchronised: bool = True) -> None:
        assert (number, synchronised) == (0, True)


def _counts_memory() -> None:
    allocated_peak(lambda: None)


def _measures_overlap() -> None:
    values: dict[str, Any] = {"store": None}
    context = RankContext(
        rank=0, local_rank=0, world_size=1, ranks_on_machine=1, backend="gloo", device=torch.device("cpu"),
        progress=ProgressSlot(), **values,
    )  # fmt: skip
    overlap.profiled(context, _Nothing())


def _killed_while_it_reads(work: Callable[[], None], of_run: Path, temporary: Path) -> None:
    os.environ[FOLDER_VARIABLE] = str(of_run)
    tempfile.tempdir = str(temporary)
    msgspec.json.decode = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    work()


@pytest.mark.parametrize("work", [_counts_memory, _measures_overlap])
def test_a_rank_that_is_killed_while_it_reads_a_trace_leaves_it_in_the_folder_of_its_run(
    work: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_run, temporary = tmp_path / "run", tmp_path / "temporary"
    of_run.mkdir()
    temporary.mkdir()
    if work is _measures_overlap:
        monkeypatch.setattr(overlap, "synchronize", lambda _: None)  # with nobody
    process = multiprocessing.get_context("fork").Process(target=_killed_while_it_reads, args=(work, of_run, temporary))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert [path.name for path in temporary.glob("[!t]*")] == []  # torchinductor_USER is torch's own cache
    assert [path.name for path in of_run.rglob("*.json")] == ["trace.json"]


def test_a_rank_that_ends_by_itself_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    _counts_memory()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("of_run", [None, "", "no-such-folder"])
def test_without_a_run_it_is_in_the_temporary_folder(
    of_run: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    if of_run is not None:
        monkeypatch.setenv(FOLDER_VARIABLE, of_run and str(tmp_path / of_run))
    with passing_folder() as folder:
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
