"""A scenario is a row: what is done to the machine, and what ``raybench diagnose`` must say of the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .hardware import Hardware, parse_nics

UNASKED = "unasked"
Steps = tuple[str, ...]
INIT: Steps = ("init",)
RUN: Steps = ("init", "allreduce", "meet")

# The player knows the ring algorithm in the LL protocol; without it a launch does nothing.
PLAY: Mapping[str, str] = {"FAKEGPU_KERNEL": "play", "NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
GPUDIRECT: Mapping[str, str] = {"FAKEGPU_GDR": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What must be said. ``top`` is the first finding's rule; None where nothing above info may be said.

    ``also`` are further rules to be found, ``never`` rules not to be found above info, ``silent`` not even there.
    ``network``, ``gdr`` and
    ``tcp_fallback`` are what the whole diagnosis says; ``unknown`` where the log cannot tell whether the run was fine.
    """

    top: str | None = None
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    network: str = UNASKED
    gdr: bool | str | None = UNASKED
    tcp_fallback: bool | str | None = UNASKED
    says: str = ""  # a part of the first finding's summary
    unknown: bool = False

    @property
    def exit_code(self) -> int:
        """The exit status of ``raybench diagnose``."""
        return 1 if self.top is not None else 3 if self.unknown else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row. ``broken`` says in words what was done; the rest does it.

    ``hardware`` is what every node has, None for nodes without libibverbs; ``hardware_of`` what a node has instead, by
    number from 1. ``environment`` is every rank's, ``environment_of`` a rank's own, as are ``steps`` and ``steps_of``;
    RANK_LIBRARIES in it is a folder more where libraries are looked for.
    ``prepare`` are shell lines run in a node before the ranks start, by number of the node, 0 for all. ``since`` and
    ``until`` are the releases (MAJOR, MINOR, PATCH) in which it means something. A log without ``proof`` does not show
    the fault: that release came through it, or died without a word. ``mix`` are the tags of the libraries that ranks
    take in turn. ``seconds`` is when ranks that still run are killed, ``grace`` what they get once one has failed.
    What is not ``daily`` is left to the matrix: the tests of every day have a time to keep.
    """

    name: str
    broken: str
    verdict: Verdict
    nodes: int = 2
    ranks_per_node: int = 1
    rails: int = 1
    hardware: Hardware | None = None
    hardware_of: Mapping[int, Hardware | None] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_of: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    steps: Steps = RUN
    steps_of: Mapping[int, Steps] = field(default_factory=dict)
    prepare: Mapping[int, str] = field(default_factory=dict)
    absent: tuple[int, ...] = ()
    since: tuple[int, int, int] = (0, 0, 0)
    until: tuple[int, int, int] = (99, 0, 0)
    proof: str = ""
    mix: tuple[str, ...] = ()
    seconds: float = 20.0
    grace: float = 6.0
    daily: bool = True

    @property
    def is_of_every_day(self) -> bool:
        """Whether one release of it is among the tests of every day: none that waits for a limit of NCCL's own is."""
        return self.daily and self.seconds <= 25 and not self.mix


def machine(nics: str = "", *, gpus: int = 1, peermem: bool = True) -> Hardware:
    """A node's hardware: ``machine("mlx5_0:ib:400")``; with no NICs a node that has libibverbs only."""
    return Hardware(gpus=gpus, nics=parse_nics(nics), peermem=peermem)


IB = machine("mlx5_0:ib:400")
ROCE = machine("mlx5_0:roce:200")
NO_ADAPTER = machine()
