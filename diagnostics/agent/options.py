"""What an agent is asked to look at."""

from dataclasses import dataclass
from pathlib import Path

INTERVAL_SECONDS = 1.0
SHORTEST_INTERVAL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """``folders`` are those whose file systems must not run full; ``logs`` are files, folders and globs of NCCL logs.

    ``proc`` and ``sys`` are where those file systems are: a test makes its own. ``host`` names the machine.
    """

    host: str
    interval_seconds: float = INTERVAL_SECONDS
    pids: tuple[int, ...] = ()
    logs: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    kernel_log: Path = Path("/dev/kmsg")
