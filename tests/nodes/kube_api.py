"""A simulator of Kubernetes' API server for nodes alone, so that the real kubectl can be called.

No kube-apiserver is in the registries that this project is built from: `test_api_server.py` tries a real one where
there is one (`tests/lab/kubernetes`). This one knows discovery, list, get, and the two kinds
of patch that kubectl sends for nodes; what results is checked by the test against the API's published schema.
"""

import copy
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_VERBS = ["get", "list", "patch", "update"]
_RESOURCES = [
    {
        "name": "nodes",
        "singularName": "node",
        "namespaced": False,
        "kind": "Node",
        "verbs": _VERBS,
        "shortNames": ["no"],
    },
    {
        "name": "nodes/status",
        "singularName": "",
        "namespaced": False,
        "kind": "Node",
        "verbs": ["get", "patch", "update"],
    },
]
_DISCOVERY: Mapping[str, Any] = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": _RESOURCES},
}


class NodeServer(ThreadingHTTPServer):
    """Its ``nodes`` by name, and the ``requests`` that changed one: path, type of patch, patch."""

    daemon_threads = True

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.nodes = {node["metadata"]["name"]: copy.deepcopy(node) for node in nodes}
        self.requests: list[tuple[str, str, Any]] = []
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    server: NodeServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in _DISCOVERY:
            self._answer(200, _DISCOVERY[path])
        elif path == "/api/v1/nodes":
            self._answer(
                200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [*self.server.nodes.values()]}
            )
        else:
            node = self.server.nodes.get(path.removeprefix("/api/v1/nodes/").removesuffix("/status"))
            self._answer(200, node) if node else self._refuse(404, "NotFound", f"{path} not found")

    def do_PATCH(self) -> None:
        path, kind = self.path.partition("?")[0], str(self.headers["Content-Type"])
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = path.removeprefix("/api/v1/nodes/")
        of_status = name.endswith("/status")
        with self.server.lock:
            node = self.server.nodes.get(name.removesuffix("/status"))
            if node is None:
                return self._refuse(404, "NotFound", f"nodes {name} not found")
            version = patch.get("metadata", {}).get("resourceVersion")
            if version not in {None, node["metadata"]["resourceVersion"]}:
                return self._refuse(409, "Conflict", "the object has been modified")
            self.server.requests.append((path, kind, patch))
            # As the API server: a patch of the node leaves its status, and one of the status all but that.
            parts = {"status"} if of_status else {"metadata", "spec"}
            taken = {key: value for key, value in patch.items() if key in parts}
            merged = _merged(node, taken, strategic="strategic" in kind)
            merged["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
            self.server.nodes[name.removesuffix("/status")] = merged
        return self._answer(200, merged)

    def _refuse(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
        self._answer(code, {**status, "code": code})

    def _answer(self, code: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _merged(target: Any, patch: Any, *, strategic: bool) -> Any:
    """RFC 7386; in a strategic merge the conditions of a status are merged by their type, and taints are one value."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            found.pop(key, None)
        elif strategic and key == "conditions":
            rest = {one["type"]: one for one in found.get(key, [])}
            for one in value:
                rest[one["type"]] = {**rest.get(one["type"], {}), **one}
            found[key] = list(rest.values())
        else:
            found[key] = _merged(found.get(key), value, strategic=strategic)
    return found


@contextmanager
def node_server(nodes: list[dict[str, Any]]) -> Iterator[NodeServer]:
    """The server, while the block runs."""
    server = NodeServer(nodes)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
