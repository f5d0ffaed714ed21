"""Matplotlib figures as SVG to be put inside a page: its colours, no outside address, the same bytes each time.

Figures are drawn in placeholder colours, which become the page's CSS variables, so that a plot follows its light, dark
and print style.
"""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from typing import Any

TEXT = "#0a0b01"
GRID = "#0a0b02"
PAGE = "#0a0b03"
WRONG = "#0a0b04"
SERIES = tuple(f"#0a0c{index:02x}" for index in range(10))
VARIABLES = {TEXT: "currentColor", GRID: "var(--grid)", PAGE: "var(--page)", WRONG: "var(--bad)"} | {
    colour: f"var(--series-{index})" for index, colour in enumerate(SERIES)
}
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: searchable, a tenth of the size of paths
    "svg.hashsalt": "raybench",
    "text.parse_math": False,  # a node name may hold a dollar
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure: an SVG element, what it shows in words for those who do not see it, and matplotlib's own Figure."""

    name: str
    title: str
    description: str
    caption: str
    svg: str
    figure: Any = field(default=None, repr=False, compare=False)


@contextmanager
def plot_style() -> Iterator[None]:
    """The style for figures drawn inside; matplotlib's own settings are as before afterwards."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # where it caches fonts is of no interest
    import matplotlib as mpl  # 0.4 s that only a report pays

    with warnings.catch_warnings(), mpl.rc_context(_STYLE):
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def render(figure: Any, *, name: str, title: str, description: str, caption: str) -> Plot:
    """The figure as a Plot. ``name`` is unique on the page: every id inside the SVG begins with it."""
    buffer = StringIO()
    with _laid_out(figure):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = _embedded(buffer.getvalue(), name, title, description)
    return Plot(name=name, title=title, description=description, caption=caption, svg=svg, figure=figure)


@contextmanager
def _laid_out(figure: Any) -> Iterator[None]:
    """The figure with everything in its place: savefig would draw all of it once more to have that done."""
    engine = figure.get_layout_engine()
    engine.execute(figure)
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _embedded(document: str, name: str, title: str, description: str) -> str:
    """The <svg> element alone, labelled, with its ids prefixed and placeholder colours replaced."""
    body = document[document.index("<svg") : document.rindex("</svg>")]
    head, _, rest = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = re.sub(r"<!--.*?-->\s*", "", rest, flags=re.DOTALL)
    rest = re.sub(r'(?<= id=")', f"{name}-", rest)
    rest = re.sub(r'xlink:href="#', f'href="#{name}-', rest).replace("url(#", f"url(#{name}-")
    rest = rest.replace("xlink:href=", "href=")
    rest = re.sub(
        r"(?<=fill: |roke: |fill=\"|roke=\")#[0-9a-f]{6}", lambda match: VARIABLES.get(match[0], match[0]), rest
    )
    rest = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", rest)
    rest = re.sub(r"<style.*?</style>", "", rest, flags=re.DOTALL)
    rest = re.sub(r' (?:d|x|y)="[^"]*"', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), rest)
    label = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    opening = f'<svg role="img" aria-labelledby="{name}-title {name}-desc" {box[0] if box else ""}>'
    return re.sub(r"\n\s*", "\n", f"{opening}{label}{rest}</svg>")
