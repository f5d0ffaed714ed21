"""The place of one rank in a run, as its parent hands it over. No torch here: the driver makes these."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAssignment:
    """Who a rank is and whom it meets where.

    ``device_index`` is the GPU among those that the process sees, None for the CPU. ``ranks_on_device`` share
    that GPU (more than one on emulated nodes). ``listen_fd`` is an open listening socket on ``master_port``, in rank 0
    only (None elsewhere: the port is then opened, not inherited).
    """

    rank: int
    local_rank: int
    world_size: int
    ranks_on_machine: int
    backend: str
    master_address: str
    master_port: int
    timeout_seconds: float
    device_index: int | None = None
    listen_fd: int | None = None
    threads: int = 1
    ranks_on_device: int = 1
    ranks_on_node: int = 1
