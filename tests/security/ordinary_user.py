"""An ordinary user of this machine, as whom a test does what an attacker would."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

USER_ID = 54321  # of nobody: no entry is needed to own files and ports

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can act as another user, with setpriv"
)

# He may read all, since this Python may be installed where only root can look; write he may only what is his.
_AS_USER = [
    "setpriv",
    *(f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]


@contextmanager
def acting(
    code: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A Python program of that user's; at the end its standard input ends, and it is killed when it stays."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with subprocess.Popen(
        [*_AS_USER, sys.executable, "-P", "-c", code, *arguments],
        cwd="/",
        env=settings | {"HOME": "/nonexistent", "USER": "mallory"} | dict(environment or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def given(path: Path, user: int = USER_ID) -> Path:
    """The path, now of that user."""
    os.chown(path, user, user, follow_symlinks=False)
    return path
