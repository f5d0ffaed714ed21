"""``python -m tests.site.pictures``: the pictures of the documentation, made again from stored results.

A terminal's output is drawn as SVG by rich: text that can be searched, and the same on every machine. The HTML report
is taken by a headless Chromium, where one is installed. What the guide explains has its number beside it.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
RESULT = ROOT / "tests/documents/samples/collective-26f0ebe.json"
TRAINING = ROOT / "tests/documents/samples/training-a0b1ea6.json"
_WIDTH = 100
# What docs/guide/reading-a-report.md explains by its number: how its line begins, and what stands in the page.
LINES = ("# VERDICT", "# raybench run", "# !! EMULATED", "  all_reduce", "# ~", "# report")
PLACES = ('class="verdict">', ">EMULATED: 2", ">Training (", ">What limits", ">Phases of", ">Communication")
_COLOUR = "#b45309"
_FONT = 'fill="#fff" font-family="arial" font-size="15" font-weight="bold"'
_PAGE = (1240, 1390)  # pixels
_COLOURS = 128


def terminal() -> str:
    """The short form of a stored run."""
    command = [sys.executable, "-m", "raybench", "show", "runs/monday"]
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "runs/monday"
        run.mkdir(parents=True)
        shutil.copy(RESULT, run / "result.json")
        (run / "report.html").touch()
        done = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False, env=_environment())
    console = Console(record=True, file=io.StringIO(), width=_WIDTH)
    console.print(Text("$ raybench show runs/monday\n" + done.stdout.rstrip() + "\n "))  # viewers may cut the last
    fonts_here = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # none from other sites
    return console.export_svg(title="raybench", unique_id="terminal", code_format=fonts_here) + "\n"


def numbered(picture: str) -> str:
    """The terminal with the number of each of ``LINES`` behind its first. Raises ValueError where one is missing."""
    marks = []
    for number, begin in enumerate(LINES, 1):
        typed = begin.replace(" ", "&#160;")
        found = re.search(rf'x="0" y="([\d.]+)" textLength="([\d.]+)"[^>]*>{typed}', picture)
        if found is None:
            raise ValueError(f"no line of the terminal begins with {begin!r}")
        x, y = float(found[2]) + 24, float(found[1]) - 6
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" fill="{_COLOUR}"/>')
        marks.append(f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle" {_FONT}>{number}</text>')
    before, group, after = picture.partition('<g class="terminal-matrix">')
    return f"{before}{''.join(marks)}{group}{after}"


def numbered_report() -> str:
    """The page of a stored training with the number of each of ``PLACES``. Raises ValueError where one is missing."""
    command = [sys.executable, "-m", "raybench", "show", str(TRAINING), "--format", "html"]
    page = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=_environment()).stdout
    style = f"background:{_COLOUR};color:#fff;border-radius:50%;display:inline-block;width:1.6em;line-height:1.6em"
    for number, place in enumerate(PLACES, 1):
        before, found, after = page.partition(place)
        if not found:
            raise ValueError(f"the report has no {place!r}")
        mark = f'<b style="{style};text-align:center;margin-right:.5em">{number}</b>'
        page = before + place.replace(">", f">{mark}", 1) + after
    return page


def photographed(page: str, target: Path, browser: str) -> None:
    """The beginning of a page as PNG of few colours."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "page.html"
        file.write_text(page, encoding="utf-8")
        quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
        view = ("--hide-scrollbars", f"--window-size={_PAGE[0]},{_PAGE[1]}", f"--screenshot={target}")
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            *quiet,
            f"--user-data-dir={name}/user",
            *view,
        ]
        subprocess.run([*command, file.as_uri()], capture_output=True, check=True)
    Image.open(target).convert("RGB").quantize(_COLOURS).save(target, optimize=True)


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": str(_WIDTH), "PYTHONPATH": str(ROOT)}


def main() -> None:
    """Write them."""
    PICTURES.mkdir(exist_ok=True)
    picture = terminal()
    (PICTURES / "terminal.svg").write_text(picture, encoding="utf-8")
    (PICTURES / "terminal-numbered.svg").write_text(numbered(picture), encoding="utf-8")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("pictures: no Chromium here; report.png stays as it is")
        return
    photographed(numbered_report(), PICTURES / "report.png", browser)


if __name__ == "__main__":
    main()
