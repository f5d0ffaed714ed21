"""Whether this machine can build a lab at all, asked before any test tries."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

_COMMANDS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
_SBIN = "/usr/sbin:/sbin"
_TRIAL = "import kernel as k; k.unshare(k.EVERY_NAMESPACE); k.mount('none', '/', flags=k.MS_REC | k.MS_PRIVATE)"


@cache
def lab_available() -> str | None:
    """None where a lab can be built, else the reason why not, in words that say what would help."""
    if not sys.platform.startswith("linux"):
        return "the lab needs Linux namespaces"
    if os.geteuid() != 0:
        return "the lab needs root: run the tests as root to include it"
    for command, package in _COMMANDS.items():
        if shutil.which(command, path=search_path()) is None:
            return f"the lab needs the command {command}: apt-get install {package}"
    return _refused_namespaces()


def find_sshd() -> str | None:
    """The path of the SSH server on this machine, or None. sshd insists on being started by its full path."""
    return shutil.which("sshd", path=search_path()) if shutil.which("ssh-keygen") else None


def search_path() -> str:
    """PATH with the folders of system commands, which an ordinary PATH may lack."""
    return f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"


def _refused_namespaces() -> str | None:
    command = [sys.executable, "-S", "-c", _TRIAL]
    trial = subprocess.run(
        command, cwd=Path(__file__).parent, env={}, capture_output=True, text=True, check=False, timeout=60
    )
    if trial.returncode == 0:
        return None
    return f"the lab needs namespaces, which this machine refuses: {trial.stderr.strip().splitlines()[-1]}"
