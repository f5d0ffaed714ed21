"""Counters of a port, read before and after a test: what grew, and what of it means trouble. Pure.

Names are those of ``/sys/class/infiniband/DEVICE/ports/PORT/{counters,hw_counters}`` and
``/sys/class/net/INTERFACE/statistics``. Which ones mean what: sysfs-class-infiniband in the kernel's Documentation/ABI,
NVIDIA's description of mlx5 counters, and the drivers of EFA (its retransmissions: Nitro 4 and newer) and rdma_rxe.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Weight = Literal["fault", "loss", "congestion"]

# fault: the link or the NIC itself; loss: packets were lost or came in disorder; congestion: the fabric slowed senders
WEIGHTS: Mapping[str, Weight] = {
    "link_downed": "fault",
    "link_error_recovery": "fault",
    "symbol_error": "fault",
    "port_rcv_errors": "fault",
    "port_rcv_remote_physical_errors": "fault",
    "local_link_integrity_errors": "fault",
    "excessive_buffer_overrun_errors": "fault",
    "rx_icrc_encapsulated": "fault",
    "rx_crc_errors": "fault",
    "rx_frame_errors": "fault",
    "port_xmit_discards": "loss",
    "VL15_dropped": "loss",
    "out_of_sequence": "loss",
    "out_of_seq_request": "loss",
    "packet_seq_err": "loss",
    "rcvd_seq_err": "loss",
    "local_ack_timeout_err": "loss",
    "retry_exceeded_err": "loss",
    "completer_retry_err": "loss",
    "rnr_nak_retry_err": "loss",
    "implied_nak_seq_err": "loss",
    "rx_discards_phy": "loss",
    "retry_rnr_exceeded_err": "loss",
    "rx_drops": "loss",
    "retrans_timeout_events": "loss",
    "unresponsive_remote_events": "loss",
    "rdma_read_wr_err": "loss",
    "rdma_write_wr_err": "loss",
    "impaired_remote_conn_events": "congestion",
    "rx_dropped": "loss",
    "tx_dropped": "loss",
    "rx_errors": "loss",
    "tx_errors": "loss",
    "np_ecn_marked_roce_packets": "congestion",
    "np_cnp_sent": "congestion",
    "rp_cnp_handled": "congestion",
    "port_xmit_wait": "congestion",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A counter that grew during a test."""

    name: str
    by: int
    weight: Weight


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Growth, ...]:
    """Counters of trouble that grew, heaviest first. One that is in only one reading says nothing.

    One that is smaller afterwards was reset, or wrapped; what it counted since is at least its value afterwards.
    """
    found = []
    for name, value in after.items():
        weight = WEIGHTS.get(name)
        if weight is not None and name in before:
            by = value - before[name] if value >= before[name] else value
            if by > 0:
                found.append(Growth(name=name, by=by, weight=weight))
    order = ("fault", "loss", "congestion")
    return tuple(sorted(found, key=lambda growth: (order.index(growth.weight), -growth.by)))
