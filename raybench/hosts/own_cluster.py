"""The Ray cluster that ``raybench cluster up`` left running: where it is, and the file with its token.

Two places tell of it: on the machine that brought it up ``$XDG_STATE_HOME/raybench/cluster/cluster.json`` (else
``~/.local/state``), and on each of its nodes ``cluster.json`` in the node's folder. Both are for their owner only.
"""

import getpass
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.documents.reading import DocumentError, document_of
from raybench.errors import UsageError
from raybench.processes.trusted_file import UntrustedFileError, read_trusted

SCHEMA = "raybench.cluster/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCluster:
    """A recorded cluster. ``address`` is empty until its head runs; ``inventory`` and ``hosts`` on the controller."""

    path: Path
    address: str
    token_path: str
    inventory: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": self.token_path}
        object.__setattr__(self, "variables", variables)


def controller_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where the record and the token are on the machine that brings clusters up."""
    source = os.environ if environment is None else environment
    base = source.get("XDG_STATE_HOME") or Path(source.get("HOME") or Path.home(), ".local", "state")
    return Path(base, "raybench", "cluster")


def recorded_cluster() -> OwnCluster | None:
    """The recorded cluster that has an address, of this machine as controller or else as node. None: there is none."""
    return next((cluster for cluster in _records() if cluster.address), None)


def controlled_cluster() -> OwnCluster | None:
    """The cluster that this machine, as controller, brought up or began to bring up."""
    return read_record(controller_folder() / "cluster.json")


def _records() -> Iterator[OwnCluster]:
    for folder in (controller_folder(), node_folder()):
        found = read_record(folder / "cluster.json")
        if found is not None:
            yield found


def node_folder() -> Path:
    """Where a node of a cluster that this user brought up has its files, unless ray_node_folder says otherwise."""
    return Path("/var/lib/raybench" if os.geteuid() == 0 else f"/var/tmp/raybench-{_user()}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


def read_record(path: Path) -> OwnCluster | None:
    """The cluster of one record; None where there is none.

    Raises UsageError for a record that is not ours alone to write, or not a record: it names where our token is sent.
    """
    try:
        data = read_trusted(path)
    except UntrustedFileError as error:
        if not os.path.lexists(path):  # only a folder on the way to it is somebody else's
            return None
        raise UsageError(f"{path}, which names raybench's own cluster, is not used: {error}; {_WAY_OUT}") from error
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{path}, which names raybench's own cluster, cannot be read: {reason}; {_WAY_OUT}") from error
    if data is None:
        return None
    try:
        return _parsed(path, document_of(data, SCHEMA, f"the record of a cluster {path}"))
    except DocumentError as error:
        raise UsageError(f"{error}; {_WAY_OUT}") from error


_WAY_OUT = "remove it, then run 'raybench cluster up' again, or give --address"


def _parsed(path: Path, content: Any) -> OwnCluster:
    lists = all(isinstance(content.get(name) or [], list) for name in ("inventory", "hosts"))
    if not lists or not all(isinstance(content.get(name), str) for name in ("address", "token_path")):
        raise UsageError(f"{path} is not a record of a cluster ({SCHEMA}); {_WAY_OUT}")
    return OwnCluster(
        path=path,
        address=content["address"],
        token_path=content["token_path"],
        inventory=tuple(map(str, content.get("inventory") or ())),
        hosts=tuple(map(str, content.get("hosts") or ())),
    )
