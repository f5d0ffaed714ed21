"""Every call of raybench in the README and below docs/ is one that its parser takes: options, values and all."""

from pathlib import Path

import click
import pytest

from raybench.cli import group
from tests.site.command_lines import CommandLine, command_lines, inline_calls

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_made" not in path.parts),
]
LINES = [one for path in DOCUMENTS for one in command_lines(path, ROOT)]
INLINE = [
    one
    for path in DOCUMENTS
    for one in inline_calls(path, ROOT)
    if not one.words[0].isupper() and one.words[1:2] != ("NAME",)
]
_UNKNOWN = ("No such", "no command", "unexpected extra")  # what is missing in a sentence, its reader adds
_NOT_HERE = "does not exist"  # files of the reader


def refusal(words: tuple[str, ...]) -> str:
    """What the parser says against these words; empty where it takes them. Nothing is run."""
    command: click.Command = group
    context = click.Context(group, info_name="raybench")
    rest = list(words)
    while isinstance(command, click.Group):
        if not rest or rest[0].startswith("-"):
            return ""
        found = command.get_command(context, rest[0])
        if found is None:
            return f"no command {rest[0]}"
        command, rest = found, rest[1:]
    try:
        with command.make_context(command.name, rest, parent=context):
            return ""
    except click.exceptions.Exit:
        return ""  # --help and --version
    except click.UsageError as error:
        return "" if _NOT_HERE in error.format_message() else error.format_message()


@pytest.mark.parametrize("one", LINES, ids=lambda one: f"{one.document}:{one.line}")
def test_the_parser_takes_what_a_document_shows(one: CommandLine) -> None:
    assert refusal(one.words) == ""


@pytest.mark.parametrize("one", INLINE, ids=lambda one: f"{one.document}:{one.line}:{'-'.join(one.words[:2])}")
def test_what_a_sentence_names_exists(one: CommandLine) -> None:
    assert not any(word in refusal(one.words) for word in _UNKNOWN), refusal(one.words)


def test_many_calls_were_found_and_wrong_ones_would_be() -> None:
    assert len(LINES) > 100
    assert len(INLINE) > 50
    assert any(word in refusal(("nodes", "wach")) for word in _UNKNOWN)
    assert any(word in refusal(("train", "--profil-folder", "x")) for word in _UNKNOWN)
    assert "no command" in refusal(("mesure",))
    assert "--node" in refusal(("run", "--node-count", "2"))
    assert "Missing argument" in refusal(("plan", "--nodes", "2"))
    assert "not a valid" in refusal(("run", "--nodes", "two"))
    assert refusal(("diagnose", "a file of the reader")) == ""


def test_calls_are_read_as_a_shell_would(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nraybench run --nodes 2   # two nodes\n"
        "raybench run \\\n  --suite all_reduce | tee log && raybench show RUN; echo $?\n"
        "```\n```text\nraybench no command\n```\n```console\n$ raybench diagnose 'a log'\nraybench says this\n```\n"
    )
    assert [(one.line, one.words) for one in command_lines(page, tmp_path)] == [
        (2, ("run", "--nodes", "2")),
        (3, ("run", "--suite", "all_reduce")),
        (3, ("show", "RUN")),
        (10, ("diagnose", "a log")),
    ]
