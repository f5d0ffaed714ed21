"""Real runs over a shaped link as sides (README.md)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.comparison.run_side import ALLOWED
from raybench.comparison.side import FigureKey, Launch, Side, SideFigure, blocks_of

KEY = FigureKey(benchmark="all_reduce float32 sum", point="1M")
RUNS = json.loads((Path(__file__).parent / "shaped_link.json").read_text(encoding="utf-8"))
FULL, SLOWER = RUNS["100mbit"], RUNS["95mbit"]


def figure(*runs: Sequence[float], allowed: float = ALLOWED, factor: float = 1.0) -> SideFigure:
    launches = tuple((blocks_of([factor * sample for sample in run]),) for run in runs)
    return SideFigure(unit="s", runs=launches, allowed=allowed)


def side(*runs: Sequence[float], name: str = "runs", **options: float) -> Side:
    return Side(name=name, kind="run", machine={"nodes": "2"}, figures={KEY: figure(*runs, **options)})


WHOLE_RUNS = json.loads((Path(__file__).parent / "shaped_runs.json").read_text(encoding="utf-8"))
_SIZES = ("512K", "1024K")


def whole_run(number: int) -> Side:
    """A recorded run of three launches and two sizes: of each launch its median."""
    run = WHOLE_RUNS[number]
    figures = {
        FigureKey(benchmark="all_reduce float32 sum", point=size): SideFigure(
            unit="s", runs=(tuple(((seconds,),) for seconds in run[size]),), allowed=ALLOWED, order=order
        )
        for order, size in enumerate(_SIZES)
    }
    return Side(name=str(number), kind="run", machine={"nodes": "2"}, figures=figures)


SERIES = json.loads((Path(__file__).parent / "shaped_samples.json").read_text(encoding="utf-8"))


def sampled_run(run: Mapping[str, Any]) -> Side:
    """A recorded run with every sample, in microseconds: three launches of five blocks of four, two sizes."""
    figures = {
        FigureKey(benchmark="all_reduce float32 sum", point=size): SideFigure(
            unit="s", runs=(tuple(map(_blocks, launches)),), allowed=ALLOWED, order=order
        )
        for order, (size, launches) in enumerate(run["microseconds"].items())
    }
    return Side(name="run", kind="run", machine={"nodes": "2"}, figures=figures)


def _blocks(microseconds: Sequence[int]) -> Launch:
    return blocks_of([sample / 1e6 for sample in microseconds])
