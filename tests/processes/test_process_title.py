"""What ``ps`` shows of a process that has given itself a title."""

import subprocess
import sys

import pytest

CODE = """
import os, sys
from pathlib import Path
from raybench.processes.process_title import set_title
child = os.fork()
if child == 0:
    set_title(sys.argv[1])
    print(Path("/proc/self/cmdline").read_bytes(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(b"MY_TOKEN=secret" in Path("/proc/self/cmdline").read_bytes(), flush=True)
"""


@pytest.mark.parametrize("title", ["raybench driver", "x" * 5000])
def test_a_fork_shows_its_title_and_its_parent_what_was_typed(title: str) -> None:
    command = [sys.executable, "-c", CODE, title, "--env", "MY_TOKEN=secret"]
    shown, kept = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split("\n")[:2]
    assert shown.removeprefix("b'").startswith(title[:100])
    assert "MY_TOKEN" not in shown
    assert kept == "True"
