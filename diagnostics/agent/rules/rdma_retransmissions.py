"""RDMA packets are lost on the way and sent again.

Symptom: two or more acknowledgements of a port time out in a minute, or in ten seconds a hundred packets are refused
as out of sequence by the peer, or ten thousand come out of sequence.

Why: packets are dropped between two nodes: a RoCE fabric that is not lossless (PFC or ECN missing on a switch or host),
a bad cable further on, an overloaded link. Each time-out stalls its connection: at NCCL_IB_TIMEOUT=20 for four seconds.

Not when: one single time-out or a few retransmissions, as when a peer ends or a link comes up. Adaptive routing
delivers out of order by design. Packets that EFA retransmits are no finding: it does so by design, too.

Source: NVIDIA, "Understanding mlx5 Linux counters" (local_ack_timeout_err, packet_seq_err, out_of_sequence); the
time-out is 4.096 us * 2^NCCL_IB_TIMEOUT (NCCL, environment variables). The limits on sequence errors are
NVSentinel's, those on time-outs this project's.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.series import series_of
from diagnostics.agent.window import Window

_LIMITS = (  # metric, how many, in how many seconds
    ("ack_timeouts", 2, 60.0),
    ("retransmit_timeouts", 2, 60.0),
    ("packet_sequence_errors", 100, 10.0),
    ("implied_sequence_errors", 100, 10.0),
    ("out_of_sequence", 10_000, 10.0),
)


def check(window: Window) -> Iterator[Observed]:
    """One finding a port, on the first of the limits that is passed."""
    told = set()
    for metric, limit, seconds in _LIMITS:
        for device, name in window.growing("port", metric, seconds):
            count = window.increase(name, seconds)
            if count < limit or device in told:
                continue
            told.add(device)
            since = window.grew_since(name, seconds)
            yield RULE.observed(
                window,
                device=device,
                summary=f"{device}: {count:,.0f} {series_of(name).title} in {max(window.now - since, 1):.0f} s",
                explanation="Packets are lost between this port and a peer; each that times out stalls its connection.",
                since_seconds=since,
                series=(name,),
            )


RULE = LiveRule(
    id="rdma-retransmissions",
    title="RDMA packets are lost and sent again",
    severity="warning",
    check=check,
    longest_interval_seconds=8.0,
    recommended=advice(
        "find-loss",
        "Find where packets are dropped: counters of the switches on the path, PFC and ECN at both ends.",
        "rdma statistic show link <device>",
        "ethtool -S <interface> | grep -i -e discard -e pause -e prio",
    ),
)
