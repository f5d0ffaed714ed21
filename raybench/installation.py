"""What to type for libraries that are missing: in a checkout its extra, from a wheel the packages themselves.

``pip install raybench`` is not said: whoever has a wheel may have no index that knows raybench.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

RAY_TESTED = "2.60.0"  # that of constraints.txt, which a wheel does not carry

_ROOT = Path(__file__).resolve().parents[1]
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


def install_advice(extra: str, root: Path = _ROOT) -> str:
    """``pip install '.[run]'`` and where, or ``pip install 'ray>=2.55' ...`` of the installed wheel's own metadata."""
    if (root / "pyproject.toml").is_file():
        return f"pip install '.[{extra}]' in {root}"
    packages = packages_of(extra)
    return (
        f"pip install {' '.join(map(repr, packages))}" if packages else f"install what raybench's extra '{extra}' names"
    )


def packages_of(extra: str, root: Path = _ROOT) -> tuple[str, ...]:
    """What an extra of raybench asks for, those of extras that it names included.

    A checkout in PYTHONPATH is not installed: its pyproject.toml says it.
    """
    try:
        asked = [text.partition(";") for text in requires("raybench") or ()]
    except PackageNotFoundError:
        return _packages_of_checkout(extra, root)
    found: list[str] = []
    for requirement, _, marker in asked:
        named = _EXTRA.search(marker)
        if named is not None and named[1] == extra:
            inner = _nested(requirement)
            found += [one for name in inner for one in packages_of(name)] if inner else [requirement.strip()]
    return tuple(dict.fromkeys(found))


def _packages_of_checkout(extra: str, root: Path) -> tuple[str, ...]:
    """The same of pyproject.toml: raybench is in PYTHONPATH, and not installed."""
    project = root / "pyproject.toml"
    if not project.is_file():
        return ()
    lines = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"].get(extra, ())
    found: list[str] = []
    for requirement in (line.partition(";")[0] for line in lines):
        inner = _nested(requirement)
        found += (
            [one for name in inner for one in _packages_of_checkout(name, root)] if inner else [requirement.strip()]
        )
    return tuple(dict.fromkeys(found))


def _nested(requirement: str) -> list[str]:
    """``run`` and ``report`` of ``raybench[run,report]``."""
    found = re.fullmatch(r"raybench\[([\w, -]+)\]", requirement.strip())
    return [part.strip() for part in found[1].split(",")] if found else []
