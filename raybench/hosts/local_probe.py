"""The probe of this machine, in a process of its own and without Ansible: for what runs before every job."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from raybench.hosts.ansible_setup import data_folder

# The playbook's module is the same package; it comes by ssh there, and lies beside the playbooks here.
_PROGRAM = (
    "import json, sys\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from module_utils.raybench_probe.answer import answer\n"
    "print(json.dumps(answer(json.load(sys.stdin))))\n"
)
_OPTIONS: Mapping[str, Any] = {
    "end_listener": False,
    "reach": [],
    "reached_earlier": [],
    "listen_ports": [],
    "listen_seconds": 0,
    "listen_connections": 0,
    "reach_early": [],
    "reach_early_seconds": 0,
    "environment_variables": {},
    "prefix": [],
    "packed": True,
    "folders": ["/", "/tmp"],
}
_MARGIN_SECONDS = 1.5  # to start Python, and to pack what was read
_INTERVAL_SECONDS = 0.5  # between two readings of port counters


def probe_here(limit_seconds: float, *, expectations: Mapping[str, Any]) -> tuple[str, str]:
    """What the probe packed, or nothing and why. ``limit_seconds`` is for all of it; what it started ends with it."""
    options = {
        **_OPTIONS,
        "timeout_seconds": max(0.5, limit_seconds - _MARGIN_SECONDS),
        "interval_seconds": min(_INTERVAL_SECONDS, limit_seconds / 4),
        "python": sys.executable,
        "expectations": dict(expectations),
    }
    words = [sys.executable, "-I", "-c", _PROGRAM, str(data_folder("playbooks"))]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=Path("/"),
    )
    try:
        said, errors = process.communicate(msgspec.json.encode(options), timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        return "", f"the probe did not end within {limit_seconds:g} s"
    finally:
        _end(process)
    if process.returncode:
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        return "", f"the probe ended with {process.returncode}: {last[0][:300]}"
    try:
        return str(msgspec.json.decode(said, type=dict[str, Any])["packed"]), ""
    except (msgspec.MsgspecError, KeyError) as error:
        return "", f"the probe's answer is damaged: {error}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the probe and what it started and did not leave its session; what hangs in the kernel is not waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
