"""What a node's machine did while a benchmark was measured in one launch: who else had its processors."""

import math
from collections import defaultdict
from collections.abc import Sequence

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count, PositiveSeconds, Seconds


class MachineUse(FieldwisePart, frozen=True, kw_only=True):
    """The processors of the machine of a ``rank``, over the ``seconds`` that a benchmark took in a launch.

    ``busy_seconds`` of all ``processors`` together, and ``stolen_seconds``: when they had work and a hypervisor ran
    other virtual machines (proc(5), ``steal``). ``waiting_seconds``: while some task waited for a processor (PSI).
    None is unknown.
    """

    launch: Count
    rank: Count
    seconds: PositiveSeconds
    processors: Count
    busy_seconds: Seconds | None = None
    stolen_seconds: Seconds | None = None
    waiting_seconds: Seconds | None = None

    @property
    def stolen_share(self) -> float | None:
        """Of the time that its processors were wanted: by so much work of processors alone takes longer."""
        if self.busy_seconds is None or self.stolen_seconds is None:
            return None
        wanted = self.busy_seconds + self.stolen_seconds
        return self.stolen_seconds / wanted if wanted > 0 else 0.0

    @property
    def waiting_share(self) -> float | None:
        """Of the time, that in which some task waited for a processor."""
        return None if self.waiting_seconds is None else min(self.waiting_seconds / self.seconds, 1.0)


def stolen_share(uses: Sequence[MachineUse]) -> float | None:
    """The mean over launches of what the node lost that lost most; None where it is not known of all."""
    launches = stolen_shares(uses).values()
    return math.fsum(map(max, launches)) / len(launches) if launches else None


def stolen_shares(uses: Sequence[MachineUse]) -> dict[int, tuple[float, ...]]:
    """By launch what each node lost, in the order of their ranks; empty where it is not known of all."""
    by_launch: dict[int, list[float]] = defaultdict(list)
    for one in sorted(uses, key=lambda use: use.rank):
        if one.stolen_share is None:
            return {}
        by_launch[one.launch].append(one.stolen_share)
    return {launch: tuple(shares) for launch, shares in by_launch.items()}
