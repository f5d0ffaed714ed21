"""What fits the memory: limits of control groups, shares of a device, sizes left out and said so."""

from pathlib import Path

import psutil
import pytest

from raybench.benchmarks import free_memory as memory
from raybench.benchmarks.events import BenchmarkFinished
from raybench.benchmarks.free_memory import cgroup_headroom
from raybench.benchmarks.spec import BenchmarkSpec
from tests.benchmarks.gloo_ranks import failures_of, points_of, run_ranks, skipped_of
from tests.benchmarks.messages.test_verify import context


def group(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def test_the_tightest_limit_of_version_two_counts(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    own.write_text("0::/a/b\n")
    group(root / "a" / "b", {"memory.max": "max", "memory.current": "10"})
    group(root / "a", {"memory.max": "1000", "memory.current": "700", "memory.stat": "anon 1\ninactive_file 100"})
    assert cgroup_headroom(own, root) == 400


def test_a_container_that_sees_its_group_at_the_root(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    own.write_text("0::/not/there\n")
    group(root, {"memory.max": "1000", "memory.current": "1200"})
    assert cgroup_headroom(own, root) == 0


def test_a_limit_of_version_one_counts(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "cgroup"
    own.write_text("3:cpu,cpuacct:/x\n9:memory:/docker/4f\n")
    group(root / "memory" / "docker" / "4f", {"memory.limit_in_bytes": "900", "memory.usage_in_bytes": "300"})
    assert cgroup_headroom(own, root) == 600


def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    assert cgroup_headroom(tmp_path / "own", tmp_path) is None
    (tmp_path / "own").write_text("0::/\n")
    assert cgroup_headroom(tmp_path / "own", tmp_path) is None


def limited(free: int) -> object:
    return lambda _: free


def spec(name: str, *sizes: int, in_place: bool = False) -> BenchmarkSpec:
    kind = "p2p" if name == "p2p_matrix" else "collective"
    return BenchmarkSpec(name=name, kind=kind, sizes=sizes, in_place=in_place, iterations=1, blocks=1, warmup=0)


def test_sizes_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """10000 bytes are free: in place the buffer counts once, so 8000 bytes fit (80 %) and 8192 do not."""
    monkeypatch.setattr(memory, "free_bytes", limited(10000))  # the ranks are forked, and inherit it
    plan = [spec("all_reduce", 1024, 8000, 8192, in_place=True), spec("all_gather", 1024, 8000), spec("all_reduce", 16)]
    plan += [spec("p2p_matrix", 8192), spec("all_reduce", 8192, 16384)]
    events = run_ranks(2, plan)
    assert failures_of(events) == []
    for heard in events:
        sizes = [[one.message_bytes for one in points_of(heard, index)] for index in range(len(plan))]
        assert sizes == [[1024, 8000], [1024], [16], [], []]
        ends = [one for one in heard if isinstance(one, BenchmarkFinished)]
        assert [one.too_large for one in ends] == [1, 1, 0, 1, 2]
        for index in (3, 4):
            assert "do not fit the memory of every rank" in (skipped_of(heard, index) or "")


def test_what_is_free_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 8000}))
    monkeypatch.setattr(memory, "cgroup_headroom", lambda *_: 4000)
    assert memory.free_bytes(context(4)) == 1000
    monkeypatch.setattr(memory, "cgroup_headroom", lambda *_: None)
    assert memory.free_bytes(context(4)) == 2000
