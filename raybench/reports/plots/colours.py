"""The colours of a page's light style in figures that leave it: plots are drawn in placeholders (``svg.py``)."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from raybench.reports.plots.svg import VARIABLES

_STYLE = Path(__file__).parents[1] / "templates" / "style.css.j2"
_COLOURED = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def with_colours(figure: Any) -> Any:
    """The same figure on white, in the page's light colours, for slides and notebooks."""
    figure.set_facecolor("white")
    for artist in figure.findobj():
        for name in _COLOURED:
            read, write = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
            if read is not None and write is not None:
                _recolour(read(), write)
    return figure


def _recolour(found: Any, write: Any) -> None:
    """Set what was found anew where a placeholder is in it: a colour, or a colour for each of many."""
    from matplotlib.colors import to_hex, to_rgba_array

    if isinstance(found, str) and found in {"none", "auto"}:
        return
    rows = to_rgba_array(found)
    names = [to_hex(row) for row in rows]
    if placed := [number for number, name in enumerate(names) if name in _light()]:
        for number in placed:
            rows[number, :3] = to_rgba_array(_light()[names[number]])[0, :3]
        write(rows if len(rows) > 1 else tuple(rows[0]))


@cache
def _light() -> Mapping[str, str]:
    """The colour behind each placeholder, from the style sheet's first block."""
    sheet = dict(reversed(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", _STYLE.read_text(encoding="utf-8"))))
    names = {colour: variable.removeprefix("var(--").removesuffix(")") for colour, variable in VARIABLES.items()}
    return {colour: sheet["ink" if name == "currentColor" else name] for colour, name in names.items()}
