"""Whether a process that somebody else started will do in place of one of our own."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost
from raybench.execution.ranks.process_compatibility import difference

_WAIT = "import sys; sys.stdin.read()"


@contextmanager
def child(environment: Mapping[str, str] | None = None, prepare: Callable[[], object] | None = None) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"print(flush=True); {_WAIT}", "/run/x/ranks"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | dict(environment or {}),
        preexec_fn=prepare,  # noqa: PLW1509 - no threads in a test
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def test_a_child_of_ours_is_alike() -> None:
    changes = {"RAY_JOB_ID": "7", "PYTHONBREAKPOINT": "x", "OMP_NUM_THREADS": "9", "CUDA_VISIBLE_DEVICES": ""}
    with child(changes) as pid:
        assert difference(pid) is None


def test_an_entry_of_pythonpath_that_is_there_twice_is_no_difference() -> None:
    with child({"PYTHONPATH": "/a:/b:/a"}) as pid:
        assert difference(pid, dict(os.environ) | {"PYTHONPATH": "/a:/b"}) is None
        assert difference(pid, dict(os.environ) | {"PYTHONPATH": "/b:/a"}) == "environment variable PYTHONPATH"


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "NCCL_SOCKET_IFNAME", "PATH", "FI_PROVIDER"])
def test_what_libraries_read_tells_them_apart(name: str) -> None:
    with child({name: "/elsewhere"}) as pid:
        assert difference(pid) == f"environment variable {name}"


def lower_file_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def pin_to_one_processor() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@pytest.mark.parametrize(
    ("prepare", "word"),
    [
        (lambda: os.nice(1), "priority"),
        (lower_file_limit, "limits"),
        pytest.param(
            pin_to_one_processor,
            "user, capabilities or processors",
            marks=pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: nothing to pin to"),
        ),
    ],
)
def test_a_process_with_other_rights_or_limits_is_refused(prepare: Callable[[], object], word: str) -> None:
    with child(prepare=prepare) as pid:
        assert difference(pid) == word


def test_a_process_that_cannot_be_seen_is_refused() -> None:
    with child() as pid:
        pass
    assert "cannot be looked at" in str(difference(pid))


def test_a_process_id_of_another_machine_is_not_taken_for_the_host() -> None:
    with child() as pid:
        assert PrestartedRankHost(socket="/run/x/ranks", pid=pid).is_ours_to_use()
        assert not PrestartedRankHost(socket="/run/y/ranks", pid=pid).is_ours_to_use()
    assert not PrestartedRankHost(socket="/run/x/ranks", pid=pid).is_ours_to_use()
