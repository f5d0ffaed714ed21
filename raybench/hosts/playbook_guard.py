"""Ends a playbook run whose raybench has gone without a word: killed, or out of memory.

``python -m raybench.hosts.playbook_guard TOKEN FOLDER`` reads standard input, which ends with the process that holds
its other end. Without a last word the processes marked with TOKEN are ended and the run's private FOLDER is removed.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_LAST_WORD = b"ended"
_END_SECONDS = 5.0


@contextlib.contextmanager
def guarded(token: str, folder: Path) -> Iterator[None]:
    """Within the block, see to it that the run leaves nothing even if this process is killed."""
    guard = subprocess.Popen(
        [sys.executable, "-P", "-m", "raybench.hosts.playbook_guard", token, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        try:
            guard.communicate(_LAST_WORD, timeout=_END_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            guard.kill()
            guard.wait()


def main() -> None:
    """Entry point: ``playbook_guard TOKEN FOLDER``."""
    token, folder = sys.argv[1], Path(sys.argv[2])
    if sys.stdin.buffer.read() != _LAST_WORD:
        from raybench.processes.owned_processes import end_marked  # psutil, for the rare case
        from raybench.processes.scratch_folder import SHORT_PREFIX

        end_marked(token)
        if folder.name.startswith(SHORT_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
