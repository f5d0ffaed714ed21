"""``python -m tests.site.pictures``: the pictures of the documentation, made again from stored results.

A terminal's output is drawn as SVG by rich: text that can be searched, and the same on every machine.
"""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
RESULT = ROOT / "tests/documents/samples/collective-26f0ebe.json"
_WIDTH = 100


def terminal() -> str:
    """The short form of a stored run."""
    command = [sys.executable, "-m", "raybench", "show", str(RESULT.relative_to(ROOT))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=_environment())
    console = Console(record=True, file=io.StringIO(), width=_WIDTH)
    console.print(Text("$ raybench show runs/monday\n" + done.stdout.rstrip() + "\n "))  # viewers may cut the last
    fonts_here = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # none from other sites
    return console.export_svg(title="raybench", unique_id="terminal", code_format=fonts_here) + "\n"


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": str(_WIDTH), "PYTHONPATH": str(ROOT)}


def main() -> None:
    """Write them."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "terminal.svg").write_text(terminal(), encoding="utf-8")


if __name__ == "__main__":
    main()
