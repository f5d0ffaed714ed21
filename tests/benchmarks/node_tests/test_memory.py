"""Memory of this machine, tested as on any host: what it holds, and what is said of bits that flip."""

from typing import Any

import pytest
import torch

from raybench.benchmarks.node_tests import memory
from tests.benchmarks.node_tests.said import figures_of


@pytest.fixture(autouse=True)
def _small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_cache_mib", lambda: 0.0)


def test_every_element_is_compared_and_both_speeds_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    exact, *speeds = figures_of(memory.run, capsys)
    assert (exact["test"], exact["status"], exact["checked"]) == ("memory-exact", "ok", 4 * (1 << 17))
    assert "wrong" not in exact
    assert [(one["case"], one["unit"], len(one["samples"])) for one in speeds] == [
        ("copy", "GB/s", 3),
        ("triad", "GB/s", 3),
    ]
    assert all(0.01 < sample < 10_000 for one in speeds for sample in one["samples"])


@pytest.mark.parametrize("bit", [0, 63])
def test_a_bit_that_flips_in_a_copy_is_counted(
    bit: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = torch.Tensor.copy_

    def flipping(held: torch.Tensor, source: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        copy(held, source, *rest, **more)
        if held.dtype == torch.int64 and held.numel() == 1 << 17:
            held[4711] ^= -(1 << 63) if bit == 63 else 1 << bit
        return held

    monkeypatch.setattr(torch.Tensor, "copy_", flipping)
    assert figures_of(memory.run, capsys)[0]["wrong"] == 2  # once of the numbers, once of their complement


def test_too_little_memory_is_no_figure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free_mib", lambda _: 5.0)
    figures = figures_of(memory.run, capsys)
    assert {one["status"] for one in figures} == {"missing"}
    assert figures[0]["reason"] == "it takes 3 times 1 MiB, and 5 MiB are free"


def test_a_cgroup_that_leaves_less_than_the_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/proc/self/cgroup": "0::/pod\n",
        "/sys/fs/cgroup/pod/memory.max": "1073741824\n",
        "/sys/fs/cgroup/pod/memory.current": "536870912\n",
        "/proc/meminfo": "MemTotal: 99 kB\nMemAvailable:  8388608 kB\n",
    }
    monkeypatch.setattr(memory, "_text", lambda path: texts.get(path, ""))
    cpu = memory.Device("cpu", "cpu", "", "", is_gpu=False)
    assert memory._free_mib(cpu) == 512
    texts["/sys/fs/cgroup/pod/memory.max"] = "max\n"
    assert memory._free_mib(cpu) == 8192
