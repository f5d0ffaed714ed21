"""``python -m tests.gpu.pack``: the wheels that a GPU machine without internet lacks, in pieces that can be carried.

    make gpu-pack PACK="--python 3.12 --present present.txt --piece-mib 48"

Which packages: those that raybench and its extras need, at the versions of constraints.txt, down to the last, but torch
and what torch brings, and what ``--present`` names (the output of ``tests/gpu/install.py --needs`` there, or names
alone). A wheel longer than a piece is cut; ``tests/gpu/install.py`` joins it there and checks its sha256.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.gpu.install import MANIFEST

ROOT = Path(__file__).parents[2]
EXTRAS = ("run", "report", "stacks", "bitsandbytes")
_MIB = 2**20
_ABIS = (*(f"manylinux_2_{minor}" for minor in (17, 24, 27, 28, 31, 34, 35)), "manylinux2014", "manylinux1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The machine that the wheels are for. ``present``: version by name, empty where it is not known."""

    python: str
    arch: str
    present: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        """What markers of requirements are judged by."""
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "platform_system": "Linux",
            "platform_machine": self.arch,
            "platform_python_implementation": "CPython",
            "implementation_name": "cpython",
            "sys_platform": "linux",
            "os_name": "posix",
        }


def present_of(text: str) -> dict[str, str]:
    """Version by canonical name from lines NAME==VERSION or names, separated by commas or white space."""
    words = (word.partition("==") for word in re.split(r"[\s,]+", text) if word and not word.startswith("#"))
    return {canonicalize_name(name): version for name, _, version in words}


def needed(target: Target, extras: Iterable[str] = EXTRAS) -> list[str]:
    """Names of all packages to bring, from what is installed here: its requirements, followed to the last."""
    left_out = _of("torch", target) | {"torch"}
    found: set[str] = set()
    waiting = own_requirements((ROOT / "pyproject.toml").read_text(), extras, target)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in left_out or name in found or _is_there(requirement, target):
            continue
        found.add(name)
        waiting += [one for extra in ("", *requirement.extras) for one in _requirements(name, extra, target)]
    return sorted(found)


def _is_there(requirement: Requirement, target: Target) -> bool:
    """Whether the machine has it, and not too old."""
    version = target.present.get(canonicalize_name(requirement.name))
    return version is not None and (not version or requirement.specifier.contains(version, prereleases=True))


def _of(name: str, target: Target) -> set[str]:
    """All that a package needs, directly or not."""
    found: set[str] = set()
    waiting = _requirements(name, "", target)
    while waiting:
        one = canonicalize_name(waiting.pop().name)
        if one not in found:
            found.add(one)
            waiting += _requirements(one, "", target)
    return found


def _requirements(name: str, extra: str, target: Target) -> list[Requirement]:
    """What a package needs on the target; with an extra, what that adds."""
    try:
        lines = requires(name) or []
    except PackageNotFoundError:  # for a GPU only, such as bitsandbytes: what it needs beside torch is there
        return []
    return [one for one in map(Requirement, lines) if _holds(one, extra, target)]


def _holds(requirement: Requirement, extra: str, target: Target) -> bool:
    if requirement.marker is None:
        return not extra
    plain = requirement.marker.evaluate(target.environment | {"extra": ""})
    return not plain and requirement.marker.evaluate(target.environment | {"extra": extra}) if extra else plain


def own_requirements(project: str, extras: Iterable[str], target: Target) -> list[Requirement]:
    """What the checkout's pyproject.toml asks for on the target: an installed raybench may be an older one."""
    content = tomllib.loads(project)["project"]
    optional = content["optional-dependencies"]
    lines = [*content["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [one for one in map(Requirement, lines) if _holds(one, "", target)]


def versions_of(constraints: str, target: Target) -> dict[str, str]:
    """Version by name, from the lines of constraints.txt that hold for the target."""
    found: dict[str, str] = {}
    for line in constraints.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(target.environment):
                found[canonicalize_name(requirement.name)] = str(requirement.specifier)
    return found


def download(names: Sequence[str], versions: Mapping[str, str], target: Target, folder: Path) -> list[str]:
    """The wheels into a folder. Returns the names for which there is none."""
    platforms = [f"--platform={abi}_{target.arch}" for abi in _ABIS]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={target.python}", *platforms]
    missing = []
    for name in names:
        wanted = f"{name}{versions.get(name, '')}"
        done = subprocess.run([*command, f"--dest={folder}", wanted], capture_output=True, text=True, check=False)
        if done.returncode:
            missing.append(f"{wanted}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return missing


def cut(wheels: Sequence[Path], folder: Path, piece_bytes: int, *, python: str | None = None) -> list[Path]:
    """The wheels in folders of at most so many bytes, long ones cut; each with the manifest. Returns the folders.

    ``python``: the version that they are for.
    The longest parts first, each into the first piece that has room.
    """
    manifest, parts = [], []
    for wheel in wheels:
        data = wheel.read_bytes()
        room = piece_bytes - _manifest_room(wheels)
        chunks = [data[start : start + room] for start in range(0, len(data), room)]
        names = [wheel.name if len(chunks) == 1 else f"{wheel.name}.part{number}" for number in range(len(chunks))]
        manifest.append({"name": wheel.name, "sha256": hashlib.sha256(data).hexdigest(), "parts": names})
        parts += list(zip(names, chunks, strict=True))
    text = json.dumps({"python": python, "wheels": manifest}, indent=1).encode()
    pieces: list[list[tuple[str, bytes]]] = []
    for part in sorted(parts, key=lambda one: -len(one[1])):
        fitting = (piece for piece in pieces if _length(piece) + len(part[1]) + len(text) <= piece_bytes)
        piece = next(fitting, None)
        if piece is None:
            piece = []
            pieces.append(piece)
        piece.append(part)
    return [_written(folder / f"piece-{number}", piece, text) for number, piece in enumerate(pieces, start=1)]


def _manifest_room(wheels: Sequence[Path]) -> int:
    """More than the manifest takes: a few hundred bytes a wheel."""
    return 1024 * (len(wheels) + 1)


def _length(piece: Sequence[tuple[str, bytes]]) -> int:
    return sum(len(data) for _, data in piece)


def _written(folder: Path, piece: Sequence[tuple[str, bytes]], manifest: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, data in piece:
        (folder / name).write_bytes(data)
    (folder / MANIFEST).write_bytes(manifest)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 where a package has no wheel for the target."""
    options = _options(arguments)
    present = present_of(options.present.read_text()) if options.present else {}
    told = ".".join(present.pop("python", "").split(".")[:2])
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    target = Target(python=options.python or told or here, arch=options.arch, present=present)
    names = needed(target)
    shutil.rmtree(options.to, ignore_errors=True)
    wheels = options.to / "wheels"
    wheels.mkdir(parents=True)
    versions = versions_of((ROOT / "constraints.txt").read_text(), target)
    missing = download(names, versions, target, wheels)
    pieces = cut(sorted(wheels.glob("*.whl")), options.to, int(options.piece_mib * _MIB), python=target.python)
    for piece in pieces:
        size = sum(path.stat().st_size for path in piece.iterdir())
        print(f"{piece}: {size / _MIB:.1f} MiB, {', '.join(sorted(path.name for path in piece.iterdir()))}")
    total = sum(path.stat().st_size for path in wheels.iterdir())
    print(
        f"{len(names) - len(missing)} wheels for Python {target.python}, {total / _MIB:.1f} MiB in {len(pieces)} pieces"
    )
    shutil.rmtree(wheels)
    for line in missing:
        print(f"no wheel: {line}")
    return int(bool(missing))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.pack", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--python", metavar="X.Y", help="the other machine's Python  [as --present says, else this one's]"
    )
    parser.add_argument("--arch", default="x86_64", help="its processor  [x86_64]")
    parser.add_argument("--present", type=Path, help="packages that it has: the output of install.py --needs there")
    parser.add_argument(
        "--piece-mib", type=float, default=48.0, help="of a piece; the checkout may travel with it  [48]"
    )
    parser.add_argument("--to", type=Path, default=ROOT / ".whl", help="folder for the pieces; made anew  [.whl]")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
