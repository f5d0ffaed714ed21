"""The site: ``make site``, by Sphinx with MyST. Pages that are made from the code are written to ``_made`` first."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from raybench.cli import COMMANDS, group  # noqa: E402
from raybench.cli.usage.command import whole_help  # noqa: E402
from raybench.version import __version__  # noqa: E402

project = "raybench"
release = __version__
copyright = "the raybench authors"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing",
    "misc.highlighting_failure",
]  # links into the checkout; output that is no code
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"raybench {release}"
html_show_sphinx = False
html_copy_source = False
man_pages: list[tuple[str, str, str, list[str], int]] = [
    ("_made/commands", "raybench", "is a GPU cluster healthy, and does training get its network", [], 1)
]


def write_made_pages() -> None:
    """The commands as their help has them, and the changelog."""
    made = HERE / "_made"
    made.mkdir(exist_ok=True)
    parts = ["# Commands\n"]
    context = click.Context(group, info_name="raybench", max_content_width=100, terminal_width=100)
    for name in COMMANDS:
        if (command := group.get_command(context, name)) is not None:
            parts += _pages_of(command, context, name)
    (made / "commands.md").write_text("\n".join(parts), encoding="utf-8")
    changes = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8").replace("(docs/", "(../")
    (made / "changelog.md").write_text(changes, encoding="utf-8")


def _pages_of(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=above, max_content_width=100, terminal_width=100)
    yield f"## {context.command_path.removeprefix('raybench ')}\n\n```text\n{whole_help(command, context)}\n```\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            if (found := command.get_command(context, inner)) is not None:
                yield from _pages_of(found, context, inner)


write_made_pages()
