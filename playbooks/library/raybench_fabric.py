#!/usr/bin/python
"""A host's end of the fabric tests: look at it, start its agent, fetch its results, end it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_fabric
short_description: Take part in fabric tests between hosts
description:
  - Looks at the RDMA devices, network interfaces and test tools of a host, and runs its part of a plan of pairwise
    tests (C(ib_write_bw), C(ib_write_lat), C(iperf3) or a TCP stream of its own) by an agent that is detached from
    Ansible, so that all hosts of a round measure at once.
  - Every process is bounded in time and ended by process id. An agent that nobody asks ends by itself.
author: The raybench authors
options:
  state:
    description: What to do. V(discovered) reads only. V(stopped) ends the agent and removes its folder.
    type: str
    required: true
    choices: [discovered, started, collected, stopped]
  ports:
    description: First and last TCP port that agents and test servers may use.
    type: list
    elements: int
    default: [18500, 18699]
  work:
    description: The host's part of the plan, for V(started).
    type: dict
    default: {}
  run:
    description: The run's id. With O(state=stopped) and without O(folder) every agent of the run is ended.
    type: str
    default: ""
  folder:
    description: The agent's folder, as V(started) returned it.
    type: path
    default: ""
  round:
    description: The last round to wait for, for V(collected).
    type: int
    default: 0
  wait_seconds:
    description: How long to wait for these rounds, for V(collected).
    type: int
    default: 60
  last:
    description: Whether nothing more is fetched, for V(collected). The agent is then ended and its folder removed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Look at the ends of the fabric
  raybench_fabric:
    state: discovered
"""

RETURN = r"""
end:
  description: Devices, interfaces, addresses and tools of the host.
  returned: when O(state=discovered)
  type: dict
folder:
  description: The agent's folder.
  returned: when O(state=started)
  type: str
results:
  description: One entry a test, with role, status, output and the counters that changed.
  returned: when O(state=collected)
  type: list
rounds_done:
  description: The last round that is over on this host; V(all) when all are.
  returned: when O(state=collected)
  type: str
"""

import contextlib
import glob
import json
import os
import shutil
import signal
import stat
import tempfile
import time
import traceback

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_fabric_agent import Agent
from ansible.module_utils.raybench_fabric_end import discover
from ansible.module_utils.raybench_host.files import file_text, first_line
from ansible.module_utils.raybench_host.process import start_ticks

_PREFIX = "raybench-fabric-"
_DISCOVER_SECONDS = 60
_START_SECONDS = 20


def main() -> None:
    """Answer one call of Ansible's."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "required": True,
                "choices": ["discovered", "started", "collected", "stopped"],
            },
            "ports": {"type": "list", "elements": "int", "default": [18500, 18699]},
            "work": {"type": "dict", "default": {}, "no_log": False},
            "run": {"type": "str", "default": ""},
            "folder": {"type": "path", "default": ""},
            "round": {"type": "int", "default": 0},
            "wait_seconds": {"type": "int", "default": 60},
            "last": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    doing = {"discovered": _discovered, "started": _started, "collected": _collected, "stopped": _stopped}
    state = module.params["state"]
    if module.check_mode and state != "discovered":
        module.exit_json(changed=False, skipped=True, msg="nothing is measured in check mode")
    try:
        module.exit_json(**doing[state](module.params))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"fabric tests, {state}: {error}")


def _discovered(parameters):
    def too_late(*_):
        raise OSError(f"the devices could not be read within {_DISCOVER_SECONDS} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(_DISCOVER_SECONDS)
    end = discover(parameters["ports"])
    signal.alarm(0)
    return {"changed": False, "end": end}


def _started(parameters):
    folder = tempfile.mkdtemp(prefix=_prefix(parameters["run"]))
    _touch(folder)
    work = dict(parameters["work"], folder=folder)
    pid = os.fork()
    if pid == 0:
        _become_agent(work, folder)
    os.waitpid(pid, 0)
    if not _appears(os.path.join(folder, "started"), _START_SECONDS):
        log = file_text(os.path.join(folder, "log")) or "it said nothing"
        _end(folder)
        raise OSError(f"the agent did not start: {log.strip()[-500:]}")
    return {"changed": False, "folder": folder}


def _become_agent(work, folder):
    """Leave Ansible's process group and its descriptors, and work until done. Does not return."""
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDWR)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 4096)
    try:
        _write_identity(folder)
        Agent(work).run()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever ends the agent goes into its log
        os.write(2, traceback.format_exc().encode())
        os._exit(1)


def _collected(parameters):
    folder = _own_folder(parameters["folder"])
    end = time.monotonic() + parameters["wait_seconds"]
    done = _rounds_done(folder)
    while time.monotonic() < end and done != "all" and int(done) < parameters["round"] and _is_alive(folder):
        _touch(folder)
        time.sleep(0.25)
        done = _rounds_done(folder)
    alive = bool(_is_alive(folder))
    _touch(folder)
    results = _new_results(folder)
    log = (file_text(os.path.join(folder, "log")) or "").strip()[-1000:]
    if parameters["last"]:
        _end(folder)
    return {"changed": False, "results": results, "rounds_done": done, "alive": alive, "log": log}


def _stopped(parameters):
    pattern = os.path.join(tempfile.gettempdir(), _prefix(parameters["run"]) + "*")
    for folder in [parameters["folder"]] if parameters["folder"] else glob.glob(pattern):
        if os.path.isdir(folder):
            _end(_own_folder(folder))
    return {"changed": False}


def _prefix(run):
    """What the names of a run's folders begin with. Raises ValueError for an id that is no plain word."""
    if not run or not run.replace("-", "").isalnum():
        raise ValueError(f"{run!r} is not the id of a run")
    return f"{_PREFIX}{run}-"


def _own_folder(folder):
    """The folder, if it is one that we made. Raises ValueError else: it is removed with all that is in it."""
    found = os.lstat(folder)
    ours = os.path.basename(folder).startswith(_PREFIX) and found.st_uid == os.geteuid()
    if not ours or not stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{folder} is not a folder of a fabric agent")
    return folder


def _end(folder):
    """End the agent, which ends its processes, and remove its folder."""
    for number, seconds in ((signal.SIGTERM, 8.0), (signal.SIGKILL, 3.0)):
        end = time.monotonic() + seconds
        pid = _is_alive(folder)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while _is_alive(folder) and time.monotonic() < end:
            time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def _write_identity(folder):
    with open(os.path.join(folder, "identity"), "w", encoding="ascii") as file:
        json.dump({"pid": os.getpid(), "since": start_ticks(os.getpid())}, file)


def _is_alive(folder):
    """The agent's process id while it runs: the same id and the same start, so that no other is taken for it."""
    try:
        identity = json.loads(file_text(os.path.join(folder, "identity")) or "{}")
        pid = identity["pid"]
        return pid if start_ticks(pid) == identity["since"] else 0
    except (KeyError, ValueError, TypeError):
        return 0


def _rounds_done(folder):
    return first_line(os.path.join(folder, "rounds")) or "-1"


def _new_results(folder):
    """Results that were not fetched before."""
    mark = os.path.join(folder, "fetched")
    at = int(first_line(mark) or 0)
    try:
        with open(os.path.join(folder, "results"), "rb") as file:
            file.seek(at)
            data = file.read()
    except OSError:
        return []
    whole = data[: data.rfind(b"\n") + 1]
    with open(mark, "w", encoding="ascii") as file:
        file.write(str(at + len(whole)))
    return [json.loads(line) for line in whole.splitlines()]


def _appears(path, seconds):
    end = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.02)
    return os.path.exists(path)


def _touch(folder):
    with contextlib.suppress(OSError), open(os.path.join(folder, "lease"), "a", encoding="ascii"):
        os.utime(os.path.join(folder, "lease"))


if __name__ == "__main__":
    main()
