"""The lines of ``raybench`` that a document shows, as a shell would hand them over."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

_FENCE = re.compile(r"^( *)```(\w+)?[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`(raybench\s[^`]+)`(?!`)")
_SHELL = {"sh", "bash", "console"}
_PROMPT = "$ "
_ENDS = {"|", ">", ">>", "&&", ";", "2>", "||", "&", ")"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """``words`` are the arguments of raybench; ``line`` is the line of the document, from 1."""

    document: str
    line: int
    words: tuple[str, ...]


def command_lines(path: Path, root: Path) -> Iterator[CommandLine]:
    """Every call of raybench in the shell blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for block in _FENCE.finditer(text):
        if block[2] not in _SHELL:
            continue
        first = text.count("\n", 0, block.start(3)) + 1
        for offset, line in _logical(block[3], prompted=block[2] == "console"):
            for words in _calls(line):
                yield CommandLine(document=str(path.relative_to(root)), line=first + offset, words=words)


def inline_calls(path: Path, root: Path) -> Iterator[CommandLine]:
    """Every call of raybench in the running text of a document, once; ``...`` and what follows is left out."""
    text = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), path.read_text(encoding="utf-8"))
    named = {}
    for span in _INLINE.finditer(text):
        for words in _calls(" ".join(span[1].split())):
            told = tuple(takewhile(lambda word: "..." not in word and "OPTIONS" not in word, words))
            named.setdefault(told, text.count("\n", 0, span.start()) + 1)
    for words, line in named.items():
        yield CommandLine(document=str(path.relative_to(root)), line=line, words=words)


def _logical(block: str, *, prompted: bool) -> Iterator[tuple[int, str]]:
    """Lines with those that a backslash continues; of a console those behind a prompt."""
    whole, begun = "", 0
    for number, line in enumerate(block.split("\n")):
        if not whole:
            if prompted and not line.strip().startswith(_PROMPT):
                continue
            begun = number
        whole += line.strip().removeprefix(_PROMPT) if not whole else " " + line.strip()
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        yield begun, whole
        whole = ""


def _calls(line: str) -> Iterator[tuple[str, ...]]:
    words = _words(line)
    while "raybench" in words:
        words = words[words.index("raybench") + 1 :]
        end = next((place for place, word in enumerate(words) if word in _ENDS), len(words))
        if end:
            yield tuple(words[:end])


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return []  # prose, with an apostrophe
