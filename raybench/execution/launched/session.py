"""A run's nodes where the ranks' processes are there already: taken in, grouped by node, and checked. No Ray."""

import contextlib
import os
import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import AuthenticationError

import msgspec

from raybench.config import LAUNCHED, RunConfig
from raybench.documents.run.facts import NodeFacts, typed
from raybench.errors import IncompleteRunError, UsageError
from raybench.execution.launched.linked_node import FutureCalls, LinkedNode
from raybench.execution.launched.links import Link
from raybench.execution.launched.meeting import proven
from raybench.execution.launched.messages import Hello, decode_from_rank
from raybench.execution.node_actors.answers import decode_answer
from raybench.execution.node_actors.node_actors import NodeActorHandle, NodeActors
from raybench.execution.placement import Candidate, PlacementPlan
from raybench.host_ranges import folded

VARIABLE, KEY_VARIABLE = "RAYBENCH_LAUNCHED", "RAYBENCH_LAUNCHED_KEY"
_HELLO_BYTES = 2**20
_FACTS_SECONDS = 60.0
_ACCEPT_SECONDS = 0.5


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that started this run left for it: a listening socket, and how many ranks will come."""

    descriptor: int
    world_size: int


def place_of(environment: Mapping[str, str]) -> Place:
    """Raises UsageError where no launcher's process started this run."""
    try:
        return msgspec.json.decode(environment[VARIABLE], type=Place)
    except (KeyError, msgspec.MsgspecError):
        raise UsageError(
            f"--address {LAUNCHED} is set by 'raybench launch': start the ranks with 'raybench launch torchrun -- run'"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedSession:
    """The ranks' processes, by node. The other fields are those of a session of Ray."""

    nodes: tuple[LinkedNode, ...]
    gpus: tuple[int, ...]
    address: str = LAUNCHED
    emulated: bool = False
    found_by: str = ""

    @property
    def launcher(self) -> str:
        """What started the ranks."""
        return self.nodes[0].links[0].hello.launcher

    def candidates(self) -> tuple[Candidate, ...]:
        """The nodes in the order of their ranks."""
        names = _names([node.links[0].hello.host for node in self.nodes])
        return tuple(
            Candidate(
                node_id=str(index),
                name=name,
                address=_address(self.nodes, index),
                gpu_count=max(gpus, len(node.links)) if gpus else 0,
                cpu_count=len(node.links),
            )
            for index, (name, node, gpus) in enumerate(zip(names, self.nodes, self.gpus, strict=True))
        )

    def config_for(self, config: RunConfig) -> RunConfig:
        """The same on just these nodes. Raises UsageError where it asks for other ones."""
        nodes, each = len(self.nodes), len(self.nodes[0].links)
        for name, wanted, there in (("nodes", config.nodes, nodes), ("gpus-per-node", config.gpus_per_node, each)):
            if wanted not in (None, there):
                raise UsageError(
                    f"--{name} {wanted} after -- is not what {self.launcher} started: {nodes} nodes with {each} ranks "
                    "each; leave it away"
                )
        return replace(config, nodes=nodes, gpus_per_node=each)

    def actors(self, plan: PlacementPlan) -> NodeActors:
        """The nodes as a launch asks them."""
        handles = tuple(
            NodeActorHandle(index=index, node=node, actor=self.nodes[index]) for index, node in enumerate(plan.nodes)
        )
        return NodeActors(handles=handles, group=None, calls=FutureCalls())


@contextlib.contextmanager
def launched_session(environment: Mapping[str, str], seconds: float) -> Iterator[LaunchedSession]:
    """Take in all ranks' processes, and let them go at the end.

    Raises UsageError for ranks that cannot be one run, IncompleteRunError where some do not come in time.
    """
    place = place_of(environment)
    key = bytes.fromhex(environment[KEY_VARIABLE])
    links: list[Link] = []
    try:
        with socket.socket(fileno=os.dup(place.descriptor)) as listener:
            _take_in(links, listener, key, place.world_size, seconds)
        nodes = tuple(LinkedNode(group) for group in nodes_of(links))
        yield LaunchedSession(nodes=nodes, gpus=tuple(_gpus(node) for node in nodes))
    finally:
        for link in links:
            link.close()


def _take_in(links: list[Link], listener: socket.socket, key: bytes, world_size: int, seconds: float) -> None:
    came: queue.SimpleQueue[Link] = queue.SimpleQueue()
    deadline = time.monotonic() + seconds
    listener.settimeout(_ACCEPT_SECONDS)
    while len(links) < world_size:
        with contextlib.suppress(TimeoutError):
            accepted, _ = listener.accept()
            accepted.settimeout(None)
            threading.Thread(target=_welcome, args=(accepted, key, came), daemon=True).start()
        while not came.empty():
            links.append(came.get())
        if time.monotonic() > deadline:
            raise IncompleteRunError(_missing(links, world_size, seconds))


def _welcome(accepted: socket.socket, key: bytes, came: "queue.SimpleQueue[Link]") -> None:
    with contextlib.suppress(OSError, EOFError, AuthenticationError, msgspec.MsgspecError):
        connection = proven(accepted, key)
        hello = decode_from_rank(connection.recv_bytes(_HELLO_BYTES))
        if isinstance(hello, Hello):
            came.put(Link(connection, hello))


def _missing(links: Sequence[Link], world_size: int, seconds: float) -> str:
    there = {link.hello.rank for link in links}
    gone = [str(rank) for rank in range(world_size) if rank not in there]
    return (
        f"{len(there)} of {world_size} ranks came within {seconds:.0f} s; missing: ranks {folded(gone, 20)}. Did the "
        "launcher start them all, and may their machines open connections to that of rank 0?"
    )


def nodes_of(links: Sequence[Link]) -> list[list[Link]]:
    """The ranks by node, in order. Raises UsageError for ranks that are not one run, or lie across nodes."""
    ordered = sorted(links, key=lambda one: one.hello.rank)
    first = ordered[0].hello
    if [one.hello.rank for one in ordered] != list(range(len(ordered))):
        raise UsageError(f"{first.launcher} started a rank twice: {[one.hello.rank for one in ordered][:50]}")
    other = next((one.hello for one in ordered if one.hello.words != first.words), None)
    if other is not None:
        raise UsageError(
            f"rank {other.rank} on {other.host} was started with another command than rank 0: "
            f"'{' '.join(other.words)}', not '{' '.join(first.words)}'"
        )
    each = first.ranks_on_node
    groups = [ordered[begin : begin + each] for begin in range(0, len(ordered), each)]
    for group in groups:
        hosts = {one.hello.host for one in group}
        places = [one.hello.local_rank for one in group]
        if len(group) != each or len(hosts) != 1 or places != list(range(each)):
            raise UsageError(
                f"ranks {group[0].hello.rank} to {group[-1].hello.rank} are on {', '.join(sorted(hosts))}: the ranks "
                f"of a node must follow each other, and be as many on each ({each} on {first.host}). With Open MPI add "
                "--map-by ppr:N:node, with srun --distribution=block --ntasks-per-node=N"
            )
    return groups


def _names(hosts: Sequence[str]) -> list[str]:
    """A name for each node; launchers may have several on one host."""
    seen: Counter[str] = Counter()
    names = []
    for host in hosts:
        seen[host] += 1
        names.append(host if hosts.count(host) == 1 else f"{host}-{seen[host]}")
    return names


def _address(nodes: Sequence[LinkedNode], index: int) -> str:
    """Of rank 0's node the one at which the other nodes found it; of the others theirs on that way."""
    hello = nodes[index].links[0].hello
    if index:
        return hello.address
    others = [node.links[0].hello for node in nodes[1:] if node.links[0].hello.host != hello.host]
    return others[0].reached if others else hello.reached


def _gpus(node: LinkedNode) -> int:
    facts = decode_answer("facts", node.remote("facts").result(_FACTS_SECONDS))
    return len(typed(NodeFacts, facts).gpus or ())
