"""Results that exist beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.documents.comparison.comparison import Comparison
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.comparison.side import Side

PLOTTED = (".svg", ".png", ".pdf")


def compare_results(
    paths: Sequence[Path], *, gate: str | None = None, allow_unlike: bool = False, plot: Path | None = None
) -> Comparison:
    """The first of ``paths`` beside each of the others; ``gate`` as typed: ``5%``. Their curves go to ``plot``.

    Raises UsageError for what cannot be read, is of different kinds, or of unlike machines unless they are allowed;
    and where there is nothing to plot, or the file cannot be written.
    """
    from raybench.comparison.comparing import compare
    from raybench.services.comparing.sides import side_of

    share = None if gate is None else parse_gate(gate)
    if plot is not None:
        check_plot(plot)
    sides = [side_of(path) for path in paths]
    found = compare(sides, gate=share, allow_unlike=allow_unlike)
    if plot is not None:
        write_plot(sides, plot)
    return found


def check_plot(path: Path) -> None:
    """Raises UsageError for a file of another kind than SVG, PNG and PDF, and without matplotlib."""
    from raybench.reports.builders.asked import has_matplotlib, how_to_install

    if path.suffix.lower() not in PLOTTED:
        raise UsageError(f"--plot {path}: name a file that ends in {', '.join(PLOTTED)}")
    if not has_matplotlib():
        raise UsageError(f"--plot needs matplotlib, which is not installed: {how_to_install()}")


def write_plot(sides: "Sequence[Side]", path: Path) -> None:
    """The curves of all sides, over each other. Raises UsageError."""
    from raybench.comparison.overlay import panels_of
    from raybench.reports.plots.overlay import save_overlay

    panels = panels_of(sides)
    if not panels:
        raise UsageError(
            "--plot: these results have no losses, step times or bandwidths over message size in common to draw; leave "
            "it out"
        )
    try:
        save_overlay(panels, path)
    except OSError as error:
        raise UsageError(f"--plot {path} cannot be written: {error.strerror or error}") from error


def parse_gate(text: str) -> float:
    """``5%`` or ``0.05`` as a share. Raises UsageError for anything else, and for what is not between 0 and 100 %."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--gate {text} is not a share; write the least regression that counts, such as 5%")
    return share
