"""Releases of NCCL whose source is here: RAYBENCH_NCCL_SOURCE names an archive, a checkout, or a folder of them."""

import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

SOURCE_VARIABLE = "RAYBENCH_NCCL_SOURCE"
_FIRST_WITH_PLAYER = (2, 21)
_FIRST_FOR_CUDA_12 = (2, 16)
_NUMBER = re.compile(r"^NCCL_(MAJOR|MINOR|PATCH) *:= *(\d+)", re.MULTILINE)
_IN_NAME = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Release:
    """One release: its ``number``, ``(2, 27, 5)``, and the archive or folder of its source."""

    number: tuple[int, int, int]
    source: Path

    @property
    def tag(self) -> str:
        """The number as NCCL writes it: ``2.27.5``."""
        return ".".join(map(str, self.number))

    @property
    def code(self) -> int:
        """NCCL_VERSION_CODE: 22705; up to 2.8 two digits less."""
        major, minor, patch = self.number
        return major * (1000 if self.number < (2, 9, 0) else 10_000) + minor * 100 + patch

    @property
    def cuda_major(self) -> int:
        """The CUDA whose headers it is built with."""
        return 12 if self.number >= _FIRST_FOR_CUDA_12 else 11

    @property
    def has_player(self) -> bool:
        """Whether its collectives can be played, see ``emulation/player.cc``."""
        return self.number >= _FIRST_WITH_PLAYER


def find_releases(source: str | None = None) -> list[Release]:
    """Every release in a path, by default RAYBENCH_NCCL_SOURCE's, oldest first. Empty where there is none."""
    named = source or os.environ.get(SOURCE_VARIABLE)
    if not named or not Path(named).exists():
        return []
    path = Path(named).resolve()
    inside = [path] if path.is_file() or (path / "makefiles").is_dir() else sorted(path.iterdir())
    return sorted(release for release in map(_release_of, inside) if release is not None)


def release_for_tests(releases: list[Release]) -> Release:
    """The one that the tests build: what most users of today's frameworks have, else the newest."""
    return next((release for release in releases if release.number[:2] == (2, 27)), releases[-1])


def unpack(release: Release, into: Path) -> Path:
    """The folder of a release's source, below ``into`` where it has to be unpacked."""
    if release.source.is_dir():
        return release.source
    with tarfile.open(release.source) as archive:
        archive.extractall(into, filter="data")
    return next(found.parent for found in sorted(into.glob("**/makefiles")) if (found.parent / "src").is_dir())


def _release_of(path: Path) -> Release | None:
    if path.is_dir():
        version = path / "makefiles" / "version.mk"
        numbers = dict(_NUMBER.findall(version.read_text())) if version.is_file() else {}
        found = [numbers[part] for part in ("MAJOR", "MINOR", "PATCH")] if len(numbers) == 3 else None
    else:
        match = _IN_NAME.search(path.name) if ".tar" in path.suffixes or path.suffix == ".tgz" else None
        found = list(match.groups()) if match else None
    if found is None:
        return None
    major, minor, patch = map(int, found)
    return Release(number=(major, minor, patch), source=path)
