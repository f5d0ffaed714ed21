"""What a program of the probe said, as a reading."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Dict, Optional

from ..raybench_host import command as host_command

# Status (ok, missing, failed, timeout, denied) and what came of it. Evaluated, hence as Python 3.8 knows it.
Reading = Dict[str, Any]
Keep = Optional["Callable[[str], str]"]  # what is left of an output
MOST_CHARACTERS = 2_000_000  # of an answer, after what no check wants was taken out of it
_DENIED = re.compile(r"[Pp]ermission denied|not permitted|must be root|need to be root")


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    keep: Keep = None,
    started: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> Reading:
    """What a program said, or why it did not. ``keep`` leaves of it what is wanted; ``started`` gets the process."""
    ended = host_command.run(command, seconds, environment, started=started)
    if ended.problem:
        return {"status": ended.problem, "text": "", "error": ended.reason}
    text = keep(ended.said) if keep else ended.said
    if len(text) > MOST_CHARACTERS:
        return {"status": "failed", "text": "", "error": f"{command[0]} printed {len(text)} characters"}
    said = ended.errors.decode("utf-8", "replace").strip()[:2000]
    verdict = "ok" if ended.status == 0 else "denied" if _DENIED.search(said + text[:2000]) else "failed"
    return {"status": verdict, "text": text, "rc": ended.status, "error": said}
