"""``with api_server(folder) as server``: etcd and kube-apiserver, and two accounts.

``admin`` may do all. ``user`` may do what the test grants it, and nothing else.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "RAYBENCH_KUBE_APISERVER"
USER = "raybench"
_START_SECONDS = 120.0


def api_server_available() -> str | None:
    """Why no API server can be had here; None where it can."""
    path = os.environ.get(VARIABLE, "")
    if not path:
        return f"no kube-apiserver: {VARIABLE}=PATH names one (tests/lab/kubernetes/README.md)"
    if not os.access(path, os.X_OK):
        return f"{VARIABLE}={path} is no program"
    missing = [name for name in ("etcd", "kubectl", "openssl") if shutil.which(name) is None]
    return f"the API server needs {', '.join(missing)}" if missing else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A running one. ``admin`` and ``user`` are kubeconfigs; ``version`` is such as ``(1, 34)``."""

    admin: Path
    user: Path
    version: tuple[int, int]

    def kubectl(self, *words: str, text_in: str | None = None, config: Path | None = None) -> str:
        """What kubectl printed. Raises AssertionError with what it said where it failed."""
        environment = {**os.environ, "KUBECONFIG": str(config or self.admin), "HOME": str(self.admin.parent)}
        done = subprocess.run(
            ["kubectl", *words], input=text_in, capture_output=True, text=True, timeout=60, env=environment, check=False
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr[:2000]}"
        return done.stdout

    def create(self, *objects: Mapping[str, Any], words: Sequence[str] = ()) -> None:
        """Create objects as the administrator, by strict validation."""
        content = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("create", "--validate=strict", *words, "-f", "-", text_in=json.dumps(content))

    def get(self, *words: str) -> Any:
        """What there is, as the administrator sees it."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def define(self, definition: Mapping[str, Any]) -> None:
        """Create a custom resource, and wait until objects of it are taken."""
        self.create(definition)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.kubectl("get", definition["spec"]["names"]["plural"])
            except AssertionError:
                assert time.monotonic() < deadline, f"{definition['metadata']['name']} is not taken"
                time.sleep(0.5)
            else:
                return

    def grant(self, rules: Sequence[Mapping[str, Sequence[str]]]) -> None:
        """Let ``user`` do this, in all namespaces."""
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": USER}}
        bound = {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
            "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        self.create({**role, "rules": rules}, bound)


@contextmanager
def server_with_account(folder: Path, rights: Sequence[Mapping[str, Any]]) -> Iterator[ApiServer]:
    """One whose user has these rights and no more. Skips the test where none can be had."""
    reason = api_server_available()
    if reason is not None:
        pytest.skip(reason)
    with api_server(folder) as running:
        running.grant(rights)
        yield running


def act_as_user(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kubectl take the user's account, and nothing of who runs the test."""
    monkeypatch.setenv("KUBECONFIG", str(server.user))
    monkeypatch.setenv("HOME", str(server.user.parent))


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Start both, wait until the server is ready, and end them."""
    ports = _free_ports(3)
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_etcd(folder, ports[0], ports[1]))
        started.append(_kube_apiserver(folder, ports[0], ports[2]))
        admin, user = (_kubeconfig(folder, name, ports[2]) for name in ("admin", USER))
        server = ApiServer(admin=admin, user=user, version=(0, 0))
        _wait(server, started, folder)
        yield ApiServer(admin=admin, user=user, version=_version())
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _etcd(folder: Path, client: int, peer: int) -> "subprocess.Popen[bytes]":
    urls = {"client": f"http://127.0.0.1:{client}", "peer": f"http://127.0.0.1:{peer}"}
    words = ["etcd", f"--data-dir={folder / 'etcd'}", f"--initial-cluster=default={urls['peer']}",
             f"--initial-advertise-peer-urls={urls['peer']}", f"--advertise-client-urls={urls['client']}"]  # fmt: skip
    return _started([*words, *(f"--listen-{kind}-urls={url}" for kind, url in urls.items())], folder / "etcd.log")


def _kube_apiserver(folder: Path, etcd: int, port: int) -> "subprocess.Popen[bytes]":
    key, tokens = folder / "accounts.key", folder / "tokens"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens.write_text(f"token-admin,admin,1,system:masters\ntoken-{USER},{USER},2\n")
    options = {
        "etcd-servers": f"http://127.0.0.1:{etcd}",
        "bind-address": "127.0.0.1",
        "advertise-address": "192.0.2.1",  # loopback is refused; nobody calls it
        "secure-port": port,
        "cert-dir": folder / "certificates",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "service-account-issuer": "https://raybench.invalid",
        "token-auth-file": tokens,
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.0.0.0/24",
        # No controller makes the accounts, nor takes away a new node's taint of being not ready.
        "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
    }
    words = [os.environ[VARIABLE], *(f"--{name}={value}" for name, value in options.items())]
    return _started(words, folder / "kube-apiserver.log")


def _started(words: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)


def _kubeconfig(folder: Path, name: str, port: int) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": f"token-{name}"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / f"kubeconfig-{name}"
    path.write_text(json.dumps(config))
    return path


def _wait(server: ApiServer, started: Sequence["subprocess.Popen[bytes]"], folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            server.kubectl("get", "--raw", "/readyz")
            server.kubectl("get", "namespace", "default")  # made a moment later
        except AssertionError as error:
            ended = [process for process in started if process.poll() is not None]
            said = "".join(path.read_text(errors="replace")[-1500:] for path in folder.glob("*.log"))
            assert not ended, f"{[str(process.args) for process in ended]} ended: {said}"
            assert time.monotonic() < deadline, f"the API server did not come up: {error}\n{said}"
            time.sleep(0.5)
        else:
            return


def _version() -> tuple[int, int]:
    """Of the program, since one that was built by hand answers with none."""
    told = subprocess.run([os.environ[VARIABLE], "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v([0-9]+)\.([0-9]+)", told)
    return (int(found[1]), int(found[2])) if found and found[1] != "0" else (1, 20)


def _free_ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    try:
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
    finally:
        for each in taken:
            each.close()
