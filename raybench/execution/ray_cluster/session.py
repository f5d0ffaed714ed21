"""A connection to a Ray cluster: one that runs, or one embedded on this machine."""

import contextlib
import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from raybench.documents.run.cluster import TCP_BACKENDS
from raybench.errors import ClusterUnavailableError
from raybench.execution.node_actors.ray_actor import RayNodeActor
from raybench.execution.placement import Candidate, candidates_of
from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost, prestarted_rank_host
from raybench.execution.ray_cluster.embedded import EmbeddedCluster, check_room, set_ray_variables
from raybench.execution.ray_cluster.found_cluster import find_running
from raybench.execution.ray_cluster.head_facts import check_versions, head_facts, token_problem
from raybench.execution.ray_cluster.ray_calls import call_with_timeout, connection_problem, grpc_problem
from raybench.execution.ray_cluster.visitor import Visitor, check_reached, is_member
from raybench.hosts.own_cluster import recorded_cluster
from raybench.metadata import gpu_facts, interfaces
from raybench.processes.listener import foreign_listener

_CONNECT_SECONDS = 5.0
_JOIN_SECONDS = 30.0
_LEAVE_SECONDS = 5.0
_INWARD = ". This machine is none of its nodes, and they must be able to open connections to it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A joined cluster. ``host_socket``: where emulated nodes find the one process that holds all their ranks.

    ``early``: the rank host that is getting ready on this machine, for its node or the emulated ones. ``found_by`` says
    what named the cluster where the user did not.
    """

    address: str
    emulated: bool
    host_socket: str | None = None
    early: PrestartedRankHost | None = None
    found_by: str = ""

    def candidates(self) -> tuple[Candidate, ...]:
        """Nodes that are alive, in a stable order."""
        import ray

        return candidates_of(ray.nodes())


class Caller(Protocol):
    """What hears of embedding a cluster."""

    def before_embedding(self) -> None:
        """All ranks will be on this machine, and nothing is started yet."""

    def joining(self, address: str) -> None:
        """A running cluster is joined next."""

    def troubled(self) -> None:
        """Embedding failed; what was started is ended next."""


@contextlib.contextmanager
def open_session(
    address: str,
    *,
    nodes: int | None,
    backend: str | None,
    workplace: Path,
    early: PrestartedRankHost | None = None,
    caller: Caller,
) -> Iterator[Session]:
    """Join the cluster at ``address``, or embed one of ``nodes`` nodes, and leave it again.

    ``auto`` takes RAY_ADDRESS, then the cluster that ``raybench cluster up`` left running, then a cluster of this
    machine, then an embedded one; ``local`` always embeds. ``early``: a rank host that imports torch meanwhile, for
    the ranks of this machine. ``workplace``: a folder with a short path, for sockets and files, which
    the caller removes. What ``caller.before_embedding`` raises is passed on.
    Raises ClusterUnavailableError when there is no cluster at an address that was given.
    """
    if address == "auto":
        found = find_running()
        if found is not None:
            caller.joining(found.address)
            with _joined(found.address, workplace, early=early, found_by=found.found_by) as session:
                yield session
            return
    if address in ("auto", "local"):
        caller.before_embedding()
        with _embedded(nodes or 1, embedded_gpus(backend), early, workplace, caller) as session:
            yield session
        return
    caller.joining(address)
    with _joined(address, workplace, early=early) as session:
        yield session


@contextlib.contextmanager
def _joined(
    address: str, workplace: Path, *, early: PrestartedRankHost | None, found_by: str = ""
) -> Iterator[Session]:
    problem = connection_problem(address, _CONNECT_SECONDS)
    if problem is not None:
        raise no_cluster(address, problem)
    problem = None if os.environ.get("RAY_USE_TLS", "0") == "1" else grpc_problem(address, _CONNECT_SECONDS)
    if problem is not None:
        raise ClusterUnavailableError(
            f"what listens at '{address}' is not the head of a Ray cluster ({problem}); check the port: 6379 unless "
            "'ray start' was given another"
        )
    with contextlib.ExitStack() as stack:
        _take_own_token(address)
        visiting = not _head_is_here(address) and _is_outside(address)
        if visiting:
            stack.enter_context(Visitor(address, workplace / "v"))
        _init(address, hint=_INWARD if visiting else "")
        stack.callback(_leave)
        if visiting:
            check_reached(address)
        yield Session(address=address, emulated=False, early=None if visiting else early, found_by=found_by)


def _take_own_token(address: str) -> None:
    """Use the token of a cluster that is raybench's own, unless the user's environment has one.

    Raises ClusterUnavailableError where the token that is to be used is not there: Ray would abort this process.
    """
    own = recorded_cluster()
    # nobody else is told our token
    is_own = own is not None and own.address == address and foreign_listener(address) is None
    if own is not None and is_own and not any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ.update(own.variables)
    problem = token_problem(os.environ)
    if problem is not None:
        raise ClusterUnavailableError(f"the Ray cluster at '{address}' cannot be joined: {problem}")


def _head_is_here(address: str) -> bool:
    """Whether the head listens on this machine, which is then one of its nodes."""
    return address.rpartition(":")[0].strip("[]") in {"127.0.0.1", "::1", "localhost", *interfaces()}


def _is_outside(address: str) -> bool:
    """Whether this machine is outside the cluster. Raises ClusterUnavailableError where it could not join as one."""
    facts = head_facts(address)
    if is_member(facts):
        return False
    check_versions(facts, address)
    return True


@contextlib.contextmanager
def _embedded(
    nodes: int, gpus: Sequence[str], early: PrestartedRankHost | None, workplace: Path, caller: Caller
) -> Iterator[Session]:
    check_room(nodes)
    set_ray_variables()
    with contextlib.ExitStack() as stack:
        host = early or stack.enter_context(prestarted_rank_host(workplace))  # imports torch while Ray starts
        own = workplace / "c"  # whatever names it belongs to the cluster, and is ended with it
        own.mkdir()
        cluster = EmbeddedCluster(folder=own, cpus_per_node=1, gpus=gpu_shares(gpus, nodes), troubled=caller.troubled)
        stack.callback(cluster.close)
        try:
            _init(cluster.address)
        except ClusterUnavailableError:
            caller.troubled()
            raise
        stack.callback(_leave)
        yield Session(address=cluster.address, emulated=True, host_socket=host.socket, early=host)


def no_cluster(address: str, problem: str) -> ClusterUnavailableError:
    """The error where nothing answers at an address."""
    return ClusterUnavailableError(
        f"no Ray cluster answers at '{address}' ({problem}). Start one there with 'ray start --head --port=PORT', "
        "correct --address, or use --address local for an embedded cluster."
    )


def embedded_gpus(backend: str | None) -> list[str]:
    """Ids of the GPUs that embedded nodes share: none for a backend that uses none."""
    return [] if backend in TCP_BACKENDS else own_gpus()


def emulated_candidates(nodes: int, gpus: Sequence[str]) -> tuple[Candidate, ...]:
    """The nodes that embedding would start on this machine, before any is there."""
    return tuple(
        Candidate(node_id="", name=f"node-{number}", address="this machine", gpu_count=len(share), cpu_count=1)
        for number, share in enumerate(gpu_shares(gpus, nodes), start=1)
    )


def gpu_shares(gpus: Sequence[str], nodes: int) -> list[tuple[str, ...]]:
    """GPU ids of each emulated node: this machine's, divided. Where there are fewer than nodes, nodes share them."""
    each = len(gpus) // nodes
    if each:
        return [tuple(gpus[index * each : (index + 1) * each]) for index in range(nodes)]
    return [(gpus[index % len(gpus)],) if gpus else () for index in range(nodes)]


def own_gpus() -> list[str]:  # gpu: ray-shared-gpu
    """Ids of the GPUs that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return list(takewhile(_names_gpu, (identity.strip() for identity in named.split(","))))
    return [gpu["index"] for gpu in gpu_facts()]


def _names_gpu(identity: str) -> bool:
    """Whether CUDA takes an entry of CUDA_VISIBLE_DEVICES for a GPU: -1, as people write to hide all, ends the list."""
    return identity.isdecimal() or identity.startswith(("GPU-", "MIG-"))


def _init(address: str, *, hint: str = "") -> None:
    """``ray.init`` with a limit in time: against a port that is not Ray's it would try for minutes."""
    outcome: list[BaseException | None] = []
    call_with_timeout(_JOIN_SECONDS, lambda: _try_init(address, outcome), "joining Ray")
    if not outcome:
        raise ClusterUnavailableError(
            f"what listens at '{address}' does not answer as a Ray cluster within {_JOIN_SECONDS:.0f} s; check the "
            "port (6379 unless 'ray start' was given another) and that Ray there has the version of this machine"
            f"{hint}"
        )
    if outcome[0] is not None:
        text = " ".join(str(outcome[0]).split())
        raise ClusterUnavailableError(
            f"the Ray cluster at '{address}' cannot be joined: {text[:500]} (a cluster with token authentication needs "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH; driver and cluster need the same Python and Ray versions)"
            f"{hint}"
        )


def _try_init(address: str, outcome: list[BaseException | None]) -> None:
    # Without the head Ray would end this process after a minute, and with it all that was measured.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "86400")
    gc.disable()  # what an import makes stays: looking for garbage among it takes a quarter of its time
    try:
        from raybench.execution.ray_cluster.data_only import join  # imports Ray
    finally:
        gc.enable()
    try:
        join(address, RayNodeActor)
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds; each becomes the one message above
        outcome.append(error)
    else:
        outcome.append(None)


def _leave() -> None:
    import ray

    call_with_timeout(_LEAVE_SECONDS, ray.shutdown, "leaving Ray")
