"""Plots of a memory benchmark: what training holds by batch, measured beside estimated, and the limit."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.documents.run.memory import EstimatedUse, MemoryPoint, Use
from raybench.reports.plots.figure import legend, new_figure
from raybench.reports.plots.svg import PAGE, SERIES, TEXT, WRONG, Plot, render
from raybench.reports.text import printable

MOST_BATCHES = 10
_PARTS = ("parameters", "gradients", "optimizer_state", "activations")
_HATCHES = ("", "//", "\\\\", "..", "")
_LIMIT_ROOM = 3.0  # a limit beyond so many times the highest bar would flatten all bars


def memory_plots(points: Sequence[MemoryPoint], *, emulated: bool) -> Iterator[Plot]:
    """One plot a model and strategy that has any figure."""
    for number, point in enumerate(one for one in points if one.failed is None):
        if any(use.peak or use.estimate for use in point.uses):
            yield _stack(point, f"memory-{number}", emulated=emulated)


def _stack(point: MemoryPoint, name: str, *, emulated: bool) -> Plot:
    uses = sorted(point.uses, key=lambda use: use.batch_size)
    shown = uses[-MOST_BATCHES:]
    unit, scale = _unit(max(max(use.peak, use.estimated_bytes or 0) for use in shown))
    figure, axes = new_figure(x_label="batch a rank", y_label=f"memory of a rank ({unit})", emulated=emulated)
    highest = max(_bars(axes, shown, scale))
    _limit(axes, point, highest, scale)
    axes.set_xticks(range(len(shown)), [str(use.batch_size) for use in shown])
    axes.minorticks_off()
    axes.grid(visible=False, axis="x")
    legend(figure)
    caption = "Peak of a rank by what holds it."
    caption += " Left: measured; right and hollow: estimate." if any(use.estimate for use in shown) else ""
    caption += " A cross: did not fit." if not all(use.fits for use in shown) else ""
    caption += f" Smaller batches are in the table: {len(uses) - len(shown)}." if len(uses) > len(shown) else ""
    return render(
        figure,
        name=name,
        title=f"Memory by batch, {printable(point.label)}",
        description=_told(shown, unit, scale),
        caption=caption,
    )


def _bars(axes: Any, uses: Sequence[Use], scale: float) -> Iterator[float]:
    """Measured and estimated bars; yields the height of each."""
    paired = any(use.estimate for use in uses)
    width = 0.4 if paired else 0.6
    measured = [_measured(use) if use.peak else {} for use in uses]
    estimated = [_estimated(use.estimated) if use.estimate else {} for use in uses]
    for side, parts, hollow in ((-1, measured, False), (1, estimated, True)):
        places = [index + (side * width / 2 if paired else 0) for index in range(len(uses))]
        bottoms = [0.0] * len(uses)
        for number, part in enumerate((*_PARTS, "other")):
            heights = [one.get(part, 0) / scale for one in parts]
            if any(heights):
                label = None if hollow else part.replace("_", " ")
                axes.bar(places, heights, width * 0.94, bottom=bottoms, label=label, **_look(number, hollow=hollow))
                bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
        yield max(bottoms, default=0.0)
        if not paired:
            break
    for index, use in enumerate(uses):
        if not use.fits:
            axes.plot([index], [0], marker="x", markersize=10, mew=2.4, color=WRONG, clip_on=False, linestyle="none")


def _look(number: int, *, hollow: bool) -> dict[str, Any]:
    colour = SERIES[number] if number < len(_PARTS) else SERIES[6]
    if hollow:
        return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.4}
    return {"facecolor": colour, "edgecolor": PAGE, "hatch": _HATCHES[number], "linewidth": 0.6}


def _measured(use: Use) -> dict[str, int]:
    known = {name: getattr(use, name) for name in _PARTS}
    return known | {"other": max(use.peak - sum(known.values()), 0)}


def _estimated(estimate: EstimatedUse) -> dict[str, int]:
    """The estimate's parts up to what it expects to be allocated, as the peak that is measured beside it."""
    known = {name: getattr(estimate, name) for name in _PARTS}
    known["activations"] += estimate.logits
    return known | {"other": max((estimate.allocated or 0) - sum(known.values()), 0)}


def _limit(axes: Any, point: MemoryPoint, highest: float, scale: float) -> None:
    limit = point.limit_bytes / scale
    own_unit, own_scale = _unit(point.limit_bytes)
    text = f"limit {point.limit_bytes / own_scale:.4g} {own_unit}"
    if highest and limit > _LIMIT_ROOM * highest:
        axes.set_ylim(0, 1.25 * highest)
        axes.plot([], [], "--", color=TEXT, linewidth=1.2, label=f"{text}: {limit / highest:,.0f} x the highest bar")
        return
    axes.axhline(limit, color=TEXT, linestyle="--", linewidth=1.2, label=text)
    axes.set_ylim(0, 1.12 * max(limit, highest))


def _told(uses: Sequence[Use], unit: str, scale: float) -> str:
    peaks = (
        f"batch {use.batch_size}: {f'{use.peak / scale:.4g} {unit}' if use.peak else 'no figure'}"
        + ("" if use.fits else ", does not fit")
        for use in uses
    )
    return "; ".join(peaks)


def _unit(most_bytes: int) -> tuple[str, float]:
    return ("GiB", 2.0**30) if most_bytes >= 2**30 else ("MiB", 2.0**20)
