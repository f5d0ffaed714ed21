"""What a node's link may carry by its negotiated rate, and the most that passed it. Pure."""

from dataclasses import dataclass

from diagnostics.agent.series import split_name
from raybench.documents.run.node_samples import SampledNode
from raybench.timeline.measures import between, rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """The NIC that moved most. ``most_gb_per_second``: sent or received between two readings, the larger."""

    device: str
    gbit_per_second: float
    most_gb_per_second: float

    @property
    def gb_per_second(self) -> float:
        """What the negotiated rate is in GB/s."""
        return self.gbit_per_second / 8

    @property
    def text(self) -> str:
        """``a link of 1.25 GB/s (eth0, 10 Gbit/s)``."""
        return f"a link of {self.gb_per_second:.3g} GB/s ({self.device}, {self.gbit_per_second:g} Gbit/s)"


def link_rate(node: SampledNode, begin: float, end: float) -> LinkRate | None:
    """That of a node within a time; None where the NIC that moved most does not say its rate."""
    moved: dict[str, float] = {}
    for metric in ("sent_bytes", "received_bytes"):
        for name in node.names("nic", metric):
            most = max(between(node, rates(node, name), begin, end), default=0.0) / 1e9
            device = split_name(name).device
            moved[device] = max(moved.get(device, 0.0), most)
    device = max(moved, key=lambda one: moved[one], default="")
    name = f"nic/{device}/rate_gbit_per_s"
    known = between(node, node.values(name), begin, end) if name in node.series else []
    if not known or min(known) <= 0:
        return None
    return LinkRate(device=device, gbit_per_second=min(known), most_gb_per_second=moved[device])
