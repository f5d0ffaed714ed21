"""What can be drawn of several sides over each other: losses, step times, and bandwidth over message size. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from raybench.comparison.side import FigureKey, Side, SideFigure
from raybench.documents.comparison.overlay import Curve, Panel
from raybench.errors import RaybenchError
from raybench.units import parse_bytes


def panels_of(sides: Sequence[Side]) -> tuple[Panel, ...]:
    """The panels that have a curve. Bandwidth is message size over time (algbw), which every kind of result has."""
    found = (
        Panel(title="loss", x_label="step", y_label="loss", curves=tuple(_losses(sides))),
        Panel(title="step time", x_label="timed step", y_label="step time (ms)", curves=tuple(_steps(sides))),
        Panel(
            title="bandwidth",
            x_label="message size (bytes)",
            y_label="algbw (GB/s)",
            curves=tuple(_bandwidths(sides)),
            sizes=True,
        ),
    )
    emulated = {number for number, side in enumerate(sides) if ("emulated", "True") in side.machine.items()}
    return tuple(
        replace(panel, emulated=any(curve.side in emulated for curve in panel.curves))
        for panel in found
        if panel.curves
    )


def _losses(sides: Sequence[Side]) -> Iterator[Curve]:
    for number, side in enumerate(sides):
        for name, losses in side.losses.items():
            known = [(float(step), loss) for step, loss in enumerate(losses, 1) if math.isfinite(loss)]
            if len(known) > 1:
                yield _curve(number, side, name, known)


def _steps(sides: Sequence[Side]) -> Iterator[Curve]:
    """Steps of the first run, launch after launch."""
    for number, side in enumerate(sides):
        for key, figure in side.figures.items():
            if key.quantity == "step" and figure.runs and not figure.problem:
                seconds = [one for launch in figure.runs[0] for block in launch for one in block]
                if len(seconds) > 1:
                    yield _curve(number, side, key.point, [(float(n), 1e3 * one) for n, one in enumerate(seconds, 1)])


def _bandwidths(sides: Sequence[Side]) -> Iterator[Curve]:
    for number, side in enumerate(sides):
        benchmarks: dict[str, list[tuple[float, float]]] = {}
        for key, figure in side.figures.items():
            size = _size_of(key, figure)
            if size is not None:
                benchmarks.setdefault(key.benchmark, []).append((size, size / figure.value / 1e9))
        for name, points in benchmarks.items():
            if len(points) > 1:
                yield _curve(number, side, name, sorted(points))


def _size_of(key: FigureKey, figure: SideFigure) -> float | None:
    """The message size of a figure that is the time of an operation; None of any other, and of pairs of ranks."""
    if key.quantity != "time" or figure.unit != "s" or figure.problem:
        return None
    try:
        return float(parse_bytes(key.point)) or None
    except RaybenchError:
        return None


def _curve(number: int, side: Side, name: str, points: Sequence[tuple[float, float]]) -> Curve:
    places, values = zip(*points, strict=True)
    return Curve(side=number, label=side.name, name=name, places=places, values=values)
