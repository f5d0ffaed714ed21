"""Which transport each channel uses, and how many channels there are.

``Channel 00/0 : 7[c1000] -> 0[1000] [receive] via NET/IBext/0/GDRDMA`` (2.12+). The number in brackets is a bus id in
hexadecimal (2.5 to 2.18.1) or the device (2.18.3+). The word before it was ``Ring`` up to 2.6.
"""

from diagnostics.parsers.base import Pattern

CHANNEL = (
    r"(?:(?:Channel|Ring|CollNet|Coll) (?P<channel>[\w/.]+) ?: ?)?"
    r"(?:(?P<source>\d+)(?:\[[0-9a-f]+\])? -> "
    r"(?P<target>\d+)(?:\[(?P<target_device>[0-9a-f]+)\])? )?"
    r"(?:\[(?P<direction>send|receive)\] )?via "
    r"(?P<transport>NET|P2P|SHM|COLLNET|direct shared memory)(?:/(?P<rest>.*))?"
)

PATTERNS = (
    Pattern(
        kind="channel",
        literal=" via ",
        expression=CHANNEL,
        samples=(
            "Channel 00/0 : 7[c1000] -> 0[1000] [receive] via NET/IBext/0",
            "Channel 03/0 : 11[3] -> 3[3] [send] via NET/NCCL RDMA Plugin v9/3(2)/GDRDMA/Shared",
            "Ring 00 : 1 -> 0 [receive] via NET/Socket/0",
            "Channel 00 : 1[14000] -> 2[48000] via direct shared memory",
            "Channel ... via NET/IB/18/GDRDMA",
        ),
    ),
    Pattern(
        kind="channel-count",
        literal=" coll channels",
        expression=r"(?P<channels>\d+) coll channels,.*?(?P<p2p>\d+) p2p channels",
        samples=("2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer",),
    ),
    Pattern(
        kind="no-transport",
        literal="No transport found",
        expression=r"No transport found (?:for rank (?P<rank>\d+)\[\w+\] -> rank (?P<other_rank>\d+)|!)",
        samples=("No transport found for rank 0[1000] -> rank 8[1000]", "No transport found !"),
    ),
    Pattern(
        kind="connected",
        literal="Connected all ",
        expression=r"Connected all (?P<what>rings|trees)",
        samples=("Connected all rings, use ring PXN 0 GDR 0",),
    ),
    Pattern(
        kind="connected",
        literal="Connected binomial ",
        expression=r"Connected binomial (?P<what>trees)",
        samples=("Connected binomial trees",),
    ),
    Pattern(
        kind="connected",
        literal="Connected NVLS ",
        expression=r"Connected NVLS (?P<what>tree)",
        samples=("Connected NVLS tree",),
    ),
)
