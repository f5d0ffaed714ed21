"""``python3 tests/gpu/install.py``: wheels that came in pieces, checked, joined and installed without internet.

    python3 tests/gpu/install.py --needs              what this Python is and has, for gpu-pack
    python3 tests/gpu/install.py PIECES... --to DIR   keep these pieces in DIR; install when the last has come

Pieces come in any order and in any number of calls. Of the machine's own packages none is touched: what is installed
goes into DIR/site, to be put first in PYTHONPATH. The standard library alone, since it runs before anything is there.
"""

import argparse
import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when all is installed, 3 while pieces are missing, 1 for a damaged piece, 2 for another Python's."""
    parser = argparse.ArgumentParser(prog="install.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pieces", nargs="*", type=Path, help="folders of pieces that have come")
    parser.add_argument("--to", type=Path, default=Path("/tmp/raybench-gpu"), help="folder that outlives this call")
    parser.add_argument("--needs", action="store_true", help="print NAME==VERSION of this Python and its packages")
    options = parser.parse_args(arguments)
    if options.needs:
        print("\n".join([f"python=={platform.python_version()}", *sorted(installed())]))
        return 0
    absent = [str(piece) for piece in options.pieces if not piece.is_dir()]
    if absent:
        parser.error(f"no such folder: {', '.join(absent)}")
    return install(options.pieces, options.to)


def installed() -> set[str]:
    """NAME==VERSION of each package that this Python has."""
    return {f"{one.metadata['Name']}=={one.version}" for one in distributions() if one.metadata["Name"]}


def install(pieces: Sequence[Path], folder: Path) -> int:
    """Take the pieces in; with the last of them, join, check and install."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for piece in pieces:
        for path in sorted(piece.iterdir()):
            shutil.copy2(path, parts / path.name)
    manifest = parts / MANIFEST
    if not manifest.exists():
        print(f"{MANIFEST} has not come yet; it is in every piece")
        return 3
    wanted = json.loads(manifest.read_text())
    here = ".".join(platform.python_version_tuple()[:2])
    if wanted["python"] not in (None, here):
        print(
            f"these wheels are for Python {wanted['python']}, and this is {here}: make gpu-pack PACK='--python {here}'"
        )
        return 2
    missing = [part for wheel in wanted["wheels"] for part in wheel["parts"] if not (parts / part).exists()]
    if missing:
        print(f"{len(missing)} parts have not come yet: {', '.join(missing[:5])}")
        return 3
    damaged = [problem for wheel in wanted["wheels"] if (problem := _join(wheel, parts, folder / "wheels"))]
    if damaged:
        print("\n".join(damaged))
        return 1
    return _pip(folder, [wheel["name"] for wheel in wanted["wheels"]])


def _join(wheel: dict[str, Any], parts: Path, target: Path) -> str | None:
    """Put a wheel together. Returns what is wrong with it."""
    target.mkdir(exist_ok=True)
    whole = target / wheel["name"]
    digest = hashlib.sha256()
    with whole.open("wb") as file:
        for part in wheel["parts"]:
            data = (parts / part).read_bytes()
            digest.update(data)
            file.write(data)
    if digest.hexdigest() == wheel["sha256"]:
        return None
    whole.unlink()
    for part in wheel["parts"]:
        (parts / part).unlink()
    return f"{wheel['name']} is damaged: its sha256 is not that of the manifest; send its pieces again"


def _pip(folder: Path, names: Sequence[str]) -> int:
    """Install the wheels beside the machine's own packages, none of which is replaced."""
    site = folder / "site"
    wheels = [str(folder / "wheels" / name) for name in names]
    options = [
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--no-cache-dir",
        "--upgrade",
        "--target",
        str(site),
    ]
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *options, *wheels]
    done = subprocess.run(command, check=False)
    print(f"{len(wheels)} wheels in {site}; put it first in PYTHONPATH" if done.returncode == 0 else "pip failed")
    return int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
