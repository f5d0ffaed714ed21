"""The agent's place behind the ranks: a low priority, and the first to be ended where memory runs out."""

import contextlib
import os
from pathlib import Path

_NICENESS = 10
_OOM_SCORE = "800"  # of 1000


def stand_back() -> None:
    """Let everything else of the machine go first, for the rest of this process."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
