"""Who has a TCP port of this host: the process and its user, as far as this user may see it."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping

from ..raybench_host.files import file_text, first_line
from .errors import NodeError

_LISTENING = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")
# Options of ``ray start`` that name a port, and the variable that moves it.
_VARIABLES = {
    "--port": "ray_node_port",
    "--node-manager-port": "ray_node_node_manager_port",
    "--object-manager-port": "ray_node_object_manager_port",
    "--dashboard-port": "ray_node_dashboard_port",
}


def refuse_taken_ports(words: list[str]) -> None:
    """Raise NodeError where a port that ``ray start`` is told to listen at belongs to somebody else."""
    for option, _, text in (word.partition("=") for word in words):
        if option == "--dashboard-port" and "--include-dashboard=true" not in words:
            continue
        if option in _VARIABLES and text.isdigit() and int(text) and is_taken(int(text)):
            raise NodeError(
                f"port {text} is taken by {holder_of(int(text))}. Is another Ray cluster running here? End it if it is"
                f" yours, or move raybench's by {_VARIABLES[option]}"
            )


def is_taken(port: int) -> bool:
    """Whether somebody listens at this port of any address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("0.0.0.0", port))  # noqa: S104 - taken at any address is taken
            tried.listen(1)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def holder_of(port: int) -> str:
    """The process, its user and its command; of another user's, where this one is not root, the user alone."""
    owners = dict(_listeners(port))
    for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        if any(_inode(link) in owners for link in glob.glob(f"/proc/{pid}/fd/*")):
            name = first_line(f"/proc/{pid}/comm") or ""
            command = (file_text(f"/proc/{pid}/cmdline") or "").replace("\0", " ")
            shown = command if len(command) <= 120 else command[:120] + "..."
            return f"{name} (process {pid}, user {_user(owners)}): {shown}"
    return f"a process of user {_user(owners)}" if owners else "a process that this user may not see"


def _listeners(port: int) -> Iterator[tuple[str, int]]:
    """Inodes of sockets that listen at a port, with the user ids of who made them."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in (file_text(path) or "").splitlines()[1:]:
            cells = row.split()
            if cells[3] == _LISTENING and int(cells[1].rpartition(":")[2], 16) == port:
                yield cells[9], int(cells[7])


def _inode(link: str) -> str:
    with contextlib.suppress(OSError):
        found = _SOCKET.fullmatch(os.readlink(link))
        return found[1] if found else ""
    return ""


def _user(owners: Mapping[str, int]) -> str:
    number = next(iter(owners.values()))
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
