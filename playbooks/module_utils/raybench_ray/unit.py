"""The systemd unit of a Ray node. Its words are paths of raybench's own; all else is in the launch file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from ..raybench_host.command import run
from ..raybench_host.files import file_text, replace_file

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
    replace_file(path, unit_text(words, seconds), mode=0o644)
    systemctl("daemon-reload")
    systemctl("reset-failed", unit, may_fail=True)
    systemctl("start", "--no-block", unit)


def remove(unit: str, program: str) -> None:
    """Stop the unit, with all its processes, and remove it. Nothing happens where none of ours is there.

    It is ours when it runs ``program``, a path in the node's own folder.
    """
    path = os.path.join(_FOLDER, unit)
    if quoted(program) not in (file_text(path) or ""):
        return
    systemctl("stop", unit, seconds=_STOP_SECONDS + _CALL_SECONDS)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    systemctl("daemon-reload")
    systemctl("reset-failed", unit, may_fail=True)


def systemctl(*words: str, seconds: float = _CALL_SECONDS, may_fail: bool = False) -> None:
    """Call systemctl. Raises OSError with what it said."""
    ended = run(["systemctl", "--no-ask-password", *words], seconds, os.environ, together=True)
    if ended.problem or (ended.status and not may_fail):
        raise OSError("systemctl {}: {}".format(" ".join(words), ended.reason or ended.said.strip()[-500:]))
