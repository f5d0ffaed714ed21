"""The running cluster that ``--address auto`` means, and whether what names it can be trusted."""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from raybench.errors import ClusterUnavailableError
from raybench.execution.ray_cluster.ray_calls import connection_problem
from raybench.hosts.own_cluster import OwnCluster, recorded_cluster
from raybench.processes.listener import foreign_listener
from raybench.processes.trusted_file import UntrustedFileError, read_trusted, user_name

_CONNECT_SECONDS = 5.0
_ADDRESS = re.compile(r"[\w.:\[\]-]{1,255}:[0-9]{1,5}")
_LIMIT_BYTES = 300
_CHOICE = "Give --address HOST:PORT for a cluster that you know, or --address local for an embedded one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running cluster that ``auto`` means, and what named it."""

    address: str
    found_by: str


def find_running() -> Running | None:
    """The running cluster that ``auto`` means, or None: RAY_ADDRESS, then raybench's own, then one of this machine.

    RAY_ADDRESS is read as Ray reads it: ``auto`` is the cluster of this machine, ``local`` asks for a new one. Raises
    ClusterUnavailableError when it names a cluster that cannot be joined, when raybench's own does not answer, and when
    a cluster of this machine is named by a file that others can have written, or is somebody else's.
    """
    named = os.environ.get("RAY_ADDRESS", "").strip()
    if named == "local":
        return None
    if named not in ("", "auto"):
        _check_named(named)
        return Running(address=named, found_by="named by RAY_ADDRESS")
    own = recorded_cluster() if not named else None
    if own is not None:
        _check_own(own)
        return Running(address=own.address, found_by=f"brought up by raybench, {own.path}")
    return _of_this_machine()


def _of_this_machine() -> Running | None:
    """What ``ray start`` leaves for ``ray.init("auto")``, looked up here so that Ray itself never does."""
    path = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
    try:
        content = read_trusted(path)
    except UntrustedFileError as error:
        _refuse_if_alive(path, error)
        return None
    except OSError:
        return None
    address = _address_in(content or b"")
    if address is None or connection_problem(address, _CONNECT_SECONDS) is not None:
        return None
    _check_listener(address, str(path))
    return Running(address=address, found_by="of this machine")


def _refuse_if_alive(path: Path, error: UntrustedFileError) -> None:
    """Raises ClusterUnavailableError, unless nothing listens where the file points: its cluster has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            address = _address_in(file.read(_LIMIT_BYTES))
    except OSError:
        return
    if address is not None and connection_problem(address, _CONNECT_SECONDS) is None:
        raise ClusterUnavailableError(
            f"the Ray cluster that {path} names is not joined: {error}, and whoever can write there could have this "
            f"command run programs of theirs. {_CHOICE}"
        ) from error


def _address_in(content: bytes) -> str | None:
    text = content.decode("ascii", errors="replace").strip()
    return text if _ADDRESS.fullmatch(text) else None


def _check_listener(address: str, source: str) -> None:
    """Raises ClusterUnavailableError where somebody else has the port by now, as after a cluster that was killed."""
    foreign_user = foreign_listener(address)
    if foreign_user is not None:
        raise ClusterUnavailableError(
            f"the Ray cluster at '{address}', which {source} names, is not joined: what listens there belongs to "
            f"{user_name(foreign_user)}, who could have this command run programs of theirs. {_CHOICE}"
        )


def _check_own(own: OwnCluster) -> None:
    """Raises ClusterUnavailableError for a cluster on record that is gone: embedding one instead would surprise."""
    problem = connection_problem(own.address, _CONNECT_SECONDS)
    if problem is not None:
        raise ClusterUnavailableError(
            f"the Ray cluster that raybench brought up does not answer at '{own.address}' ({problem}; {own.path}). "
            "Look at it with 'raybench cluster status', bring it back with 'raybench cluster up', end it with "
            "'raybench cluster down', or use --address local for an embedded cluster."
        )
    _check_listener(own.address, str(own.path))


def _check_named(address: str) -> None:
    """Raises ClusterUnavailableError, naming RAY_ADDRESS, for an address from there that is of no use."""
    if "://" in address:
        raise ClusterUnavailableError(
            f"RAY_ADDRESS is '{address}': Ray Client cannot place ranks on nodes. Give HOST:PORT of the head, "
            "port 6379 unless 'ray start' was told otherwise, in RAY_ADDRESS or with --address."
        )
    problem = connection_problem(address, _CONNECT_SECONDS)
    if problem is not None:
        raise ClusterUnavailableError(
            f"no Ray cluster answers at '{address}', which RAY_ADDRESS names ({problem}). Correct or unset it, or "
            "use --address local for an embedded cluster."
        )
