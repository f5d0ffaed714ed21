"""The site: ``make site``, by Sphinx with MyST. Pages that are made from the code are written to ``_made`` first."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from help_in_markdown import help_in_markdown  # noqa: E402

from raybench.cli import COMMANDS, group  # noqa: E402
from raybench.cli.usage.command import whole_help  # noqa: E402
from raybench.version import __version__  # noqa: E402

project = "raybench"
release = __version__
copyright = "the raybench authors"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing",
    "misc.highlighting_failure",
]  # links into the checkout; output that is no code
exclude_patterns = ["_build"]
smartquotes = False  # an option begins with two dashes, and quotes of a shell are straight
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["width.css"]
html_title = f"raybench {release}"
html_show_sphinx = False
html_copy_source = False
html_use_index = False  # nothing is put into it
man_pages: list[tuple[str, str, str, list[str], int]] = [
    ("_made/commands", "raybench", "is a GPU cluster healthy, and does training get its network", [], 1)
]


_HEAD = """# Options of every command

What `raybench COMMAND --help-all` prints. What a command is for and leaves behind, with its usual calls:
[the commands, one by one](../usage.md).
"""


def write_made_pages() -> None:
    """Every option as the help has it, and the changelog."""
    made = HERE / "_made"
    made.mkdir(exist_ok=True)
    parts = [_HEAD]
    context = click.Context(group, info_name="raybench", max_content_width=100, terminal_width=100)
    for name in COMMANDS:
        if (command := group.get_command(context, name)) is not None:
            parts += _pages_of(command, context, name)
    (made / "commands.md").write_text("\n".join(parts), encoding="utf-8")
    changes = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8").replace("(docs/", "(../")
    (made / "changelog.md").write_text(changes, encoding="utf-8")


def _pages_of(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=above, max_content_width=100, terminal_width=100)
    name = context.command_path.removeprefix("raybench ")
    yield f"{'#' * (name.count(' ') + 2)} {name}\n\n{help_in_markdown(whole_help(command, context))}"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            if (found := command.get_command(context, inner)) is not None:
                yield from _pages_of(found, context, inner)


_LINK = re.compile(r"\[([^]]+)\]\([^)]*\.md[^)]*\)")
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_BOX = re.compile(r'(\w+)(?:\["(.*?)"\])?')
_ARROW = re.compile(r" (?:-->|-- (?P<solid>[\w ]+) -->|-\. (?P<dotted>[\w ]+) \.->) ")


def arrows_in_words(page: str) -> str:
    """The page with its flowcharts, which a browser draws by a script from elsewhere only, as lists of arrows."""
    return _MERMAID.sub(lambda block: "\n".join(f"- {line}" for line in _arrows(block[1])), page)


def _arrows(chart: str) -> Iterator[str]:
    """One line for each chain; arrows of one box to several stand in one."""
    labels = {box[1]: _label(box[2]) for box in _BOX.finditer(chart) if box[2]}
    lines: dict[str, list[str]] = {}
    for line in chart.split("\n"):
        said = [one["solid"] or one["dotted"] for one in _ARROW.finditer(line)]
        arrows = [f" —{word}→ " if word else " → " for word in said]
        names = [labels.get(box[1], box[1]) for part in _ARROW.split(line)[::3] if (box := _BOX.search(part))]
        if arrows:
            rest = "".join(arrow + name for arrow, name in zip(arrows[1:], names[2:], strict=True))
            lines.setdefault(f"{names[0]}{arrows[0]}", []).append(names[1] + rest)
    yield from (first + ", ".join(others) for first, others in lines.items())


def _label(text: str) -> str:
    """What is bold in a box, else its first line."""
    return ", ".join(re.findall(r"<b>(.*?)</b>", text)) or text.partition("<br/>")[0]


def _read(app: Any, _name: str, source: list[str]) -> None:
    source[0] = arrows_in_words(source[0])
    if app.builder.name == "man":  # which has nowhere to go to
        source[0] = _LINK.sub(r"\1", source[0])


def setup(app: Any) -> None:
    """Sphinx asks a configuration for it."""
    app.connect("source-read", _read)


write_made_pages()
