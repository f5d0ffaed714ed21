"""Reading the host and running its commands, each with a time limit."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..raybench_host.command import FAILED, MISSING, TIMEOUT, run
from ..raybench_host.files import file_text

_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/bin"
_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h
_SYS_ADMIN = 21  # CAP_SYS_ADMIN
_STATUSES = {MISSING: 127, FAILED: 126, TIMEOUT: 124}  # of a program that gave none, as a shell's and timeout(1)'s


@dataclass(frozen=True)
class Answer:
    """What a command said. ``status`` is 127 where it is missing, 126 where it did not start, 124 past its time."""

    status: int
    out: str
    errors: str

    @property
    def reason(self) -> str:
        """The last line of what it complained about."""
        lines = (self.errors or self.out).strip().splitlines()
        return lines[-1].strip() if lines else f"status {self.status}"


class Host:
    """The host that this runs on. ``root`` stands before every path, so that tests can hand in a tree of their own."""

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def path(self, name: str) -> Path:
        """Where a file of the host lies."""
        return Path(self.root + name)

    def text(self, name: str) -> str | None:
        """What a file holds; None where it is not there or does not let itself be read."""
        return file_text(str(self.path(name)))

    def word(self, name: str) -> str:
        """What a file of one line holds, without spaces around it; empty where there is none."""
        return (self.text(name) or "").strip()

    def glob(self, pattern: str) -> list[str]:
        """Paths as the host names them, in order."""
        base = self.path("/")
        return sorted(f"/{path.relative_to(base)}" for path in base.glob(pattern.lstrip("/")))

    def exists(self, name: str) -> bool:
        """Whether there is anything of that name."""
        return self.path(name).exists()

    def may_write(self, name: str) -> bool:
        """Whether the kernel lets this process write a file; root is refused some of /proc too."""
        return os.access(self.path(name), os.W_OK)

    def find(self, command: str) -> str | None:
        """The full path of a command, or None."""
        return shutil.which(command, path=_SEARCH_PATH)

    def run(self, *command: str, seconds: float = 30.0) -> Answer:
        """Run a command to its end, or kill it with what it started when its time is up."""
        environment = {"PATH": _SEARCH_PATH, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}
        ended = run(command, seconds, environment)
        if ended.status is None:
            return Answer(_STATUSES[ended.problem], "", ended.reason)
        return Answer(ended.status, ended.said, ended.errors.decode("utf-8", "replace"))

    def systemd(self) -> bool:
        """Whether systemd is what runs this host."""
        return self.exists("/run/systemd/system")

    def container(self) -> str | None:
        """Why this is a container and not a machine; None on a machine. A kernel is not a container's to change."""
        for name in ("/run/.containerenv", "/.dockerenv"):
            if self.exists(name):
                return f"in a container ({name} exists)"
        found = re.search(r"(?:^|\0)container=([^\0]+)", self.text("/proc/1/environ") or "")
        if found:
            return f"in a container ({found[1]})"
        try:
            namespace = os.readlink(self.path("/proc/self/ns/pid"))
        except OSError:
            return None
        return None if namespace == _FIRST_PID_NAMESPACE else "in a container (a process namespace of its own)"

    def may_mount(self) -> bool:
        """Whether this process holds CAP_SYS_ADMIN; root of a container often does not."""
        found = re.search(r"^CapEff:\s*([0-9a-f]+)", self.text("/proc/self/status") or "", re.MULTILINE)
        return bool(found and int(found[1], 16) >> _SYS_ADMIN & 1)

    def family(self) -> str:
        """``debian`` or ``rhel`` by /etc/os-release, else what it calls itself, or ``unknown``."""
        fields = dict(re.findall(r'^(ID|ID_LIKE)="?([^"\n]*)"?$', self.text("/etc/os-release") or "", re.MULTILINE))
        words = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".split()
        if {"debian", "ubuntu"} & set(words):
            return "debian"
        if {"rhel", "fedora", "centos"} & set(words):
            return "rhel"
        return words[0] if words else "unknown"
