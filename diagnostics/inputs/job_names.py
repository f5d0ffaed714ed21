"""What the jobs of one call are called: by what tells their files apart."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePath

from diagnostics.inputs.part import Part


def names_of(groups: Sequence[Sequence[Part]]) -> list[str]:
    """What tells each group's files from those of the others, and a number where nothing does."""
    folders = [_folder_of(group) for group in groups]
    paths = [
        folder if folders.count(folder) == 1 else PurePath(group[0].file.name).parts
        for folder, group in zip(folders, groups, strict=True)
    ]
    head = _alike([path[:-1] for path in paths])
    tail = _alike([path[:head:-1] for path in paths])
    short = ["/".join(path[head : len(path) - tail]) for path in paths]
    names = [_with_line(name or "job", group) for name, group in zip(short, groups, strict=True)]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _folder_of(group: Sequence[Part]) -> tuple[str, ...]:
    """The folder that all files of a group lie in."""
    paths = [PurePath(part.file.name).parts[:-1] for part in group]
    return paths[0][: _alike(paths)]


def _alike(paths: Sequence[Sequence[str]]) -> int:
    """How many parts the paths begin with that all of them share."""
    return len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))))


def _with_line(name: str, group: Sequence[Part]) -> str:
    first = group[0]
    return f"{name} from line {first.first_line}" if first.start or first.end is not None else name
