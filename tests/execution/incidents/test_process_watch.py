"""The processes of a run, real ones, as they are seen."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil

from raybench.execution.incidents.process_watch import ProcessWatch


def test_the_first_raylet_that_was_never_seen_alive_is_the_heads(tmp_path: Path) -> None:
    """Of a process that has ended only its name is left; the head of an embedded cluster starts before the others."""
    sleep = str(shutil.which("sleep"))
    for name in ("gcs_server", "raylet"):
        (tmp_path / name).symlink_to(sleep)
    running: list[subprocess.Popen[bytes]] = []
    try:
        running += [subprocess.Popen([tmp_path / "gcs_server", "60"]), subprocess.Popen([tmp_path / "raylet", "0"])]
        while not psutil.Process(running[0].pid).cmdline():  # between two programs it has none, and Popen may be back
            time.sleep(0.001)
        os.waitid(os.P_PID, running[1].pid, os.WEXITED | os.WNOWAIT)
        watch = ProcessWatch(os.getpid(), None)
        seen = {one.pid: one for one in watch.look(find=True)}
        raylet = seen[running[1].pid]
        assert (raylet.component, raylet.ended, raylet.node) == ("raylet", True, "node-1")
        running.append(subprocess.Popen([tmp_path / "raylet", "0"]))
        os.waitid(os.P_PID, running[2].pid, os.WEXITED | os.WNOWAIT)
        later = {one.pid: one for one in watch.look(find=True)}[running[2].pid]
        assert later.node is None  # one of the others, nobody can tell which
    finally:
        for process in running:
            process.kill()
            process.wait()
