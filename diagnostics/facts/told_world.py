"""How many ranks and nodes the program and its launcher say that the job has, where NCCL's own lines do not.

What says it first decides: a statement of the framework, then a rank that names the world's size, then a command. Where
statements of one kind contradict each other, nothing is known: several jobs, or a group of ranks among them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from diagnostics.events import Event
from diagnostics.parsers.programs import world


class ToldWorld(NamedTuple):
    """Ranks and nodes of a job; None where nothing tells them."""

    size: int | None
    nodes: int | None


def told_world(events: Mapping[str, Sequence[Event]]) -> ToldWorld:
    """What programs tell of the job's size."""
    said = [_of(event) for event in events.get(world.SAID, ())]
    said += [*_of_elastic(events.get(world.ELASTIC, ())), *_of_accelerate(events.get(world.ACCELERATE, ()))]
    if largest := max(
        (_of(event) for event in events.get(world.RAS, ())), key=lambda told: told.size or 0, default=None
    ):
        said.append(largest)  # of a report of NCCL's RAS service, which lists groups of ranks as well
    levels = [said, *([_of(event) for event in events.get(kind, ())] for kind in (world.BESIDE_A_RANK, world.TYPED))]
    size = _agreed([told.size for told in level] for level in levels)
    nodes = _agreed([told.nodes for told in level] for level in levels)
    nodes = nodes or _nodes_of_ray(events.get(world.RAY, ()), size)
    return ToldWorld(size, nodes) if not (size and nodes) or nodes <= size else ToldWorld(None, None)


def _of(event: Event) -> ToldWorld:
    size, nodes = event.number("size") or event.number("of"), event.number("nodes")
    per_node = event.number("per_node")
    return ToldWorld(size or (nodes * per_node if nodes and per_node else None), nodes)


def _agreed(levels: Iterable[list[int | None]]) -> int | None:
    """What the first level that tells anything agrees on."""
    for level in levels:
        if told := set(level) - {None}:
            return told.pop() if len(told) == 1 else None
    return None


def _of_elastic(events: Sequence[Event]) -> Iterable[ToldWorld]:
    """Of PyTorch's elastic agents, one of a file: as many nodes at least as at most, and how many processes on each."""
    for file in {event.origin.file for event in events}:
        here = [(event.fields["name"], event.number("value")) for event in events if event.origin.file == file]
        told = {name: {value for known, value in here if known == name} for name, _ in here}
        if told.get("min_nodes") == told.get("max_nodes") and len(told.get("min_nodes", ())) == 1:
            nodes = told["min_nodes"].pop()
            each = told.get("nproc_per_node", set())
            yield ToldWorld(nodes * (next(iter(each)) or 0) or None if nodes and len(each) == 1 else None, nodes)


def _of_accelerate(events: Sequence[Event]) -> Iterable[ToldWorld]:
    """Of Hugging Face's accelerate: the number of processes, right behind the environment that they are of."""
    environments = {(event.origin.file, event.origin.line) for event in events if "environment" in event.fields}
    for event in events:
        file, line = event.origin.file, event.origin.line
        if any((file, before) in environments for before in range(line - 3, line)):
            yield ToldWorld(event.number("size"), None)


def _nodes_of_ray(events: Sequence[Event], size: int | None) -> int | None:
    """Nodes of the workers that Ray Train lists, where every one of them is listed."""
    nodes = {event.number("rank"): event.number("node") for event in events}
    return len(set(nodes.values())) if size and len(nodes) == size and nodes.keys() == set(range(size)) else None
