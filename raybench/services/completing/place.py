"""Folders of results below this folder, and hosts of an inventory, read in a moment and without Ansible."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from raybench.errors import UsageError
from raybench.host_ranges import expanded

_MOST_FOLDERS = 200  # of a folder of runs: the newest
_MOST_BYTES = 4 << 20  # of an inventory: some 20,000 hosts
_DOCUMENTS = ("result.json", "study.json", "preflight.json", "fabric.json", "collection.json", "selftest.json")
_MOST_NAMES = 50_000  # aliases of YAML make any number of few bytes
_LINE = re.compile(r"[A-Za-z0-9_.][^\s#;\[]*(?:\[[^\]\s]+\][^\s#;]*)?")
_GROUP = re.compile(r"\[([^\]:]+)(?::(\w+))?\]")
_DEEPEST = 20


def result_folders(begun: str) -> Iterator[str]:
    """Folders that hold a result, where ``begun`` is typed: below it, or below ``runs`` and ``studies``."""
    for parent in {os.path.dirname(begun): None} if "/" in begun else {"runs": None, "studies": None, "": None}:  # noqa: PTH120
        with contextlib.suppress(OSError), os.scandir(parent or ".") as entries:
            folders = [one for one in entries if one.is_dir(follow_symlinks=False)]
            newest = sorted(folders, key=lambda one: one.name, reverse=True)[:_MOST_FOLDERS]
            for one in newest:
                if any(Path(one.path, name).is_file() for name in _DOCUMENTS):
                    yield f"{parent}/{one.name}".removeprefix("/" if not parent else "")


def inventory_names(sources: Sequence[str]) -> Iterator[str]:
    """Groups and hosts of inventories: YAML and INI files, and lists with commas. What cannot be read has none."""
    for source in sources:
        if "," in source:
            yield from (name.strip() for name in source.split(",") if name.strip())
            continue
        with contextlib.suppress(OSError, ValueError):
            path = Path(source)
            if path.is_file() and path.stat().st_size <= _MOST_BYTES and not os.access(path, os.X_OK):
                yield from islice(_names_of(path.read_text(encoding="utf-8")), _MOST_NAMES)


def _names_of(text: str) -> Iterator[str]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        content = None
    if isinstance(content, dict):
        for name, group in content.items():
            yield from _of_group(str(name), group, 0)
    else:
        yield from _of_lines(text)


def _of_group(name: str, group: Any, depth: int) -> Iterator[str]:
    yield name
    if not isinstance(group, dict) or depth > _DEEPEST:
        return
    hosts, children = group.get("hosts"), group.get("children")
    for host in hosts if isinstance(hosts, dict) else ():
        yield from _ranges(str(host))
    for child, inner in children.items() if isinstance(children, dict) else ():
        yield from _of_group(str(child), inner, depth + 1)


def _of_lines(text: str) -> Iterator[str]:
    """INI: ``[group]`` and ``host key=value``, but not the lines of ``[group:vars]``."""
    kind = ""
    for line in text.split("\n"):
        if found := _GROUP.match(line.strip()):
            kind = found[2] or ""
            yield found[1]
        elif kind != "vars" and (host := _LINE.match(line.strip())):
            yield from _ranges(host[0])


def _ranges(name: str) -> Iterator[str]:
    """``gpu-[01:10]``, as Ansible writes a range."""
    try:
        yield from expanded(name)
    except (UsageError, ValueError):
        yield name
