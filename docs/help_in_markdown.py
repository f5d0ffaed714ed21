"""The help of a command as a page: lines of 79 columns would have to be moved sideways on a phone. Pure."""

import re
from collections.abc import Iterator, Sequence

_HEAD = re.compile(r"[A-Z][\w ]*:")
_ROW = re.compile(r" {2}(?P<term>\S.*?)(?: {2,}(?P<text>\S.*))?")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def help_in_markdown(text: str) -> str:
    """The usage and the examples as blocks of a shell, options as a list of definitions, all else as paragraphs."""
    return "\n\n".join(part for lines in _parts(text) for part in _part(lines)) + "\n"


def _parts(text: str) -> Iterator[list[str]]:
    """Lines between empty lines."""
    for part in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        yield part.split("\n")


def _part(lines: Sequence[str]) -> Iterator[str]:
    if lines[0].startswith("Usage: "):
        yield _shell([" ".join(line.strip() for line in lines).removeprefix("Usage: ")])
    elif not _HEAD.fullmatch(lines[0]) or len(lines) == 1:
        yield _escaped(" ".join(line.strip() for line in lines))
    else:
        yield f"**{lines[0].removesuffix(':')}**"
        if lines[0] == "Examples:":
            yield _shell([line.removeprefix("  ") for line in lines[1:]])
        else:
            yield from _definitions(lines[1:])


def _shell(lines: Sequence[str]) -> str:
    return "\n".join(["```sh", *lines, "```"])


def _definitions(lines: Sequence[str]) -> Iterator[str]:
    """A row begins two columns from the edge; lines further in go on with its text."""
    rows: list[tuple[str, list[str]]] = []
    for line in lines:
        row = _ROW.fullmatch(line)
        if row:
            rows.append((row["term"], [row["text"]] if row["text"] else []))
        elif rows:
            rows[-1][1].append(line.strip())
    for term, text in rows:
        yield f"`{term}`\n: {_escaped(' '.join(text)) or '-'}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
