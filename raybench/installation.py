"""What to type for libraries that are missing: in a checkout its extra, from a wheel the packages themselves.

``pip install raybench`` is not said: whoever has a wheel may have no index that knows raybench.
"""

import re
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


def packages_of(extra: str) -> tuple[str, ...]:
    """What an extra of the installed raybench asks for, those of extras that it names included."""
    try:
        written = requires("raybench") or ()
    except PackageNotFoundError:
        return ()
    found: list[str] = []
    for text in written:
        requirement, _, marker = text.partition(";")
        named = _EXTRA.search(marker)
        if named is None or named[1] != extra:
            continue
        nested = re.fullmatch(r"raybench\[([\w, -]+)\]", requirement.strip())
        inner = [part.strip() for part in nested[1].split(",")] if nested else []
        found += [one for name in inner for one in packages_of(name)] if nested else [requirement.strip()]
    return tuple(dict.fromkeys(found))
