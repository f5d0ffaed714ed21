"""The lines that ``raybench train --nsys-command`` prints."""

from collections.abc import Iterator, Sequence

from raybench.launchers.ranks.nsys import OPEN_ADDRESS, nsys_lines
from raybench.launchers.ranks.words import RanksRequest


def nsight_lines(words: Sequence[str], nodes: int | None, gpus_per_node: int | None) -> Iterator[tuple[str, str]]:
    """Launcher and line for a command of raybench; where rank 0 is on several nodes, the user's shell says.

    Raises UsageError for numbers that count no nodes.
    """
    address = OPEN_ADDRESS if nodes is not None and nodes > 1 else None
    request = RanksRequest(nodes=nodes, ranks_per_node=gpus_per_node or 1, master_address=address, python="python3")
    yield from nsys_lines(request, words)
