"""Colours of the reports hold WCAG 2.2 AA in light and dark: 4.5:1 for text (1.4.3), 3:1 for graphics (1.4.11)."""

import re
from pathlib import Path

import pytest

import raybench.reports

TEMPLATES = Path(raybench.reports.__file__).parent / "templates"
STYLE = (TEMPLATES / "style.css.j2").read_text()
TEXTS = ("ink", "soft", "bad", "warn", "good", "unknown", "link")
BACKGROUNDS = ("page", "band", "bad-band", "warn-band")


def themes() -> dict[str, dict[str, str]]:
    """The variables of each colour scheme; the dark ones on top of the light ones, as the browser reads them."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{3,6})", block)) for block in blocks)
    return {"light": light, "dark": light | dark}


def luminance(colour: str) -> float:
    """Relative luminance of ``#rgb`` or ``#rrggbb`` (WCAG 2.2, definitions)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_formula() -> None:
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(theme: str) -> None:
    colours = themes()[theme]
    found = {(text, back): contrast(colours[text], colours[back]) for text in TEXTS for back in BACKGROUNDS}
    assert {pair: round(ratio, 2) for pair, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_of_plots_can_be_seen(theme: str) -> None:
    colours = themes()[theme]
    found = {index: contrast(colours[f"series-{index}"], colours["page"]) for index in range(10)}
    assert {index: round(ratio, 2) for index, ratio in found.items() if ratio < 3} == {}


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("*.html.j2")))
def test_no_page_has_colours_of_its_own(name: str) -> None:
    """A colour that is no variable stays what it is in the dark."""
    assert re.findall(r"#[0-9a-fA-F]{3,6}\b(?=[;\s}])|\b(?:opacity|rgb|hsl)\b", (TEMPLATES / name).read_text()) == []
    rules = STYLE[STYLE.index("* { box-sizing") :]
    assert re.findall(r"#[0-9a-fA-F]{3,6}\b(?=[;\s}])|\bopacity\b", rules) == []


def test_the_verdict_is_a_word_and_never_colour_alone() -> None:
    for verdict in ("ok", "warning", "critical", "incomplete"):
        assert f".status.{verdict}" in STYLE
    assert "{{ report.verdict }}</span>" in (TEMPLATES / "report.html.j2").read_text()
