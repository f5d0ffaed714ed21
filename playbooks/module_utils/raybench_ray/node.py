"""The Ray node that raybench owns on this host: its folder, its launch, its end."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from ..raybench_host.files import replace_file
from ..raybench_host.lock import locked
from ..raybench_host.machine import network_id
from . import owned, supervise, unit
from .address import free_port, own_address
from .errors import NodeError
from .holder import refuse_taken_ports
from .python import NodePython

UNIT = "raybench-ray.service"
_READY = "Ray runtime started."
_LOCK_SECONDS = 150.0
_BUSY = "another raybench works on this host's Ray node; try again"
_UNREGISTERED_SECONDS = 20.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RayNode:
    """The node of one host, as one call of the module sees it."""

    def __init__(self, params: Mapping[str, Any], check_mode: bool) -> None:
        self._params = params
        self._check_mode = check_mode
        self._root = os.geteuid() == 0
        self.folder: str = os.path.abspath(params["folder"] or _default_folder(self._root))
        self.python: str = params["python"] or self._path("venv", "bin", "python")

    def reach(self, state: str) -> dict[str, Any]:
        """Bring the node to a state; returns what the module answers."""
        if state == "prepared":
            return self._prepared()
        if state == "probed":
            return self._probed()
        if not os.path.isdir(self.folder):
            if state == "stopped" or self._check_mode:
                return {"changed": state == "started", "node": {"running": False}}
            raise NodeError(f"the folder {self.folder} is not there; run the whole playbook")
        with locked(self._path("lock"), _LOCK_SECONDS, NodeError(_BUSY)):
            return self._started() if state == "started" else self._stopped()

    # -- prepared and probed ------------------------------------------------------------------------------------------

    def _prepared(self) -> dict[str, Any]:
        changed = self._make_folder()
        facts = self._python().facts() if self._params["python"] else None
        answer = {"changed": changed, "python": facts, "prepared": True, "node": self._look()}
        return {**answer, "network_id": network_id()}

    def _make_folder(self) -> bool:
        """Make the folder for us alone. A folder that somebody else could have put there is refused."""
        made = False
        if not os.path.lexists(self.folder):
            if self._check_mode:
                return True
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            os.mkdir(self.folder, 0o700)
            made = True
        found = self._own_folder()
        if found.st_mode & 0o077 and not self._check_mode:
            os.chmod(self.folder, 0o700)
            made = True
        return made

    def _own_folder(self) -> os.stat_result:
        """The folder's facts. Raises NodeError for one of somebody else, whose programs we would call as ours."""
        found = os.lstat(self.folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise NodeError(f"{self.folder} is not a folder of user {_user()}; remove it, or set ray_node_folder")
        return found

    def _probed(self) -> dict[str, Any]:
        if os.path.lexists(self.folder):
            self._own_folder()
        node = self._look()
        # the one that the node was started with, which may have been named then and only then
        self.python = self._params["python"] or str(node["python"] or self.python)
        result: dict[str, Any] = {"changed": False, "node": node}
        with contextlib.suppress(NodeError):
            result["python"] = self._python().facts()
        if node["running"] and node.get("role") == "head":
            result["gcs"] = self._python().table(
                node["address"], set(self._params["expected"]), self._params["seconds"]
            )
        return result

    def _python(self) -> NodePython:
        return NodePython(self.python, self._environment())

    def _look(self) -> dict[str, Any]:
        """What runs here, as far as it is ours."""
        state = self._state()
        running = owned.runs(state)
        node = {"running": running, "supervisor": state.get("supervisor"), "phase": state.get("phase")}
        for name in ("role", "address", "name", "python"):
            node[name] = state.get(name)
        node["rebooted"] = owned.rebooted(state)
        if running:
            node.update(pid=state["pid"], uptime_seconds=owned.uptime_seconds(state))
        return node

    # -- started ------------------------------------------------------------------------------------------------------

    def _started(self) -> dict[str, Any]:
        if self._check_mode and not os.path.exists(self.python):  # the environment would be built first
            return {"changed": True, "node": self._look()}
        launch = self._launch()
        state = self._state()
        fits = owned.runs(state) and state.get("digest") == launch["record"]["digest"]
        if fits and state.get("phase") == "ready" and (self._params["registered"] or self._is_young(state)):
            return {"changed": False, "node": self._look(), "python": launch["versions"]}
        if self._check_mode:
            return {"changed": True, "node": self._look(), "python": launch["versions"]}
        self._compare(launch["versions"])
        if not os.path.isfile(self._path("token")):
            raise NodeError(f"there is no token in {self.folder}; run the whole playbook")
        self._end(state)
        refuse_taken_ports(launch["command"])
        self._clear_sessions()
        loader: Any = supervise.__loader__  # of the archive that Ansible sent
        self._write("supervise.py", loader.get_source(supervise.__name__))
        self._write("launch.json", json.dumps(launch))
        self._spawn(launch)
        self._await_ready(launch)
        self._write("cluster.json", json.dumps(self._record(launch)))
        return {"changed": True, "node": self._look(), "python": launch["versions"]}

    def _compare(self, versions: Mapping[str, Any]) -> None:
        """Ray takes no node of another Ray, or of another minor version of Python."""
        head = self._params["head_versions"]
        for name, cut in (("ray", 3), ("python", 2)):
            own, its = (str(facts.get(name)).split(".")[:cut] for facts in (versions, head))
            if name in head and own != its:
                told = (name.capitalize(), versions[name], head[name])
                raise NodeError("{} here is {} and on the head {}; give all hosts the same".format(*told))

    def _is_young(self, state: Mapping[str, Any]) -> bool:
        """A node that has just started may not be in the head's table yet."""
        return time.time() - float(state.get("ready_at", 0)) < _UNREGISTERED_SECONDS

    def _launch(self) -> dict[str, Any]:
        """What the supervisor is told. The digest is over all that makes a node another one."""
        facts = self._python().facts()
        address = self._own_address()
        command = self._command(address)
        environment = self._environment()
        head = self._params["head_address"]
        if self._params["role"] == "head":
            head = f"{_bracketed(address)}:{self._params['port']}"
        told = [command, sorted(environment.items()), self._supervisor(), facts, self._token_digest()]
        identity = json.dumps(told, sort_keys=True)
        if self._params["role"] == "head" and facts["ray_client"]:
            command = [*command, f"--ray-client-server-port={free_port()}"]
        return {
            "id": secrets.token_hex(16),
            "command": command,
            "environment": environment,
            "log": self._path("ray.log"),
            "state": self._path("state.json"),
            "ready_text": _READY,
            "versions": facts,
            "record": {
                "digest": hashlib.sha256(identity.encode()).hexdigest(),
                "role": self._params["role"],
                "name": self._params["name"],
                "python": self.python,
                "address": head,
                "node_address": address,
                "files": os.path.realpath(self._path("s")),
                "supervisor": self._supervisor(),
            },
        }

    def _token_digest(self) -> str:
        """A node that runs with another token than the one that is there now has to be started anew."""
        try:
            with open(self._path("token"), "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
        except OSError:
            return ""

    def _command(self, address: str) -> list[str]:
        params = self._params
        if params["role"] == "head":
            role = ["--head", f"--port={params['port']}", "--no-monitor"]
        else:
            role = ["--address={}".format(params["head_address"])]
        words = [self.python, "-m", "ray.scripts.scripts", "start", *role, f"--node-ip-address={address}"]
        named = ["--node-name={}".format(params["name"]), "--temp-dir={}".format(self._path("s"))]
        return [*words, *named, "--disable-usage-stats", *params["options"], "--block"]

    def _environment(self) -> dict[str, str]:
        """Variables of the daemons: the same under systemd and without it. The token is named by its file only."""
        base = {
            "HOME": os.path.expanduser("~"),
            "LANG": "C.UTF-8",
            "LOGNAME": _user(),
            "PATH": f"{os.path.dirname(self.python)}:{_PATH}",
            "USER": _user(),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": self._path("token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
        }
        for name, value in self._params["environment"].items():
            text = value if isinstance(value, str) else json.dumps(value)
            if not name.replace("_", "a").isalnum() or name[:1].isdigit() or "\0" in text:
                raise NodeError(f"ray_node_environment has {name!r}, which cannot be a variable")
            if name in ("RAY_AUTH_TOKEN", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
                raise NodeError(f"ray_node_environment may not set {name}; raybench makes the token itself")
            base[name] = text
        return base

    def _own_address(self) -> str:
        return own_address(
            self._params["address"], self._params["head_address"], required=self._params["address_required"]
        )

    def _supervisor(self) -> str:
        wanted = self._params["supervisor"]
        systemd = self._root and os.path.isdir("/run/systemd/system") and shutil.which("systemctl")
        if wanted == "systemd" and not systemd:
            raise NodeError("ray_node_supervisor is systemd, which needs root and a running systemd")
        return "process" if wanted == "process" or not systemd else "systemd"

    def _spawn(self, launch: Mapping[str, Any]) -> None:
        words = [self.python, "-I", "-S", self._path("supervise.py"), self._path("launch.json")]
        if launch["record"]["supervisor"] == "systemd":
            unit.install(UNIT, words, seconds=self._params["seconds"])
            return
        subprocess.Popen(
            words,
            env={"PATH": _PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _await_ready(self, launch: Mapping[str, Any]) -> None:
        """Wait until Ray says so. A node that did not come up is ended again, and Ray's last words are passed on."""
        deadline = time.monotonic() + self._params["seconds"]
        reason = f"it was not ready within {self._params['seconds']} s"
        while time.monotonic() < deadline:
            state = self._state()
            if state.get("id") == launch["id"]:
                if state.get("phase") == "ready":
                    return
                if state.get("phase") == "ended" or not owned.runs(state):
                    reason = "it ended at once"
                    break
            time.sleep(0.1)
        self._end(self._state())
        raise NodeError(f"Ray did not start: {reason}. Its log, {launch['log']}: {_last_words(launch['log'])}")

    def _record(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        """How a user on this host finds the cluster; see raybench/hosts/own_cluster.py."""
        return {
            "schema": "raybench.cluster/1",
            "address": launch["record"]["address"],
            "token_path": self._path("token"),
        }

    # -- stopped ------------------------------------------------------------------------------------------------------

    def _stopped(self) -> dict[str, Any]:
        state = self._state()
        runs = bool(state) and (owned.runs(state) or bool(owned.marked(state)))
        left = [name for name in ("token", "state.json", "cluster.json", "launch.json") if self._has(name)]
        if not self._check_mode:
            self._end(state)
            for name in left:
                os.unlink(self._path(name))
        ended = {"ended": runs, "running": False, "role": state.get("role"), "name": state.get("name")}
        return {"changed": runs or bool(left), "node": ended}

    def _end(self, state: Mapping[str, Any]) -> None:
        """End what is ours here: by unit, then by process id, then whatever carries this node's id."""
        if self._root:
            unit.remove(UNIT, self._path("supervise.py"))
        left = owned.end(state)
        if left:
            raise NodeError(f"processes of the Ray node do not end: {left}")

    def _clear_sessions(self) -> None:
        """Remove what earlier sessions left: nothing runs in them any more."""
        shutil.rmtree(self._path("s"), ignore_errors=True)

    # -- files --------------------------------------------------------------------------------------------------------

    def _path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def _has(self, name: str) -> bool:
        return os.path.lexists(self._path(name))

    def _state(self) -> dict[str, Any]:
        try:
            with open(self._path("state.json"), encoding="utf-8") as file:
                state = json.load(file)
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _write(self, name: str, text: str) -> None:
        """Write a file for its owner only, whole or not at all."""
        replace_file(self._path(name), text)


def _default_folder(root: bool) -> str:
    return "/var/lib/raybench" if root else f"/var/tmp/raybench-{_user()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _last_words(path: str) -> str:
    try:
        lines = [line.strip() for line in supervise.tail(path).splitlines() if line.strip()]
    except OSError:
        return "it has none"
    telling = [line for line in lines if "Error" in line or "rror:" in line]
    return " | ".join((telling or lines)[-3:])[:900]
