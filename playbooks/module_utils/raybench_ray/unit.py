"""The systemd unit of a Ray node. Its words are paths of raybench's own; all else is in the launch file."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence

_FOLDER = "/etc/systemd/system"
_CALL_SECONDS = 180.0  # a reload takes a second, and minutes on a host that swaps
_STOP_SECONDS = 60
_TEMPLATE = """\
# Made by raybench (playbooks/cluster_up.yml); removed by cluster_down.yml.
[Unit]
Description=Ray node of raybench
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
KillMode=control-group
TimeoutStartSec={start_seconds}
TimeoutStopSec={stop_seconds}
Restart=no
LimitMEMLOCK=infinity
LimitNOFILE=1048576
LimitCORE=0
TasksMax=infinity
"""


def unit_text(words: Sequence[str], seconds: float) -> str:
    """The text of the unit that runs a command. Paths are quoted as systemd.syntax(7) says."""
    return _TEMPLATE.format(command=" ".join(map(quoted, words)), start_seconds=seconds, stop_seconds=_STOP_SECONDS)


def quoted(word: str) -> str:
    """A word that systemd takes as it is: specifiers and variables are not replaced, nothing splits it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    if "\n" in word or "\0" in word:
        raise OSError(f"a path holds a line break, which no systemd unit can name: {word!r}")
    return f'"{escaped}"'


def install(unit: str, words: Sequence[str], seconds: float) -> None:
    """Write the unit and start it. Returns without waiting: readiness is in the node's state file.

    Raises OSError where a unit of that name runs something else.
    """
    path = os.path.join(_FOLDER, unit)
    if os.path.lexists(path):
        raise OSError(f"{path} is there and is not of this folder; remove it, or set ray_node_folder as it was")
    descriptor = os.open(path + ".partial", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(unit_text(words, seconds))
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)
    systemctl("daemon-reload")
    systemctl("reset-failed", unit, may_fail=True)
    systemctl("start", "--no-block", unit)


def remove(unit: str, program: str) -> None:
    """Stop the unit, with all its processes, and remove it. Nothing happens where none of ours is there.

    It is ours when it runs ``program``, a path in the node's own folder.
    """
    path = os.path.join(_FOLDER, unit)
    try:
        with open(path, encoding="utf-8") as file:
            if quoted(program) not in file.read():
                return
    except OSError:
        return
    systemctl("stop", unit, seconds=_STOP_SECONDS + _CALL_SECONDS)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    systemctl("daemon-reload")
    systemctl("reset-failed", unit, may_fail=True)


def systemctl(*words: str, seconds: float = _CALL_SECONDS, may_fail: bool = False) -> None:
    """Call systemctl. Raises OSError with what it said."""
    try:
        answer = subprocess.run(
            ["systemctl", "--no-ask-password", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"systemctl {' '.join(words)} did not end within {seconds} s") from None
    if answer.returncode and not may_fail:
        said = answer.stdout.decode("utf-8", "replace").strip()
        raise OSError("systemctl {}: {}".format(" ".join(words), said[-500:]))
