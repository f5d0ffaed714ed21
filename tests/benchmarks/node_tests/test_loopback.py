"""Collectives between real gloo ranks of this machine, with each element compared, and ranks that end or hang."""

import os
import signal
from typing import Any

import pytest
import torch

from raybench.benchmarks.node_tests import loopback, loopback_rank
from raybench.benchmarks.node_tests.devices import Device
from raybench.benchmarks.node_tests.plan import Plan
from tests.benchmarks.node_tests.said import SMALL, figures_of

CPU = Device("cpu", "cpu", "EPYC", "torch", is_gpu=False)
LINES: list[dict[str, Any]] = [
    {"joined": True},
    {"begun": "all_reduce"},
    {"operation": "all_reduce", "rank": 0, "checked": 4, "wrong": 0, "samples": [1.0]},
    {"ended": True},
]


class Said(loopback._Ranks):
    """Ranks that have said something already."""

    def __init__(self, *said: list[dict[str, Any]], late: bool = False) -> None:
        self.count, self.said, self._late = len(said), list(said), late
        self._processes = []

    def _listen(self) -> bool:
        return self._late


@pytest.mark.long
def test_real_ranks_agree_on_each_element(capsys: pytest.CaptureFixture[str]) -> None:
    figures = figures_of(loopback.run, capsys)
    exact = [one for one in figures if one["test"] == "loopback-exact"]
    assert [(one["case"], one["status"], one.get("wrong")) for one in exact] == [
        ("all_reduce", "ok", None),
        ("all_gather", "ok", None),
    ]
    ranks = max(2, min(4, os.cpu_count() or 2))
    count = (1 << 18) // ranks * ranks
    assert [one["checked"] for one in exact] == [ranks * count] * 2
    assert all(len(one["samples"]) == 3 for one in figures if one["test"] == "loopback-speed")


@pytest.mark.long
def test_a_rank_that_is_killed_is_no_figure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = loopback._Ranks._listen

    def killing(ranks: loopback._Ranks) -> bool:
        os.kill(ranks._processes[1].pid, signal.SIGKILL)
        return listen(ranks)

    monkeypatch.setattr(loopback._Ranks, "_listen", killing)
    figures = figures_of(loopback.run, capsys, SMALL._replace(seconds=10.0))
    assert {one["status"] for one in figures} == {"missing"}


@pytest.mark.parametrize(
    ("said", "late", "status", "reason"),
    [
        ([LINES, LINES], False, "ok", ""),
        ([LINES, LINES[:2]], True, "failed", "ranks hang in all_reduce"),
        ([LINES, LINES[:2]], False, "failed", "ranks ended in all_reduce"),
        ([LINES, []], True, "missing", "its ranks did not start in time"),
        ([LINES, []], False, "missing", "a rank ended before it began"),
        ([LINES, [*LINES[:2], {"error": "RuntimeError: NCCL error"}]], False, "failed", "RuntimeError: NCCL error"),
        ([LINES, [{"error": "DistNetworkError: no port"}]], False, "missing", "DistNetworkError: no port"),
    ],
)
def test_how_ranks_ended_decides(said: list[list[dict[str, Any]]], late: bool, status: str, reason: str) -> None:
    assert Said(*said, late=late).result()[1:] == (status, reason)


def test_wrong_elements_of_all_ranks_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [LINES[0], LINES[2] | {"rank": 1, "wrong": 3}, LINES[3]]

    def run(plan: Plan) -> None:
        loopback._say(CPU, 2, plan, Said(LINES, wrong).result())

    exact, speed = figures_of(run, capsys)
    assert (exact["checked"], exact["wrong"]) == (8, 3)
    assert speed["samples"] == [1.0]


def test_what_ranks_must_hold_differs_by_rank_and_is_exact() -> None:
    first, second = (loopback_rank.numbers(1000, rank) for rank in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(loopback_rank._summed(1000, 2), first + second)
    assert torch.equal(loopback_rank._gathered(1000, 2), torch.cat([first[:500], second[:500]]))
    assert float(torch.cat([first, second]).max()) < 251
