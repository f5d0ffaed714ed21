"""Which Python of a host has torch: that of the inventory, of ``raybench cluster up``, of the search path."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import NamedTuple

from ..raybench_host import command

_LOOK = "import importlib.util, sys; print(sys.version_info >= (3, 9), importlib.util.find_spec('torch') is not None)"
_LOOK_SECONDS = 20.0


class Found(NamedTuple):
    """A Python for the tests. ``why_no_torch`` is empty where it has torch."""

    path: str
    why_no_torch: str


def find_python(named: str) -> Found:
    """The first Python that has torch, else the first that can do the tests that need none.

    One that the inventory names is the only one that is asked. The path is empty where there is no Python 3.9.
    """
    usable, looked_at = "", []
    for path in [named] if named else list(_candidates()):
        ended = command.run([path, "-c", _LOOK], _LOOK_SECONDS, os.environ)
        words = ended.said.split()
        looked_at.append(path if not ended.problem else f"{path} ({ended.reason})")
        if words == ["True", "True"]:
            return Found(path, "")
        if words[:1] == ["True"]:
            usable = usable or path
    return Found(usable, f"no Python with torch was found on the host (looked at {', '.join(looked_at)})")


def _candidates() -> Iterator[str]:
    for folder in ("/var/lib/raybench", f"/var/tmp/raybench-{_user()}"):  # those of the role ray_node
        path = os.path.join(folder, "venv/bin/python")
        if _is_trusted(folder) and os.access(path, os.X_OK):
            yield path
    if shutil.which("python3"):
        yield "python3"
    yield sys.executable


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _is_trusted(folder: str) -> bool:
    """Whether a folder is this user's own or root's, and no link: in /var/tmp anybody may make one of its name."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid in {0, os.getuid()} and not found.st_mode & stat.S_IWOTH
