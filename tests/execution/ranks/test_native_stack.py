"""Stacks from outside: real processes, looked at by the real py-spy where it is installed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.execution.incidents.doing import frame_text, library_text
from raybench.execution.ranks import native_stack
from raybench.execution.ranks.native_stack import is_native, main_frames, native_stacks
from tests.processes.waiting import come_true, state_of

SLEEPER = "import time\ndef nap():\n    print('ready', flush=True)\n    time.sleep(60)\nnap()\n"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert come_true(lambda: state_of(child.pid) == "S")  # it may still be about to
        yield child
        child.kill()


@pytest.fixture(autouse=True)
def _dumps_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump beside other tests takes longer than a run would wait for it."""
    monkeypatch.setattr(native_stack, "_SECONDS", 60.0)


def seen(pid: int, state: str) -> tuple[native_stack.Frame, ...]:
    if native_stack._program() is None:
        pytest.skip("py-spy is not installed")
    frames = native_stacks({pid: state}).get(pid)
    if frames is None:
        pytest.skip("py-spy may not look at processes here (ptrace is restricted)")
    return frames


def test_the_function_of_the_library_and_the_line_of_the_program_are_seen(sleeper: subprocess.Popen[bytes]) -> None:
    frames = seen(sleeper.pid, "S")
    assert is_native(frames[0])
    assert "nanosleep" in library_text(frames)
    assert next(one for one in frames if not is_native(one)).function == "nap"


def test_a_stopped_process_is_seen_and_stays_stopped(sleeper: subprocess.Popen[bytes]) -> None:
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    frames = seen(sleeper.pid, "T")
    assert (frames[0].function, frames[0].line) in (("nap", 3), ("nap", 4))  # it may be stopped as it speaks
    assert Path(f"/proc/{sleeper.pid}/stat").read_text(encoding="ascii").split()[2] == "T"


def test_one_that_has_gone_and_a_machine_without_the_program_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.monotonic()
    assert native_stacks({2**22 - 3: "S", 2**22 - 4: "Z"}) == {}
    monkeypatch.setattr(native_stack, "_program", lambda: None)
    assert native_stacks({os.getpid(): "S"}) == {}
    assert time.monotonic() - begun < 30


def test_a_program_that_hangs_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = tmp_path / "py-spy"
    hung.write_text("#!/bin/sh\nexec sleep 600\n")
    hung.chmod(0o755)
    monkeypatch.setattr(native_stack, "_program", lambda: str(hung))
    monkeypatch.setattr(native_stack, "_SECONDS", 2.0)
    begun = time.monotonic()
    assert native_stacks(dict.fromkeys((11, 12, 13), "S")) == {}
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"os_thread_id": 7}]', '[{"os_thread_id": 7, "frames": 3}]'])
def test_what_is_not_a_dump_gives_no_frames(text: str) -> None:
    assert main_frames(text.encode(), 7) == ()


def test_frames_of_libraries_are_written_with_their_library() -> None:
    one = {"name": "epoll_wait", "filename": "/usr/lib/libc.so.6", "line": 0}
    own = {"name": "step", "filename": "/home/a/train.py", "line": 12}
    other = {"os_thread_id": 8, "frames": [own]}
    frames = main_frames(json.dumps([other, {"os_thread_id": 7, "frames": [one, own, one]}]).encode(), 7)
    assert library_text(frames) == "epoll_wait (libc.so.6)"
    assert [frame_text(frame) for frame in frames[:2]] == ["epoll_wait (libc.so.6)", "step (train.py line 12)"]
    assert library_text(frames[1:]) == ""  # the program's own code is not in a library
