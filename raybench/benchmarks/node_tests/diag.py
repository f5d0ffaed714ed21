"""``dcgmi diag -r N -j`` where DCGM is installed: each of its tests with its result, of each GPU.

DCGM's own words: a test that it fails has failed here, one that it warns of is ``warned``; what it skips is skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile

from raybench.benchmarks.node_tests.dcgm_answer import read_diag
from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_MOST_BYTES = 8 << 20
_STOP_SECONDS = 8.0  # until it has told DCGM's daemon to stop


def run(plan: Plan) -> None:
    """Run it, within the plan's time."""
    program = shutil.which("dcgmi", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin")
    if program is None:
        say(Figure("dcgm-diag", "host", status="skipped", reason="dcgmi is not installed"))
        return
    said, status, problem = _said(
        [program, "diag", "-r", str(plan.diag_level), "-j"], max(1.0, plan.seconds - _STOP_SECONDS)
    )
    if problem:
        say(Figure("dcgm-diag", "host", status="missing", reason=problem))
        return
    for figure in read_diag(said, status):
        say(figure)


def _said(command: list[str], seconds: float) -> tuple[str, int, str]:
    """What a program printed, and its exit status; or why that is not to be had.

    One that is late is asked to stop before it is killed.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # dcgmi then has the daemon end its diagnostic
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS / 2)
            return "", 0, f"dcgmi diag did not end within {seconds:.0f} s"
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return output.read(_MOST_BYTES).decode("utf-8", "replace"), process.returncode, ""
