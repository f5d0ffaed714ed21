"""Which host each rank is on, by the lines of channels, where not every rank's start is in the log.

``node2:41:312 [0] NCCL INFO Channel 00/0 : 4[0] -> 5[1] via P2P/IPC``: who sends prints a channel; of those over the
network both ends do, and say which they are from 2.4 on (``[receive]``). Channels name no communicator, so that ranks
of groups may stand where those of the job do: a rank that two hosts claim is on neither.
"""

from collections.abc import Iterable, Mapping

from diagnostics.facts.communicator import Channel, Communicator

_MIN_RING = 3  # of two ranks, a tree has the same channels as a ring


def hosts_of_ranks(world: Communicator | None, channels: Iterable[Channel]) -> Mapping[int, str]:
    """Rank -> the host that its own lines come from, of all ranks that one host alone claims."""
    claims: dict[int, set[str]] = {}
    for member in world.members.values() if world else ():
        claims.setdefault(member.rank, set()).add(member.process[0])
    for channel in channels:
        rank = channel.target if channel.direction == "receive" else channel.source
        if channel.transport == "NET" and channel.direction is None:
            continue
        if rank is not None and channel.event.origin.host:
            claims.setdefault(rank, set()).add(channel.event.origin.host)
    return {rank: next(iter(hosts)) for rank, hosts in claims.items() if len(hosts) == 1 and "" not in hosts}


def ring_size(channels: Iterable[Channel]) -> int | None:
    """How many ranks the one ring has that all channels make; None where they make none, or more than one.

    A ring has every rank of its communicator, so that its end in its beginning shows how many there are.
    """
    following: dict[int, set[int]] = {}
    for channel in channels:
        if channel.source is not None and channel.target is not None:
            following.setdefault(channel.source, set()).add(channel.target)
    if len(following) < _MIN_RING or any(len(ranks) != 1 for ranks in following.values()):
        return None
    rank, seen = 0, set()
    while rank in following and rank not in seen:
        seen.add(rank)
        rank = next(iter(following[rank]))
    return len(seen) if rank == 0 and seen == following.keys() == set(range(len(seen))) else None
