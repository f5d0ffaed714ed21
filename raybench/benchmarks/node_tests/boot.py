"""The program of every process of the tests: their source comes on its standard input, none is read from this host.

It is run as text (``python -c``). One line of JSON: ``source`` (texts by the modules' names), ``module``, whose
``main`` is called, and its ``arguments``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from typing import Any


class Source(MetaPathFinder, InspectLoader):
    """Finds our modules, whose texts are given, before all others."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """The place of a module of ours, None for any other."""
        return spec_from_loader(name, self) if name in self.texts else None

    def is_package(self, fullname: str) -> bool:
        """Whether modules of ours are below it."""
        return any(one.startswith(fullname + ".") for one in self.texts)

    def get_source(self, fullname: str) -> str:
        """The text of a module, which Python then imports as one from a file."""
        return self.texts[fullname]


if __name__ == "__main__":
    given = json.loads(sys.stdin.readline())
    if given["source"]:
        sys.meta_path.insert(0, Source(given["source"]))
    import_module(given["module"]).main(*given["arguments"])
